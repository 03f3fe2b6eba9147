"""Leg odometry from what every robot has: joint encoders, joint torques and an IMU.

A loaded foot stands still on the ground, so the trunk moves relative to it; torques tell which feet
are loaded. The accelerometer bridges the moments in between.
"""

import math

from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.geometry import Vector, cross, gravity_in_body, to_world
from sim2real_deploy.robots.legs import LegKinematics, along, foot_force, minus

GRAVITY = 9.81
LOAD_FROM, LOAD_FULL = 15.0, 40.0  # N: a foot counts from the first on, fully from the second
LEGS_TRUST_S = 0.03  # time constant with which the legs correct the accelerometer
SLIPPING = 0.2  # m/s of disagreement with the estimate at which a foot counts for half
LONGEST_STEP_S = 0.1
_NOWHERE = (0.0, 0.0, 0.0)


def legs_of(spec: RobotSpec) -> list[LegKinematics]:
    """The legs whose geometry is known."""
    place = {name: index for index, name in enumerate(spec.joint_names)}
    return [
        LegKinematics(leg.geometry, tuple(place[name] for name in leg.joints))
        for leg in spec.legs.values()
        if leg.geometry is not None
    ]


class LegOdometry:
    """Position and velocity of the trunk; call `update` with each state, at any rate."""

    def __init__(self, spec: RobotSpec) -> None:
        self._legs = legs_of(spec)
        self.last_ns: int | None = None
        self.position: Vector = _NOWHERE  # m, world: starts at the origin
        self.velocity: Vector = _NOWHERE  # m/s, in the trunk's frame
        self.loads = [0.0] * len(self._legs)  # N on each foot

    @staticmethod
    def possible(spec: RobotSpec) -> bool:
        return bool(spec.legs) and all(leg.geometry for leg in spec.legs.values())

    def update(self, state: RobotState) -> None:
        elapsed = 0.0 if self.last_ns is None else (state.received_ns - self.last_ns) / 1e9
        self.last_ns = state.received_ns
        elapsed = min(max(elapsed, 0.0), LONGEST_STEP_S)
        attitude = state.attitude()
        x, y, z = gravity_in_body(attitude)
        rate_x, rate_y, rate_z = state.rates()
        rate = (rate_x, rate_y, rate_z)
        felt_x, felt_y, felt_z = state.accelerometer.tolist()
        felt = (felt_x + GRAVITY * x, felt_y + GRAVITY * y, felt_z + GRAVITY * z)
        free = minus(felt, cross(rate, self.velocity))
        self.velocity = along(self.velocity, elapsed, free)
        seen, trust = self._from_legs(state, rate, (-x, -y, -z))
        if trust > 0.0:
            share = 1.0 - math.exp(-elapsed * min(trust, 1.0) / LEGS_TRUST_S)
            self.velocity = along(self.velocity, share, minus(seen, self.velocity))
        self.position = along(self.position, elapsed, to_world(attitude, self.velocity))

    def _from_legs(self, state: RobotState, rate: Vector, up: Vector) -> tuple[Vector, float]:
        """The trunk's velocity if the loaded feet roll without slipping, and their number."""
        (q, dq), torque = state.motion().tolist(), state.torque.tolist()
        total = weights = 0.0
        mean = _NOWHERE
        for number, leg in enumerate(self._legs):
            foot, axes, columns = leg.pose(q)
            push = foot_force(columns, [torque[joint] for joint in leg.joints])
            load = -(push[0] * up[0] + push[1] * up[1] + push[2] * up[2])
            self.loads[number] = load
            weight = min(max((load - LOAD_FROM) / (LOAD_FULL - LOAD_FROM), 0.0), 1.0)
            if not weight:
                continue
            turning, moving = rate, cross(rate, foot)
            for joint, axis, column in zip(leg.joints, axes, columns, strict=True):
                speed = dq[joint]
                turning = along(turning, speed, axis)
                moving = along(moving, speed, column)
            radius = (leg.foot_radius * up[0], leg.foot_radius * up[1], leg.foot_radius * up[2])
            seen = minus(cross(turning, radius), moving)
            slip = math.dist(seen, self.velocity) / SLIPPING
            total += weight
            weight /= 1.0 + slip * slip
            weights += weight
            mean = along(mean, weight, seen)
        if not weights:
            return _NOWHERE, 0.0
        return (mean[0] / weights, mean[1] / weights, mean[2] / weights), total
