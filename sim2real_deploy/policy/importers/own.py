"""Our own policy.yaml, written by hand: what the network observes and sends.

Golden steps, sha256 and the names of the network's inputs are determined at import. A single number
applies to all joints; `offset` defaults to the default pose.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import (
    CommandRanges,
    Estimate,
    HeldJoint,
    Range,
    Statistics,
    Term,
)
from sim2real_deploy.policy.importers import motions
from sim2real_deploy.policy.importers.draft import Answers, Draft, DraftHeldJoint, Numbers, spread
from sim2real_deploy.policy.importers.places import find_network

NAME = "sim2real policy.yaml"
UNKNOWN = "???"  # what `policy new` writes where only the user knows


class _Action(Strict):
    output: str = ""
    scale: Numbers
    offset: Numbers | None = None
    clip: tuple[Range, ...] | Range | None = None
    observed: Literal["raw", "clipped"] = "clipped"
    speeds: tuple[str, ...] = ()


class _Group(Strict):
    input: str = ""
    terms: tuple[Term, ...] = Field(min_length=1)
    clip_first: bool = True
    layout: Literal["by_term", "by_frame"] = "by_term"
    newest: Literal["first", "last"] = "last"
    start: Literal["repeat", "zeros"] = "repeat"


class _Motion(Strict):
    """A motion's file beside this one; or, in a bundle, what is in its network already."""

    file: str = ""
    fps: float | None = Field(default=None, gt=0)  # of a CSV file
    start_s: float = Field(default=0.0, ge=0)
    end_s: float | None = None
    anchor: str
    frames: Any = None
    source: Any = None


class _Written(Strict):
    format: Literal[1] = 1
    name: str = ""
    robot: str
    network: str = ""  # a file beside this one; by default the only one there
    rate_hz: float = Field(gt=0)
    joints: tuple[str, ...] | str  # names, or an order of the robot's file: sdk, gym, isaac
    default_position: Numbers
    kp: Numbers
    kd: Numbers
    held: tuple[HeldJoint, ...] = ()
    action: _Action
    observations: tuple[_Group, ...] = Field(min_length=1)
    command_ranges: CommandRanges
    statistics: tuple[Statistics, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    motion: _Motion | None = None
    # Ignored and determined again, so that a bundle can be imported again after a change.
    recurrence: Any = None
    golden: Any = None
    sha256: Any = None
    provenance: dict[str, Any] = Field(default_factory=dict)


def recognises(file: Path, content: Any) -> bool:
    wanted = {"robot", "joints", "default_position", "action", "observations"}
    return isinstance(content, dict) and wanted <= content.keys()


def read(file: Path, content: Any, answers: Answers) -> Draft:
    unanswered = list(_unanswered(content, ""))
    if unanswered:
        raise Refusal(f"{file}: still to be answered: {', '.join(unanswered)}")
    told = configfile.parse(content, _Written, str(file))
    network = find_network(file, answers.network, told.network)
    count = _count(told, file)
    default = spread(told.default_position, count, f"{file}: default_position")
    offset = told.action.offset
    return Draft(
        source=file,
        network=network,
        joints=told.joints,
        robot=told.robot,
        held=[DraftHeldJoint(held.joint, held.position, held.kp, held.kd) for held in told.held],
        claims={
            "rate_hz": told.rate_hz,
            "default_position": default,
            "kp": spread(told.kp, count, f"{file}: kp"),
            "kd": spread(told.kd, count, f"{file}: kd"),
            "action": {
                "scale": spread(told.action.scale, count, f"{file}: action.scale"),
                "offset": default
                if offset is None
                else spread(offset, count, f"{file}: action.offset"),
                "clip": _clip(told.action.clip, count),
                "observed": told.action.observed,
                "speeds": told.action.speeds,
                **({"output": told.action.output} if told.action.output else {}),
            },
            "observations": [group.model_dump() for group in told.observations],
            "command_ranges": told.command_ranges.model_dump(),
            "statistics": [row.model_dump() for row in told.statistics],
            "estimates": [row.model_dump() for row in told.estimates],
        },
        motion=None if told.motion is None else _motion(told.motion, file, network, told.rate_hz),
        notes={key: str(value) for key, value in told.provenance.items()},
    )


def _motion(told: _Motion, file: Path, network: Path, rate_hz: float) -> motions.RecordedMotion:
    if not told.file:
        return motions.embedded(network, rate_hz, told.anchor)
    settings = {"start_s": told.start_s, "end_s": told.end_s, "body": told.anchor}
    return motions.read(file.parent / told.file, told.fps, settings, f"{file}: motion.fps")


def _unanswered(content: Any, key: str) -> Iterator[str]:
    """The keys where `policy new` left a `???`."""
    if content == UNKNOWN:
        yield key
    if isinstance(content, list):
        content = dict(enumerate(content))
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _unanswered(value, f"{key}.{name}" if key else str(name))


def _count(told: _Written, file: Path) -> int:
    """The number of joints, from their names or from any per-joint list."""
    if not isinstance(told.joints, str):
        return len(told.joints)
    for values in (told.default_position, told.kp, told.kd, told.action.scale):
        if isinstance(values, tuple):
            return len(values)
    raise Refusal(f"{file}: default_position: one value for each joint was expected")


def _clip(clip: tuple[Any, ...] | None, count: int) -> list[Range] | None:
    if clip is None:
        return None
    if len(clip) == 2 and not isinstance(clip[0], tuple):
        return [(clip[0], clip[1])] * count
    return list(clip)
