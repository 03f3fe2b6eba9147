"""Rotations, once for the whole package. A quaternion is w, x, y, z and turns body into world.

Single vectors are plain tuples: three floats are cheaper in the interpreter than in numpy. The
functions whose name ends in `_rows` take arrays with one row per sample or per robot.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Numbers = Sequence[float] | npt.NDArray[Any]
Rows = npt.NDArray[Any]


def cross(a: Sequence[float], b: Sequence[float]) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def to_world(quaternion: Numbers, vector: Numbers) -> Vector:
    """A vector in the body frame, expressed in the world frame."""
    w, x, y, z = quaternion
    a, b, c = vector
    tx, ty, tz = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    return (
        a + w * tx + y * tz - z * ty,
        b + w * ty + z * tx - x * tz,
        c + w * tz + x * ty - y * tx,
    )


def multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """The rotation `b`, then `a`."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


def conjugate(quaternion: Quaternion) -> Quaternion:
    """The opposite rotation."""
    w, x, y, z = quaternion
    return w, -x, -y, -z


def turn_about(axis: str, angle: float) -> Quaternion:
    """A rotation about x, y or z, rad."""
    w, along = math.cos(angle / 2), math.sin(angle / 2)
    return w, along * (axis == "x"), along * (axis == "y"), along * (axis == "z")


def gravity_in_body(quaternion: Numbers) -> Vector:
    """The unit vector that points down in the world, expressed in the body frame."""
    w, x, y, z = quaternion
    return 2.0 * (w * y - x * z), -2.0 * (y * z + w * x), 2.0 * (x * x + y * y) - 1.0


def tilt(quaternion: Numbers) -> float:
    """The angle between the body's z axis and the vertical, rad."""
    _, x, y, _ = quaternion
    return math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y))))


def heading(quaternion: Numbers) -> float:
    """Yaw, rad: 0 faces along the world's x axis."""
    w, x, y, z = quaternion
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def euler_angles(w: float, x: float, y: float, z: float) -> Vector:
    """Roll, pitch and yaw of a quaternion: rotations about z, then y, then x; rad."""
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x)))),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )


def to_world_rows(quaternions: Rows, vectors: Rows) -> Rows:
    w, axis = quaternions[:, :1], quaternions[:, 1:]
    turned = 2.0 * np.cross(axis, vectors)
    return np.asarray(vectors + w * turned + np.cross(axis, turned))


def to_body_rows(quaternions: Rows, vectors: Rows) -> Rows:
    return to_world_rows(quaternions * np.array((1, -1, -1, -1)), vectors)


def gravity_in_body_rows(quaternions: Rows) -> Rows:
    down = np.broadcast_to(np.array((0.0, 0.0, -1.0)), (len(quaternions), 3))
    return to_body_rows(quaternions, down)


def attitude_of_gravity(gravity: Rows) -> Rows:
    """Quaternions (w, x, y, z) of heading zero, from directions of gravity in the body's axes."""
    x, y, z = (gravity / np.maximum(np.linalg.norm(gravity, axis=1, keepdims=True), 1e-9)).T
    roll, pitch = np.arctan2(-y, -z) / 2, np.arcsin(np.clip(x, -1.0, 1.0)) / 2
    (cr, sr), (cp, sp) = (np.cos(roll), np.sin(roll)), (np.cos(pitch), np.sin(pitch))
    return np.stack((cp * cr, cp * sr, sp * cr, -sp * sr), axis=1)
