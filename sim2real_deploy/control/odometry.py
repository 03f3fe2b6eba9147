"""Where the robot goes, from what every robot has: joint encoders, joint torques and an IMU.

A foot that carries load stands still on the ground, so the trunk moves against it; the feet that
carry load are known from the torques. The accelerometer fills the moments between.
"""

import math

import numpy as np
import numpy.typing as npt

from sim2real_deploy.policy.observations import gravity_in_body
from sim2real_deploy.robots import RobotSpec, RobotState

Vectors = npt.NDArray[np.float64]

GRAVITY = 9.81
LOAD_FROM, LOAD_FULL = 15.0, 40.0  # N: below the first a foot does not count, above the second full
LEGS_TRUST_S = 0.03  # time constant with which the legs correct the accelerometer
SLIPPING = 0.2  # m/s by which a foot disagrees with the rest before it counts for half
LONGEST_STEP_S = 0.1
_UNIT = np.eye(3)


class LegKinematics:
    """All legs at once, as stacks of matrices: foot positions and Jacobians in the trunk frame."""

    def __init__(self, spec: RobotSpec) -> None:
        shapes = [leg.geometry for leg in spec.legs.values() if leg.geometry is not None]
        names = [leg.joints for leg in spec.legs.values() if leg.geometry is not None]
        self.index = np.array([[spec.joint_names.index(n) for n in row] for row in names])
        self.foot_radius = np.array([[shape.foot_radius] for shape in shapes])
        self._origins = np.array([shape.origins for shape in shapes])
        unit = dict(zip("xyz", _UNIT, strict=True))
        self._axes = np.array([[unit[axis] for axis in shape.axes] for shape in shapes])
        self._cross = cross(_UNIT, self._axes[:, :, None, :])  # K v = axis x v
        self._cross2 = self._cross @ self._cross

    def solve(self, q: Vectors) -> tuple[Vectors, Vectors, Vectors]:
        """Feet (legs, 3), axes and Jacobian columns (legs, joints, 3) for angles (legs, joints)."""
        legs, joints = q.shape
        rotation = np.broadcast_to(_UNIT, (legs, 3, 3))
        place = np.zeros((legs, 3))
        axes, places = np.empty((legs, joints, 3)), np.empty((legs, joints, 3))
        sine, versine = np.sin(q)[..., None, None], (1.0 - np.cos(q))[..., None, None]
        for k in range(joints):
            place = place + (rotation @ self._origins[:, k, :, None])[..., 0]
            places[:, k] = place
            axes[:, k] = (rotation @ self._axes[:, k, :, None])[..., 0]
            turn = _UNIT + sine[:, k] * self._cross[:, k] + versine[:, k] * self._cross2[:, k]
            rotation = rotation @ turn
        feet = place + (rotation @ self._origins[:, joints, :, None])[..., 0]
        return feet, axes, cross(axes, feet[:, None] - places)


class LegOdometry:
    """Position and velocity of the trunk; `update` with each state, at any rate."""

    def __init__(self, spec: RobotSpec) -> None:
        self._legs = LegKinematics(spec)
        self._last_ns: int | None = None
        self.position = np.zeros(3)  # m, world: starts at the origin
        self.velocity = np.zeros(3)  # m/s, in the trunk's frame
        self.loads = np.zeros(len(self._legs.index))  # N on each foot

    @staticmethod
    def possible(spec: RobotSpec) -> bool:
        return bool(spec.legs) and all(leg.geometry for leg in spec.legs.values())

    def update(self, state: RobotState) -> None:
        elapsed = 0.0 if self._last_ns is None else (state.received_ns - self._last_ns) / 1e9
        self._last_ns = state.received_ns
        elapsed = min(max(elapsed, 0.0), LONGEST_STEP_S)
        gravity = np.array(gravity_in_body(state.attitude()))
        rate = state.gyroscope.astype(float)
        free = state.accelerometer + GRAVITY * gravity - cross(rate, self.velocity)
        self.velocity = self.velocity + elapsed * free
        seen, trust = self._from_legs(state, rate, -gravity)
        if trust > 0.0:
            share = 1.0 - math.exp(-elapsed * min(trust, 1.0) / LEGS_TRUST_S)
            self.velocity = self.velocity + share * (seen - self.velocity)
        self.position = self.position + elapsed * rotate(state.quaternion, self.velocity)

    def _from_legs(self, state: RobotState, rate: Vectors, up: Vectors) -> tuple[Vectors, float]:
        """The trunk's velocity if the loaded feet roll without slipping, and their number."""
        legs = self._legs
        speed = state.dq[legs.index].astype(float)
        feet, axes, columns = legs.solve(state.q[legs.index].astype(float))
        torque = state.torque[legs.index].astype(float)
        self.loads = -_solve(columns, torque) @ up
        weight = np.clip((self.loads - LOAD_FROM) / (LOAD_FULL - LOAD_FROM), 0.0, 1.0)
        total = float(weight.sum())
        if total <= 0.0:
            return np.zeros(3), 0.0
        turning = rate + np.einsum("lj,ljk->lk", speed, axes)  # of each foot, seen from the ground
        rolling = cross(turning, legs.foot_radius * up)
        moving = cross(rate, feet) + np.einsum("lj,ljk->lk", speed, columns)
        each = rolling - moving
        slip = np.linalg.norm(each - self.velocity, axis=1) / SLIPPING
        weight = weight / (1.0 + slip * slip)
        return weight @ each / weight.sum(), total


def _solve(columns: Vectors, torque: Vectors) -> Vectors:
    """Force at each foot that the joint torques make: J^T f = tau, least squares per leg."""
    regular = columns.transpose(0, 2, 1) @ columns + 1e-6 * _UNIT
    right = columns.transpose(0, 2, 1) @ torque[..., None]
    force: Vectors = np.linalg.solve(regular, right)[..., 0]
    return force


_YZX, _ZXY = np.array([1, 2, 0]), np.array([2, 0, 1])


def cross(a: Vectors, b: Vectors) -> Vectors:
    """np.cross without its overhead, which is five times the work."""
    product: Vectors = a[..., _YZX] * b[..., _ZXY] - a[..., _ZXY] * b[..., _YZX]
    return product


def rotate(quaternion: npt.NDArray[np.floating], vector: Vectors) -> Vectors:
    """From the body's frame into the world's."""
    w, xyz = float(quaternion[0]), quaternion[1:].astype(float)
    twice = 2.0 * cross(xyz, vector)
    return np.asarray(vector + w * twice + cross(xyz, twice))
