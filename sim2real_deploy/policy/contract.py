"""The contract of a policy, policies/<name>/policy.yaml: all that is needed to run it.

Per-joint lists are in the policy's own joint order, given by name in `joints`.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal

Range = tuple[float, float]


class Term(Strict):
    """One observation term: a name in terms.TERMS, and how its values are scaled and clipped."""

    name: str
    scale: float | tuple[float, ...] = 1.0
    clip: Range | None = None
    history: int = Field(default=1, ge=1, le=1000)
    params: dict[str, float | bool | str | tuple[float, ...]] = Field(default_factory=dict)


class Group(Strict):
    """The terms of one network input, in order."""

    input: str
    terms: tuple[Term, ...] = Field(min_length=1)
    clip_first: bool = True  # clip, then scale; else scale, then clip
    layout: Literal["by_term", "by_frame"] = "by_term"  # of the history
    newest: Literal["first", "last"] = "last"
    start: Literal["repeat", "zeros"] = "repeat"  # what fills the history at the first step


class Action(Strict):
    """target = offset + scale * clip(action); `observed` is what the term last_action contains."""

    speeds: tuple[str, ...] = ()  # wheels: their target is a velocity, rad/s

    output: str
    scale: tuple[float, ...]
    offset: tuple[float, ...]
    clip: tuple[Range, ...] | None = None
    observed: Literal["raw", "clipped"] = "clipped"


class Recurrence(Strict):
    """A network state: the output of one step is the input of the next; zeros at the start."""

    input: str
    output: str


class Estimate(Strict):
    """An output beside the action: what the network believes of its robot, value by value."""

    output: str
    names: tuple[str, ...] = Field(min_length=1)
    units: tuple[str, ...]  # "1" for a ratio

    @model_validator(mode="after")
    def _one_unit_each(self) -> "Estimate":
        if len(self.units) != len(self.names):
            raise ValueError(f"units: {len(self.units)} for {len(self.names)} names")
        return self


class HeldJoint(Strict):
    """A joint that the policy neither observes nor moves: held in place while it runs."""

    joint: str
    position: float
    kp: float = Field(ge=0)
    kd: float = Field(ge=0)


class CommandRanges(Strict):
    """The commands it was trained on; the velocity command is clipped to them."""

    vx: Range
    vy: Range
    wz: Range

    @model_validator(mode="after")
    def _hold_zero(self) -> "CommandRanges":
        for axis, (low, high) in (("vx", self.vx), ("vy", self.vy), ("wz", self.wz)):
            if not low <= 0 <= high:
                raise ValueError(f"{axis}: [{low}, {high}] excludes 0, so it could not stand still")
        return self


class Motion(Strict):
    """The recorded motion that it follows. Its frames, at the policy's rate, are in policy.onnx."""

    anchor: str  # the body, in the robot's file, whose orientation is compared with the motion's
    frames: int = Field(gt=1, le=200_000)
    source: str = ""  # the file it was read from


class Statistics(Strict):
    """Mean and standard deviation of each observation in training, to measure how far out of
    distribution an observation is."""

    input: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


class Golden(Strict):
    """One recorded step: inputs by name, and the action that the network must return."""

    inputs: dict[str, tuple[float, ...]]
    action: tuple[float, ...]


class Contract(Strict):
    format: Literal[1]
    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    robot: str = Field(pattern=r"^[A-Za-z0-9_]+$")  # a name, never a path
    rate_hz: float = Field(gt=0, le=1000)
    joints: tuple[str, ...]
    default_position: tuple[float, ...]
    kp: tuple[float, ...]
    kd: tuple[float, ...]
    held: tuple[HeldJoint, ...] = ()
    action: Action
    observations: tuple[Group, ...] = Field(min_length=1)
    recurrence: tuple[Recurrence, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    command_ranges: CommandRanges
    motion: Motion | None = None
    statistics: tuple[Statistics, ...] = ()
    golden: tuple[Golden, ...] = Field(min_length=1)  # consecutive steps from a zero network state
    sha256: str = Field(pattern="^[0-9a-f]{64}$")  # of policy.onnx
    provenance: dict[str, Any]

    @model_validator(mode="after")
    def _lengths(self) -> "Contract":
        joints = len(self.joints)
        every = [*self.joints, *(held.joint for held in self.held)]
        if len(set(every)) != len(every):
            raise ValueError("joints, held: a name is listed more than once")
        for field, values in (
            ("default_position", self.default_position),
            ("kp", self.kp),
            ("kd", self.kd),
            ("action.scale", self.action.scale),
            ("action.offset", self.action.offset),
            ("action.clip", self.action.clip if self.action.clip is not None else self.joints),
        ):
            if len(values) != joints:
                raise ValueError(f"{field}: {len(values)} values for {joints} joints")
        for field, gains in (("kp", self.kp), ("kd", self.kd)):
            if min(gains) < 0:
                raise ValueError(f"{field}: {min(gains)} is negative")
        for i, (low, high) in enumerate(self.action.clip or ()):
            if not low < high:
                raise ValueError(f"action.clip.{i}: {low} is not below {high}")
        strange = [name for name in self.action.speeds if name not in self.joints]
        if strange:
            raise ValueError(f"action.speeds: '{strange[0]}' is not one of the joints")
        inputs = [group.input for group in self.observations]
        inputs += [state.input for state in self.recurrence]
        if len(set(inputs)) != len(inputs):
            raise ValueError("observations, recurrence: an input is fed more than once")
        told = [name for estimate in self.estimates for name in estimate.names]
        outputs = [estimate.output for estimate in self.estimates]
        if len(set(told)) != len(told) or len(set(outputs)) != len(outputs):
            raise ValueError("estimates: a name or an output stands more than once")
        if self.action.output in outputs:
            raise ValueError(f"estimates: '{self.action.output}' is the action")
        return self


def listed(names: str) -> tuple[str, ...]:
    """The policies in a comma-separated list."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def contract_names(names: str) -> tuple[str, ...]:
    """The names in the contracts of a comma-separated list of policies."""
    return tuple(load_contract(name).name for name in listed(names))


def load_contract(name: str) -> Contract:
    """What a policy sees and commands, by its name in policies/ or its folder."""
    return configfile.load(bundle_folder(name) / "policy.yaml", Contract)


def bundle_folder(name: str | Path) -> Path:
    """A bundle's folder, from its name in policies/ or its path."""
    path = Path(name)
    if path.parent == Path() and not (path / "policy.yaml").is_file():
        path = paths.share_directory() / "policies" / path
    if not path.is_dir():
        known = sorted(p.parent.name for p in path.parent.glob("*/policy.yaml"))
        raise Refusal(f"policy '{name}': no folder {path}; there are: {', '.join(known) or 'none'}")
    return path
