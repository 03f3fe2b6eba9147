"""What every importer ends in: a draft of the contract, with nothing filled in by guessing.

What a format leaves open is asked for, all of it at once, and given with `--set key=value`. What
stands in the code of its project instead of in the file is taken from there, and said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from sim2real_deploy.errors import Refusal

Numbers = float | tuple[float, ...]
Range = tuple[float, float]

RANGES_HINT = (
    "the velocities it was trained on: '{vx: [-1, 1], vy: [-0.4, 0.4], wz: [-1, 1]}', m/s and rad/s"
)


# Where a file has none: what nearly every walking policy was trained for. Commands are clipped to
# them, so what is too small costs speed and nothing else.
ASSUMED_RANGES = {"vx": (-1.0, 1.0), "vy": (-0.4, 0.4), "wz": (-1.0, 1.0)}


class Foreign(BaseModel):
    """Base of what is read from other projects' files: they may say more than we use."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Held:
    """A joint the policy leaves alone, and how it is held meanwhile."""

    joint: str | int
    position: float
    kp: float
    kd: float


@dataclass(slots=True)
class Draft:
    """A contract but for the robot, the names of inputs and outputs, and what the network proves.

    A joint is a name, or a number: its place among the motors on the wire. One word instead of
    the list is an order that the robot's file knows by name: sdk, gym, isaac.
    """

    source: Path  # the file that says all this
    network: Path
    joints: Sequence[str | int] | str
    claims: dict[str, Any]  # the contract's fields, in the policy's joint order
    robot: str | None = None  # its name, where the source gives one
    held: Sequence[Held] = ()
    notes: dict[str, str] = field(default_factory=dict)  # what was taken from where, for provenance
    assumed: list[str] = field(default_factory=list)  # what the file leaves to its project's code
    hold_rest: bool = False  # joints of the robot that are not named stay at zero
    # Orders that the file leaves open: for each `--set` key its known answers, the assumed first.
    open_orders: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # The inputs in other forms, where only the network can tell which it takes.
    other_observations: list[list[dict[str, Any]]] = field(default_factory=list)
    trusted: str = ""  # where file and network disagree on a figure: "file" or "network"
    # Per-joint fields that may stand in the order of the motors instead of the policy's own.
    motor_order: tuple[str, ...] = ()


class Answers:
    """What the user said beside the files."""

    def __init__(
        self,
        given: Mapping[str, Any] | None = None,
        network: Path | None = None,
        robot: str = "",
    ) -> None:
        self.given = dict(given or {})
        self._used: set[str] = set()
        self.network = network
        self.robot = robot

    def require(self, source: Path, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The answers to `wanted` (key: what it is), or a refusal that asks for all missing."""
        self._used |= wanted.keys()
        missing = [
            f"  --set {key}=...   {what}" for key, what in wanted.items() if not self.has(key)
        ]
        if missing:
            raise Refusal(
                f"{source}: does not say all that a robot must know. Give it:\n"
                + "\n".join(missing)
            )
        return {key: self.given[key] for key in wanted}

    def order(
        self, key: str, known: Sequence[Any], draft_orders: dict[str, tuple[Any, ...]]
    ) -> Any:
        """The order that was given; else the first that is `known`, noted as still open."""
        if not self.has(key):
            draft_orders[key] = tuple(known)
        return self.optional(key, known[0])

    def optional(self, key: str, default: Any) -> Any:
        self._used.add(key)
        return self.given.get(key, default)

    def ranges(self, assumed: list[str]) -> Any:
        """The command ranges that were given, or the usual ones, which are then `assumed`."""
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
                f"--set {', '.join(unused)}: {source} says that itself, or it has no such thing"
            )


class Format(Protocol):
    """One way in which other projects write a policy down: a module of this package."""

    NAME: str

    def recognises(self, file: Path, content: Any) -> bool:
        """Whether this YAML file, already read, is of this form."""

    def read(self, file: Path, content: Any, answers: Answers) -> Draft: ...


class MetadataFormat(Protocol):
    """The same for networks that describe themselves."""

    NAME: str

    def recognises(self, network: Path) -> bool: ...

    def read(self, network: Path, answers: Answers) -> Draft: ...


def standing_included(bounds: Range) -> Range:
    """A trained range that leaves out zero, stretched to it: every walk begins with standing."""
    return min(bounds[0], 0.0), max(bounds[1], 0.0)


def spread(values: Numbers, count: int, where: str) -> list[float]:
    """One number for each joint; a single one stands for all."""
    if isinstance(values, float | int):
        return [float(values)] * count
    if len(values) != count:
        raise Refusal(f"{where}: {len(values)} values for {count} joints")
    return list(values)


def action_clip(
    target_clip: Sequence[Range], scale: Sequence[float], offset: Sequence[float], where: str
) -> list[Range]:
    """Where a format clips the joint target, the same bounds on the network's action."""
    bounds = []
    for i, ((low, high), factor, middle) in enumerate(zip(target_clip, scale, offset, strict=True)):
        if factor == 0:
            raise Refusal(f"{where}: scale.{i}: is 0: that joint could not move")
        ends = sorted(((low - middle) / factor, (high - middle) / factor))
        bounds.append((ends[0], ends[1]))
    return bounds
