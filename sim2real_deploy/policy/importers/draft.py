"""The result of every importer: a draft of the contract, with nothing guessed.

What a format leaves open is asked for, all at once, and answered with `--set key=value`. What is
defined in the project's code instead of in the file is taken from there and reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.network import input_sizes

if TYPE_CHECKING:
    from sim2real_deploy.policy.importers.motions import RecordedMotion

Numbers = float | tuple[float, ...]
Range = tuple[float, float]

RANGES_HINT = (
    "the velocities it was trained on: '{vx: [-1, 1], vy: [-0.4, 0.4], wz: [-1, 1]}', m/s and rad/s"
)


# If a file has none: what nearly every walking policy was trained for. Commands are clipped to
# these, so ranges that are too small only cost speed.
ASSUMED_RANGES = {"vx": (-1.0, 1.0), "vy": (-0.4, 0.4), "wz": (-1.0, 1.0)}


class Foreign(BaseModel):
    """Base of models for other projects' files, which may contain more than we use."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class DraftHeldJoint:
    """A joint that the policy does not move, by name or motor number, and how it is held."""

    joint: str | int
    position: float
    kp: float
    kd: float


@dataclass(slots=True)
class Draft:
    """A contract without the robot, the names of inputs and outputs, and the golden steps.

    A joint is a name or a motor number on the wire. A single word instead of the list names an
    order in the robot's file: sdk, gym, isaac.
    """

    source: Path  # the file it was read from
    network: Path
    joints: Sequence[str | int] | str
    claims: dict[str, Any]  # the contract's fields, in the policy's joint order
    robot: str | None = None  # its name, if the source gives one
    lies_in: str = ""  # the robot in whose folder the source lies: tried first
    named_after: str = ""  # the robot in the source's file name: tried if the joints fit none
    held: Sequence[DraftHeldJoint] = ()
    notes: dict[str, str] = field(default_factory=dict)  # for the contract's provenance
    assumed: list[str] = field(default_factory=list)  # what was taken from the project's code
    hold_rest: bool = False  # joints that are not named are held at zero
    # Orders that the file leaves open: for each `--set` key its options, the assumed one first.
    open_orders: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # Other forms of the inputs, if only the network can tell which one it takes.
    other_observations: list[list[dict[str, Any]]] = field(default_factory=list)
    makes: int = 0  # numbers that its observations have, once its robot is known
    trusted: str = ""  # which one to believe if file and network disagree: "file" or "network"
    motion: "RecordedMotion | None" = None  # that it follows
    # The order in which per-joint values may be instead of the policy's own; empty: they are not.
    values_in: str = ""
    # The joints in the order of the network's actions, if its observations have them in another.
    action_joints: Sequence[str] = ()


class Answers:
    """What the user said in addition to the files, and what only torch can tell of them."""

    def __init__(
        self,
        given: Mapping[str, Any] | None = None,
        network: Path | None = None,
        robot: str = "",
        torch_sizes: Callable[[Path], Mapping[str, int]] | None = None,
    ) -> None:
        self.given = dict(given or {})
        self._used: set[str] = set()
        self.network = network
        self.robot = robot
        self._torch_sizes = torch_sizes

    def input_size(self, network: Path) -> int | None:
        """How many numbers a network with one input, besides its states, takes; None if it has
        several, or if nothing here reads TorchScript."""
        if network.suffix == ".onnx":
            sizes = input_sizes(network)
        else:
            sizes = dict(self._torch_sizes(network)) if self._torch_sizes else {}
        observed = [size for name, size in sizes.items() if not name.endswith("_in")]
        return observed[0] if len(observed) == 1 else None

    def require(self, source: Path, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The answers to `wanted` (key: what it is); a Refusal asks for all that are missing."""
        self._used |= wanted.keys()
        missing = [
            f"  --set {key}=...   {what}" for key, what in wanted.items() if not self.has(key)
        ]
        if missing:
            raise Refusal(
                f"{source}: does not contain everything that is needed. Add:\n" + "\n".join(missing)
            )
        return {key: self.given[key] for key in wanted}

    def order(
        self, key: str, known: Sequence[Any], draft_orders: dict[str, tuple[Any, ...]]
    ) -> Any:
        """The order that was given; otherwise the first `known` one, noted as open."""
        if not self.has(key):
            draft_orders[key] = tuple(known)
        return self.optional(key, known[0])

    def optional(self, key: str, default: Any) -> Any:
        self._used.add(key)
        return self.given.get(key, default)

    def ranges(self, assumed: list[str]) -> Any:
        """The command ranges that were given; otherwise the usual ones, noted as `assumed`."""
        given = self.optional("command_ranges", None)
        if given is None:
            assumed.append(
                "commands of up to 1 m/s ahead, 0.4 m/s sideways, 1 rad/s (--set command_ranges="
                "'{vx: [-1, 1], vy: [-0.4, 0.4], wz: [-1, 1]}')"
            )
        return given or ASSUMED_RANGES

    def has(self, key: str) -> bool:
        return key in self.given

    def refuse_unused(self, source: Path) -> None:
        unused = sorted(self.given.keys() - self._used)
        if unused:
            raise Refusal(
                f"--set {', '.join(unused)}: {source} defines it already, or has no such setting"
            )


class Format(Protocol):
    """A format in which other projects describe a policy: a module of this package."""

    NAME: str

    def recognises(self, file: Path, content: Any) -> bool:
        """Whether this YAML file, already read, has this format."""

    def read(self, file: Path, content: Any, answers: Answers) -> Draft: ...


class MetadataFormat(Protocol):
    """The same for networks with a description in their metadata."""

    NAME: str

    def recognises(self, network: Path) -> bool: ...

    def read(self, network: Path, answers: Answers) -> Draft: ...


def standing_included(bounds: Range) -> Range:
    """A trained range, extended to include zero: every walk begins with standing still."""
    return min(bounds[0], 0.0), max(bounds[1], 0.0)


class _VelocityRanges(Foreign):
    lin_vel_x: Range
    lin_vel_y: Range
    ang_vel_z: Range


def velocity_ranges(commands: Mapping[str, Any] | None, where: str) -> dict[str, Range] | None:
    """The ranges of the one velocity command, whatever its name, in Isaac Lab's form; None if there
    is none, or more than one."""
    found = [
        configfile.parse(value["ranges"], _VelocityRanges, f"{where}.{name}.ranges")
        for name, value in (commands or {}).items()
        if isinstance(value, dict)
        and isinstance(value.get("ranges"), dict)
        and "lin_vel_x" in value["ranges"]
    ]
    if len(found) != 1:
        return None
    bounds = found[0].lin_vel_x, found[0].lin_vel_y, found[0].ang_vel_z
    return dict(zip(("vx", "vy", "wz"), map(standing_included, bounds), strict=True))


def spread(values: Numbers, count: int, where: str) -> list[float]:
    """One number per joint; a single number applies to all."""
    if isinstance(values, float | int):
        return [float(values)] * count
    if len(values) != count:
        raise Refusal(f"{where}: {len(values)} values for {count} joints")
    return list(values)


def action_clip(
    target_clip: Sequence[Range], scale: Sequence[float], offset: Sequence[float], where: str
) -> list[Range]:
    """Bounds of the joint target, converted to bounds of the network's action."""
    bounds = []
    for i, ((low, high), factor, middle) in enumerate(zip(target_clip, scale, offset, strict=True)):
        if factor == 0:
            raise Refusal(f"{where}: scale.{i}: is 0: that joint could not move")
        ends = sorted(((low - middle) / factor, (high - middle) / factor))
        bounds.append((ends[0], ends[1]))
    return bounds
