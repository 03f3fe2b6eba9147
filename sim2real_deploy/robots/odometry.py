"""Leg odometry from what every robot has: joint encoders, joint torques and an IMU.

A loaded foot stands still on the ground, so the trunk moves relative to it; joint torques tell
which feet are loaded. The accelerometer only bridges the moments in between: integrating it would
drift, so a robot that lies or hangs has no velocity here.

For vertical motion a foot counts only once it has settled. It sinks into the ground as it lands,
before it counts as loaded, and rises again while it does: used at once, each step would lower the
estimate by some millimetres. What remains of this error, `ground.py` removes from the position.
"""

import math

from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.geometry import Vector, cross, gravity_in_body, to_world
from sim2real_deploy.robots.ground import Ground
from sim2real_deploy.robots.legs import LegKinematics, along, dot, foot_force, minus

GRAVITY = 9.81
LOAD_FROM, LOAD_FULL = 15.0, 40.0  # N: a foot counts from the first on, fully from the second
LEGS_TRUST_S = 0.03  # time constant with which the legs correct the accelerometer
SETTLED_S = 0.12  # of load, after which a foot has come to rest in the ground
SETTLING = 4  # until then its vertical weight is this power of the share of that time
SLIPPING = 0.2  # m/s of disagreement with the estimate at which a foot's weight is halved
LONGEST_FLIGHT_S = 0.5  # with no foot loaded for longer, the robot lies or hangs
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
        self._loaded_s = [0.0] * len(self._legs)  # how long each foot has been loaded
        self._unloaded_s = 0.0  # how long no foot has been
        self._ground = Ground(len(self._legs))

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
        feet = self._correct_by_legs(state, rate, (-x, -y, -z), elapsed)
        self._unloaded_s = 0.0 if any(self._loaded_s) else self._unloaded_s + elapsed
        if self._unloaded_s > LONGEST_FLIGHT_S:
            self.velocity = _NOWHERE
        self.position = along(self.position, elapsed, to_world(attitude, self.velocity))
        standing = {number: to_world(attitude, foot) for number, foot in feet.items()}
        self.position = self._ground.correct(self.position, standing, elapsed)

    def _correct_by_legs(
        self, state: RobotState, rate: Vector, up: Vector, elapsed: float
    ) -> dict[int, Vector]:
        """Pull the velocity towards the one at which the loaded feet roll without slipping; returns
        the positions of the feet that have come to rest."""
        (q, dq), torque = state.motion().tolist(), state.torque.tolist()
        level, rising, resting = _Mean(), _Mean(), dict[int, Vector]()
        for number, leg in enumerate(self._legs):
            foot, axes, columns = leg.pose(q)
            push = foot_force(columns, [torque[joint] for joint in leg.joints])
            load = self.loads[number] = -dot(push, up)
            weight = min(max((load - LOAD_FROM) / (LOAD_FULL - LOAD_FROM), 0.0), 1.0)
            if not weight:
                self._loaded_s[number] = 0.0
                continue
            self._loaded_s[number] += elapsed
            turning, moving = rate, cross(rate, foot)
            for joint, axis, column in zip(leg.joints, axes, columns, strict=True):
                speed = dq[joint]
                turning = along(turning, speed, axis)
                moving = along(moving, speed, column)
            radius = (leg.foot_radius * up[0], leg.foot_radius * up[1], leg.foot_radius * up[2])
            seen = minus(cross(turning, radius), moving)
            slip = math.dist(seen, self.velocity) / SLIPPING
            level.add(seen, weight, slip)
            settled = min(self._loaded_s[number] / SETTLED_S, 1.0) ** SETTLING
            rising.add(seen, weight * settled, slip)
            if settled == 1.0:
                resting[number] = foot
        if level.weights:
            error = minus(level.value(), self.velocity)
            along_ground = along(error, -dot(error, up), up)
            self.velocity = along(self.velocity, level.share(elapsed), along_ground)
        if rising.weights:
            error = minus(rising.value(), self.velocity)
            self.velocity = along(self.velocity, rising.share(elapsed) * dot(error, up), up)
        return resting


class _Mean:
    """Mean of the feet's velocities; a foot that slips against the estimate counts less."""

    __slots__ = ("_sum", "_trust", "weights")

    def __init__(self) -> None:
        self._sum, self.weights, self._trust = _NOWHERE, 0.0, 0.0

    def add(self, seen: Vector, weight: float, slip: float) -> None:
        self._trust += weight
        weight /= 1.0 + slip * slip
        self.weights += weight
        self._sum = along(self._sum, weight, seen)

    def value(self) -> Vector:
        x, y, z = self._sum
        return x / self.weights, y / self.weights, z / self.weights

    def share(self, elapsed: float) -> float:
        """The share of the difference to correct in this time."""
        return 1.0 - math.exp(-elapsed * min(self._trust, 1.0) / LEGS_TRUST_S)
