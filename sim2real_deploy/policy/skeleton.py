"""A policy.yaml to fill in, for a network that comes without a description.

What can be read from the network and the robot is filled in; the rest, too, if the user names the
project whose stock task it was trained with (config/policy_presets). What only the user knows is
`???`, and the import refuses such a key until it is answered.
"""

import inspect
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import CommandRanges, Range
from sim2real_deploy.policy.importers import network, places
from sim2real_deploy.policy.importers.own import UNKNOWN
from sim2real_deploy.policy.importers.vocabulary import TERM_ORDERS
from sim2real_deploy.policy.terms import TERMS
from sim2real_deploy.robots import RobotSpec

LONGEST_HISTORY = 30
SCAN = "height_scan"


@dataclass(frozen=True, slots=True)
class Shape:
    """What goes in and out of a network; empty and 0 where that is not known."""

    inputs: Mapping[str, int]
    actions: int

    @property
    def told(self) -> str:
        sizes = [size for name, size in self.inputs.items() if not name.endswith("_in")]
        return f"{' and '.join(map(str, sizes)) or 'unknown'} observations"


def shape_of(file: Path) -> Shape:
    """Of an ONNX file. TorchScript tells its shape only to torch (training/torchscript.py)."""
    if file.suffix != ".onnx":
        return Shape({}, 0)
    return Shape(network.input_sizes(file), network.action_size(file))


class Clock(Strict):
    """The gait clock that a task adds to the usual terms."""

    period: float  # s
    after: str  # the term that it follows
    zero_below: float = 0.0  # m/s: it stands still below that command


class Scan(Strict):
    """The height scan that a task's rough variant observes after everything else."""

    size: tuple[float, float]  # m, along and across
    resolution: float
    offset: float
    clip: Range

    @property
    def count(self) -> int:
        long, wide = (round(side / self.resolution) + 1 for side in self.size)
        return long * wide


class Preset(Strict):
    """What a project's stock task defines and a network file does not contain."""

    about: str
    joints: str | tuple[str, ...]  # an order of the robot's file, or some joints: the rest is held
    default_position: tuple[float, ...]
    kp: float | tuple[float, ...]
    kd: float | tuple[float, ...]
    action_scale: float | tuple[float, ...]
    action_clip: Range | None = None
    observed: Literal["raw", "clipped"]
    order: str
    scales: dict[str, float | tuple[float, ...]]
    layout: Literal["by_term", "by_frame"]
    newest: Literal["first", "last"]
    start: Literal["repeat", "zeros"]
    command_ranges: CommandRanges
    rate_hz: float = 50.0
    clock: Clock | None = None
    scan: Scan | None = None
    speeds: tuple[str, ...] = ()  # wheels, driven by velocity

    @property
    def count(self) -> int:
        """How many joints it moves."""
        return len(self.default_position)


def presets(robot: str) -> dict[str, Preset]:
    """The known stock tasks for a robot, by project."""
    file = paths.config_file("policy_presets") / f"{robot}.yaml"
    if not file.is_file():
        return {}
    content = configfile.read_yaml(file)
    return {
        name: configfile.parse(value, Preset, f"{file}: {name}") for name, value in content.items()
    }


def write_skeleton(
    source: Path, spec: RobotSpec, folder: Path, like: str = "", shape: Shape | None = None
) -> Path:
    """Write a new folder with the network and a policy.yaml to fill in; returns the latter.

    `like` names a project whose stock task fills in what the network does not contain."""
    places.the_network(source)
    if folder.exists():
        raise Refusal(f"{folder}: already exists; nothing is overwritten")
    preset = _preset(like, spec)
    inputs = (shape or shape_of(source)).inputs
    text = "\n".join(_lines(source, spec, preset, inputs or {"": 0})) + "\n"
    folder.mkdir(parents=True)
    shutil.copyfile(source, folder / source.name)
    weights = source.with_name(source.name + ".data")
    if weights.is_file():
        shutil.copyfile(weights, folder / weights.name)
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
    return folder / "policy.yaml"


def _preset(like: str, spec: RobotSpec) -> Preset | None:
    if not like:
        return None
    known = presets(spec.name)
    if like not in known:
        names = ", ".join(known) or "none"
        raise Refusal(f"--like {like}: no such stock task of {spec.name}; there are: {names}")
    return known[like]


def _lines(
    source: Path, spec: RobotSpec, preset: Preset | None, inputs: Mapping[str, int]
) -> Iterator[str]:
    orders = ", ".join(["sdk", *spec.joint_orders])

    def told(field: str) -> str:
        return UNKNOWN if preset is None else _flow(getattr(preset, field))

    yield f"# What {source.name} observes and sends. Replace every {UNKNOWN}, check the rest, then:"
    yield "#   sim2real policy import THIS_FOLDER --output policies/NAME"
    if preset is not None:
        yield f"# Filled in from {preset.about}: change what was trained differently."
    yield f"robot: {spec.name}"
    yield f"network: {source.name}"
    yield f"rate_hz: {told('rate_hz')}  # 1 / (physics timestep x decimation), usually 50"
    yield f"joints: {told('joints')}  # in the network's order: {orders}, or the list of names"
    yield "# In the network's joint order; one number stands for all joints."
    yield "# rad, a list: the pose that joint positions are relative to"
    yield f"default_position: {told('default_position')}"
    yield f"kp: {told('kp')}  # Nm/rad, as trained"
    yield f"kd: {told('kd')}  # Nms/rad, as trained"
    if preset is not None and not isinstance(preset.joints, str):
        yield from _held(spec, preset.joints)
    yield "action:"
    yield f"  scale: {told('action_scale')}  # target = offset + scale x clip(action)"
    yield "  # offset: the default position, unless given"
    clip = None if preset is None else preset.action_clip
    given = "  # clip: [-100, 100]" if clip is None else f"  clip: {_flow(clip)}"
    yield f"{given}  # of the action, before it is scaled"
    observed = "raw" if preset is None else preset.observed
    yield f"  observed: {observed}  # what last_action contains: raw, or clipped"
    if preset is not None and preset.speeds:
        yield f"  speeds: {_flow(preset.speeds)}  # wheels: their target is a velocity"
    yield "observations:"
    for name, size in inputs.items():
        if not name.endswith("_in"):
            yield from _group(name, size, spec, preset)
    yield "command_ranges:  # what it was trained for; commands are clipped to it"
    for axis in ("vx", "vy", "wz"):
        bounds = UNKNOWN if preset is None else _flow(getattr(preset.command_ranges, axis))
        yield f"  {axis}: {bounds}  # [lowest, highest]"
    yield "# The terms (each takes scale, clip and history):"
    for name, forms in TERMS.items():
        yield f"#   {name}{_parameters(forms.scalar)}"


def _held(spec: RobotSpec, moved: tuple[str, ...]) -> Iterator[str]:
    yield "held:  # joints that it does not move, with the robot's own gains"
    for joint in spec.joints:
        if joint.name not in moved:
            gains = f"kp: {joint.kp}, kd: {joint.kd}"
            yield f"  - {{joint: {joint.name}, position: 0.0, {gains}}}"


def _flow(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _group(name: str, size: int, spec: RobotSpec, preset: Preset | None) -> Iterator[str]:
    count = spec.joint_count if preset is None else preset.count
    order = "unitree" if preset is None else preset.order
    scan = None if preset is None else preset.scan
    terms, history = _guess(size, count, order)
    if scan is not None:
        seeing, frames = _guess(size - scan.count, count, order)
        if frames == 1 and seeing != (UNKNOWN,):
            terms, history = (*seeing, SCAN), 1
    told = (
        f"For the network's input '{name}', {size} numbers" if size else "For the network's input"
    )
    yield f"  # {told}. A wrong order is the most common mistake: check it."
    yield f"  - input: '{name}'" if name else "  - input: ''  # found in the network"
    if history > 1:
        layout, newest, start = (
            ("by_frame", "last", "zeros")
            if preset is None
            else (preset.layout, preset.newest, preset.start)
        )
        yield f"    layout: {layout}  # by_frame, or by_term: each term's history together"
        yield f"    newest: {newest}  # last, or first"
        yield f"    start: {start}  # zeros, or repeat: the first frame fills the history"
    yield "    terms:"
    past = f", history: {history}" if history > 1 else ""
    scales = {} if preset is None else preset.scales
    clock = None if preset is None else preset.clock
    for term in _with_clock_in_place(terms, clock):
        if term == SCAN and scan is not None:
            yield _scan(scan, spec)
            continue
        params = f", params: {_clock(clock)}" if term == "gait_phase" else ""
        yield f'      - {{name: "{term}", scale: {_flow(scales.get(term, 1.0))}{past}{params}}}'


def _with_clock_in_place(terms: tuple[str, ...], clock: Clock | None) -> tuple[str, ...]:
    if clock is None or "gait_phase" not in terms:
        return terms
    others = [term for term in terms if term != "gait_phase"]
    place = others.index(clock.after) + 1
    return (*others[:place], "gait_phase", *others[place:])


def _scan(scan: Scan, spec: RobotSpec) -> str:
    params = (
        f"count: {scan.count}, flat: {spec.base_height - scan.offset:.4g}, size: "
        f"{_flow(scan.size)}, resolution: {scan.resolution}, offset: {scan.offset}"
    )
    return f'      - {{name: "{SCAN}", clip: {_flow(scan.clip)}, params: {{{params}}}}}'


def _clock(clock: Clock | None) -> str:
    if clock is None:
        return f'{{period: "{UNKNOWN}"}}'
    return f"{{period: {clock.period}, zero_below: {clock.zero_below}}}"


def _guess(size: int, joints: int, order: str) -> tuple[tuple[str, ...], int]:
    """Terms whose sizes add up to the input's size, and the number of frames."""
    usual = TERM_ORDERS[order]
    plain = 9 + 3 * joints
    for extra, terms in (
        (0, usual),
        (3, ("base_lin_vel", *usual)),
        (2, (*usual, "gait_phase")),
    ):
        frames, rest = divmod(size, plain + extra)
        if size and not rest and 1 <= frames <= LONGEST_HISTORY:
            return terms, frames
    return (UNKNOWN,), 1


def _parameters(scalar: object) -> str:
    parameters = [
        name if parameter.default is inspect.Parameter.empty else f"{name}={parameter.default}"
        for name, parameter in inspect.signature(scalar).parameters.items()  # type: ignore[arg-type]
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    return f"  params: {', '.join(parameters)}" if parameters else ""
