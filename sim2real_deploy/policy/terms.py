"""The table of observation terms, each with its scalar, batch and mirror form.

To add a term, add a function here. The scalar form runs on the robot, in plain Python numbers:
between two policy steps numpy's code drops out of the CPU's caches, the interpreter's does not. Its
keyword-only arguments are the term's parameters in policy.yaml. The batch form computes the term
for many environments at once; a term without one cannot be used in training here. The mirror form
says how the values change when the robot is mirrored left to right.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sim2real_deploy.robots.geometry import euler_angles
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import Numbers


@dataclass(slots=True)
class TermInput:
    """What a scalar term can use: one timestep, joints in the policy's order."""

    gyroscope: Numbers  # rad/s, body frame
    gravity: Numbers  # unit vector of gravity, body frame
    command: Numbers  # vx, vy, wz
    q: Numbers
    default_q: Numbers
    dq: Numbers
    action: Numbers  # the last one; zeros at the start
    time_s: float  # since the policy's first step
    attitude: Numbers = (1.0, 0.0, 0.0, 0.0)  # quaternion, body in world
    velocity: Numbers = (0.0, 0.0, 0.0)  # m/s, body frame, from the odometry
    loads: Numbers = ()  # N on each foot in the robot's leg order, from the odometry
    given: dict[str, Numbers] = field(default_factory=dict)  # extra inputs, by name
    # The frame of a reference motion: joints, and the anchor's orientation inputs from the robot's
    # own anchor (motion.py).
    motion_q: Numbers = ()
    motion_dq: Numbers = ()
    motion_turn: Numbers = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)

    @classmethod
    def nothing(cls, default_q: Numbers, feet: int = 4) -> "TermInput":
        still, upright, rest = (0.0,) * 3, (0.0, 0.0, -1.0), (0.0,) * len(default_q)
        inputs = cls(still, upright, still, default_q, default_q, rest, rest, 0.0)
        inputs.loads = (0.0,) * feet
        inputs.motion_q, inputs.motion_dq = default_q, rest
        return inputs


@dataclass(slots=True)
class BatchInput:
    """What a batch term can use; the first axis is the environment."""

    turning: Floats
    gravity: Floats
    command: Floats
    q: Floats  # relative to the default pose
    dq: Floats
    action: Floats
    phase: Floats  # of the gait clock, 0 to 1
    # Of the base above each point of a height grid; no points without one.
    heights: Floats = field(default_factory=lambda: np.zeros((1, 0), np.float32))


Scalar = Callable[..., Numbers]
Batch = Callable[[BatchInput], Floats]
# Mirrored like the joints, like the points of a height grid, or by a sign per value.
Mirror = Literal["joints", "grid"] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TermForms:
    scalar: Scalar
    batch: Batch | None
    mirror: Mirror | None
    odometry: bool  # uses `velocity` or `loads`, so leg odometry must run
    motion: bool  # uses the frame of a reference motion


TERMS: dict[str, TermForms] = {}
BY_JOINT: Mirror = "joints"
BY_GRID: Mirror = "grid"
# Vectors are mirrored at the plane y = 0; angular rates are axial vectors, with opposite signs.
VECTOR: Mirror = (1, -1, 1)
AXIAL: Mirror = (-1, 1, -1)


def term(
    batch: Batch | None = None,
    mirror: Mirror | None = None,
    odometry: bool = False,
    motion: bool = False,
) -> Callable[[Scalar], Scalar]:
    """Register a scalar form under its function's name, with the other forms."""

    def enter(scalar: Scalar) -> Scalar:
        TERMS[scalar.__name__] = TermForms(scalar, batch, mirror, odometry, motion)
        return scalar

    return enter


@term(batch=lambda batch: batch.turning, mirror=AXIAL)
def base_ang_vel(inputs: TermInput) -> Numbers:
    return inputs.gyroscope


@term(batch=lambda batch: batch.gravity, mirror=VECTOR)
def projected_gravity(inputs: TermInput) -> Numbers:
    return inputs.gravity


@term(mirror=VECTOR, odometry=True)
def base_lin_vel(inputs: TermInput) -> Numbers:
    return inputs.velocity


@term()
def roll_pitch_yaw(inputs: TermInput, *, axes: tuple[float, ...] = (0, 1, 2)) -> Numbers:
    """Euler angles of the body; `axes` selects some of 0 roll, 1 pitch, 2 yaw."""
    angles = euler_angles(*inputs.attitude)
    return [angles[int(axis)] for axis in axes]


@term(batch=lambda batch: batch.command, mirror=(1, -1, -1))
def velocity_command(inputs: TermInput) -> Numbers:
    return inputs.command


@term()
def velocity_command_part(inputs: TermInput, *, axes: tuple[float, ...]) -> Numbers:
    """Part of the velocity command, for a network that takes it in parts: 0 vx, 1 vy, 2 wz."""
    return [inputs.command[int(axis)] for axis in axes]


@term()
def extra_command(inputs: TermInput, *, name: str, default: tuple[float, ...]) -> Numbers:
    """A command besides the velocity: the last one sent as `name`, `default` before."""
    return inputs.given.get(name, default)


@term(batch=lambda batch: batch.heights, mirror=BY_GRID)
def height_scan(
    inputs: TermInput,
    *,
    count: float,
    flat: float = 0.0,
    size: tuple[float, ...] = (),
    resolution: float = 0.0,
    offset: float = 0.0,
) -> Numbers:
    """A grid of heights: the last one sent, flat ground before. `size`, `resolution` and `offset`
    place its points (height_grid.py), so that the twin can fill it."""
    return inputs.given.get("height_scan") or (flat,) * int(count)


@term()
def constant(inputs: TermInput, *, values: tuple[float, ...]) -> Numbers:
    return values


@term(odometry=True)
def foot_contacts(
    inputs: TermInput, *, newtons: float = 20.0, order: tuple[float, ...] = (), lifted: float = 0.0
) -> Numbers:
    """1 for each foot that carries more than `newtons`, else `lifted`. `order` lists indices in the
    robot's leg order, if the network's differs."""
    touching = [1.0 if load > newtons else lifted for load in inputs.loads]
    return [touching[int(place)] for place in order] if order else touching


@term(motion=True)
def motion_command(inputs: TermInput) -> Numbers:
    """The frame's joint positions, then its joint velocities."""
    return [*inputs.motion_q, *inputs.motion_dq]


@term(motion=True)
def motion_joint_pos(inputs: TermInput) -> Numbers:
    return inputs.motion_q


@term(motion=True)
def motion_joint_vel(inputs: TermInput) -> Numbers:
    return inputs.motion_dq


@term(motion=True)
def motion_anchor_ori_b(inputs: TermInput) -> Numbers:
    """The first two columns, row by row, of the rotation from the robot's anchor to the frame's."""
    return inputs.motion_turn


@term(mirror=BY_JOINT)
def joint_pos(inputs: TermInput) -> Numbers:
    return inputs.q


@term(batch=lambda batch: batch.q, mirror=BY_JOINT)
def joint_pos_rel(inputs: TermInput) -> Numbers:
    return [q - at_rest for q, at_rest in zip(inputs.q, inputs.default_q, strict=True)]


@term(batch=lambda batch: batch.dq, mirror=BY_JOINT)
def joint_vel(inputs: TermInput) -> Numbers:
    return inputs.dq


@term(batch=lambda batch: batch.action, mirror=BY_JOINT)
def last_action(inputs: TermInput) -> Numbers:
    return inputs.action


def _clock(batch: BatchInput) -> Floats:
    angle = 2 * np.pi * batch.phase
    return np.stack([np.sin(angle), np.cos(angle)], 1)


# A mirrored trot is the same trot half a period later: both clock values change sign.
@term(batch=_clock, mirror=(-1, -1))
def gait_phase(
    inputs: TermInput,
    *,
    period: float,
    offsets: tuple[float, ...] = (0.0,),
    zero_below: float = 0.0,
    standing: tuple[float, ...] = (),
    part: str = "both",
) -> Numbers:
    """Sines, then cosines, of a clock with `period` seconds, one per offset (in cycles); `part` can
    select "sin" or "cos" alone. While the command's norm is below `zero_below` the values are
    `standing`, by default zeros."""
    if zero_below > 0.0 and math.hypot(*inputs.command) < zero_below:
        return standing or (0.0,) * (len(offsets) * (2 if part == "both" else 1))
    angles = [2.0 * math.pi * ((inputs.time_s / period + offset) % 1.0) for offset in offsets]
    if part != "both":
        return list(map(math.sin if part == "sin" else math.cos, angles))
    return [*map(math.sin, angles), *map(math.cos, angles)]
