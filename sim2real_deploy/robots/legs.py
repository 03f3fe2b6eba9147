"""Leg kinematics in plain floats: for three joints, numpy's overhead is ten times the work."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from sim2real_deploy.robots.geometry import Vector, cross
from sim2real_deploy.robots.spec import LegGeometry

_TRUNK = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))  # x, y and z of the first frame
_AXES = "xyz"
REGULAR = 1e-6  # keeps a stretched leg's forces finite


class LegPose(NamedTuple):
    """In the trunk's frame: the foot's centre, each joint's axis, and how it moves the foot."""

    foot: Vector
    axes: list[Vector]
    columns: list[Vector]  # of the Jacobian


class LegKinematics:
    """A chain of hinges; `joints` are their indices among the robot's joints."""

    def __init__(self, geometry: LegGeometry, joints: tuple[int, ...]) -> None:
        self.joints = joints
        self.foot_radius = geometry.foot_radius
        self.origins = geometry.origins
        self.axes = tuple(_AXES.index(axis) for axis in geometry.axes)

    def pose(self, q: Sequence[float]) -> LegPose:
        """For the angles of all the robot's joints."""
        frame, place = list(_TRUNK), (0.0, 0.0, 0.0)
        axes, places = [], []
        for joint, origin, axis in zip(self.joints, self.origins, self.axes, strict=False):
            place = _step(place, frame, origin)
            places.append(place)
            axes.append(frame[axis])
            _turn(frame, axis, q[joint])
        foot = _step(place, frame, self.origins[-1])
        columns = [cross(axis, minus(foot, at)) for axis, at in zip(axes, places, strict=True)]
        return LegPose(foot, axes, columns)


def foot_force(columns: Sequence[Vector], torques: Sequence[float]) -> Vector:
    """The force at the foot for given joint torques: J^T f = tau, by least squares."""
    a = d = f = REGULAR
    b = c = e = r = s = t = 0.0
    for (x, y, z), torque in zip(columns, torques, strict=True):
        a, b, c = a + x * x, b + x * y, c + x * z
        d, e, f = d + y * y, e + y * z, f + z * z
        r, s, t = r + torque * x, s + torque * y, t + torque * z
    # The inverse of a symmetric matrix of three rows, by its cofactors.
    p, q, u = d * f - e * e, c * e - b * f, b * e - c * d
    v, w, k = a * f - c * c, b * c - a * e, a * d - b * b
    whole = a * p + b * q + c * u
    return (
        (p * r + q * s + u * t) / whole,
        (q * r + v * s + w * t) / whole,
        (u * r + w * s + k * t) / whole,
    )


def minus(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def along(a: Vector, factor: float, b: Vector) -> Vector:
    """a + factor * b"""
    return a[0] + factor * b[0], a[1] + factor * b[1], a[2] + factor * b[2]


def _step(place: Vector, frame: list[Vector], origin: Vector) -> Vector:
    for axis, length in zip(frame, origin, strict=True):
        if length:
            place = along(place, length, axis)
    return place


def _turn(frame: list[Vector], axis: int, angle: float) -> None:
    """Rotate the frame about one of its own axes."""
    one, two = (axis + 1) % 3, (axis + 2) % 3
    cosine, sine = math.cos(angle), math.sin(angle)
    (x, y, z), (i, j, k) = frame[one], frame[two]
    frame[one] = (cosine * x + sine * i, cosine * y + sine * j, cosine * z + sine * k)
    frame[two] = (cosine * i - sine * x, cosine * j - sine * y, cosine * k - sine * z)
