"""What each leg carries, and how fast the trunk moves over a foot that stands: compiled.

robots/legs.py and robots/odometry.py say the same in plain Python; a test holds them to be equal.
"""

import math
from typing import Any

import numpy as np

from sim2real_deploy.compiled import compiled
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.geometry import gravity_in_body
from sim2real_deploy.robots.legs import REGULAR, LegKinematics

Array = Any  # a numpy array, as the compiled loops see it


@compiled
def cross(a: Array, b: Array, out: Array) -> None:
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@compiled
def pose_leg(
    angles: Array, origins: Array, axes: Array, turns: Array, columns: Array, foot: Array
) -> None:
    """The foot's place, each joint's axis (`turns`), and how it moves the foot (`columns`)."""
    count = angles.size
    frame, places, arm = np.eye(3), np.zeros((count, 3)), np.zeros(3)
    foot[:] = 0.0
    for k in range(count):
        for axis in range(3):
            foot += origins[k, axis] * frame[axis]
        places[k], turns[k] = foot, frame[axes[k]]
        one, two = (axes[k] + 1) % 3, (axes[k] + 2) % 3
        cosine, sine = math.cos(angles[k]), math.sin(angles[k])
        for i in range(3):
            x, y = frame[one, i], frame[two, i]
            frame[one, i], frame[two, i] = cosine * x + sine * y, cosine * y - sine * x
    for axis in range(3):
        foot += origins[count, axis] * frame[axis]
    for k in range(count):
        arm[:] = foot - places[k]
        cross(turns[k], arm, columns[k])


@compiled
def force_of(columns: Array, torques: Array, force: Array) -> None:
    """The force at the foot for given joint torques: J^T f = tau, by least squares."""
    a = d = f = REGULAR
    b = c = e = r = s = t = 0.0
    for k in range(torques.size):
        x, y, z, torque = columns[k, 0], columns[k, 1], columns[k, 2], torques[k]
        a, b, c = a + x * x, b + x * y, c + x * z
        d, e, f = d + y * y, e + y * z, f + z * z
        r, s, t = r + torque * x, s + torque * y, t + torque * z
    p, q, u = d * f - e * e, c * e - b * f, b * e - c * d
    v, w, m = a * f - c * c, b * c - a * e, a * d - b * b
    whole = a * p + b * q + c * u
    force[0] = (p * r + q * s + u * t) / whole
    force[1] = (q * r + v * s + w * t) / whole
    force[2] = (u * r + w * s + m * t) / whole


@compiled
def look_at_leg(
    motion: Array,
    torque: Array,
    rate: Array,
    down: Array,
    joints: Array,
    origins: Array,
    axes: Array,
    radius: float,
    velocity: Array,
) -> float:
    """The vertical load on the foot, N; `velocity` is the trunk's if the foot stands still."""
    count = joints.size
    angles, torques = np.zeros(count), np.zeros(count)
    turns, columns = np.zeros((count, 3)), np.zeros((count, 3))
    foot, force, turning, part = np.zeros(3), np.zeros(3), rate.copy(), np.zeros(3)
    for k in range(count):
        angles[k], torques[k] = motion[0, joints[k]], torque[joints[k]]
    pose_leg(angles, origins, axes, turns, columns, foot)
    force_of(columns, torques, force)
    cross(rate, foot, part)
    velocity[:] = -part
    for k in range(count):
        speed = motion[1, joints[k]]
        turning += speed * turns[k]
        velocity -= speed * columns[k]
    cross(turning, -radius * down, part)
    velocity += part
    return float(force[0] * down[0] + force[1] * down[1] + force[2] * down[2])


class LegLook:
    """`at` one leg after another: its load, and the trunk's velocity over its foot."""

    def __init__(self, spec: RobotSpec, legs: list[LegKinematics]) -> None:
        self._legs = [
            (
                np.array(leg.joints, np.int64),
                np.array(leg.origins, np.float64),
                np.array(leg.axes, np.int64),
                float(leg.foot_radius),
            )
            for leg in legs
        ]
        self.velocity = np.zeros(3)
        # Arrays of one type and layout, whatever a state's are: compiled once, before any tick.
        self._motion, self._torque = np.zeros((2, spec.joint_count)), np.zeros(spec.joint_count)
        self._rate, self._down = np.zeros(3), np.zeros(3)
        for leg in range(len(self._legs)):
            self._look(leg)

    def at(self, leg: int, state: RobotState) -> float:
        self._motion[:], self._torque[:] = state.motion(), state.torque
        self._rate[:], self._down[:] = state.rates(), gravity_in_body(state.attitude())
        return self._look(leg)

    def _look(self, leg: int) -> float:
        return look_at_leg(
            self._motion, self._torque, self._rate, self._down, *self._legs[leg], self.velocity
        )
