"""The one table of observation terms, each with its scalar, batch and mirror form.

To add a term, add a function here. The scalar form runs on the robot, in plain numbers: between
two policy steps numpy's code falls out of the processor's caches, the interpreter's does not. Its
keyword-only arguments are the term's parameters in policy.yaml. The batch form is the same for
many environments at once; a term without one cannot be trained on here. The mirror is what the
term's values become on a robot seen in a left-right mirror.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import Numbers


@dataclass(slots=True)
class Seen:
    """What a scalar term may look at: one moment, joints in the policy's own order."""

    gyroscope: Numbers  # rad/s, body frame
    gravity: Numbers  # unit vector of gravity, body frame
    command: Numbers  # vx, vy, wz
    q: Numbers
    default_q: Numbers
    dq: Numbers
    action: Numbers  # the last one; zeros at the start
    time_s: float  # since the policy took over: 0 at its first step

    @classmethod
    def nothing(cls, default_q: Numbers) -> "Seen":
        still, upright, rest = (0.0,) * 3, (0.0, 0.0, -1.0), (0.0,) * len(default_q)
        return cls(still, upright, still, default_q, default_q, rest, rest, 0.0)


@dataclass(slots=True)
class Sight:
    """What a batch term may look at; first axis: environments."""

    turning: Floats
    gravity: Floats
    command: Floats
    q: Floats  # from the default pose
    dq: Floats
    action: Floats
    phase: Floats  # of the gait clock, 0 to 1


Scalar = Callable[..., Numbers]
Batch = Callable[[Sight], Floats]
Mirror = Literal["joints"] | tuple[float, ...]  # as the joints are, or a sign for each value


@dataclass(frozen=True, slots=True)
class TermForms:
    scalar: Scalar
    batch: Batch | None
    mirror: Mirror | None


TERMS: dict[str, TermForms] = {}
BY_JOINT: Mirror = "joints"
# Vectors turn over at the plane y = 0; turning rates are axial and so change the other way round.
VECTOR: Mirror = (1, -1, 1)
AXIAL: Mirror = (-1, 1, -1)


def term(batch: Batch | None = None, mirror: Mirror | None = None) -> Callable[[Scalar], Scalar]:
    """Enter a scalar form into the table under its own name, with the other two."""

    def enter(scalar: Scalar) -> Scalar:
        TERMS[scalar.__name__] = TermForms(scalar, batch, mirror)
        return scalar

    return enter


@term(batch=lambda sight: sight.turning, mirror=AXIAL)
def base_ang_vel(seen: Seen) -> Numbers:
    return seen.gyroscope


@term(batch=lambda sight: sight.gravity, mirror=VECTOR)
def projected_gravity(seen: Seen) -> Numbers:
    return seen.gravity


@term(batch=lambda sight: sight.command, mirror=(1, -1, -1))
def velocity_command(seen: Seen) -> Numbers:
    return seen.command


@term(mirror=BY_JOINT)
def joint_pos(seen: Seen) -> Numbers:
    return seen.q


@term(batch=lambda sight: sight.q, mirror=BY_JOINT)
def joint_pos_rel(seen: Seen) -> Numbers:
    return [q - at_rest for q, at_rest in zip(seen.q, seen.default_q, strict=True)]


@term(batch=lambda sight: sight.dq, mirror=BY_JOINT)
def joint_vel(seen: Seen) -> Numbers:
    return seen.dq


@term(batch=lambda sight: sight.action, mirror=BY_JOINT)
def last_action(seen: Seen) -> Numbers:
    return seen.action


def _clock(sight: Sight) -> Floats:
    angle = 2 * np.pi * sight.phase
    return np.stack([np.sin(angle), np.cos(angle)], 1)


# A trot seen in the mirror is the same trot half a period later: both clock values change sign.
@term(batch=_clock, mirror=(-1, -1))
def gait_phase(
    seen: Seen,
    *,
    period: float,
    offsets: tuple[float, ...] = (0.0,),
    zero_below: float = 0.0,
) -> Numbers:
    """The sines, then the cosines, of a clock of `period` seconds that starts at each offset
    (in turns); all zero while the command's length is below `zero_below`."""
    if zero_below > 0.0 and math.hypot(*seen.command) < zero_below:
        return (0.0,) * (2 * len(offsets))
    angles = [2.0 * math.pi * ((seen.time_s / period + offset) % 1.0) for offset in offsets]
    return [*map(math.sin, angles), *map(math.cos, angles)]
