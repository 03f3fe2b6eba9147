"""The last step before the wire: whatever is asked, the command sent stays inside these limits.

In this order: finite, range, velocity, slew (`STEP`), torque. The torque that the PD law would
produce is limited by moving the target; where the joint range does not let the target move that
far, feed-forward torque makes up the difference. So range and torque limits always hold together.

Computed in double precision and sent in single. limits_reference.py is the same in plain numpy.
"""

from enum import IntEnum
from typing import Any

import numpy as np

from sim2real_deploy.compiled import compiled, quickest
from sim2real_deploy.control import limits_reference
from sim2real_deploy.control.limits_reference import FINITE, RANGE, STEP, TORQUE, VELOCITY
from sim2real_deploy.control.stages import Stage
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats

Array = Any  # a numpy array, as the compiled loops see it


class Limit(IntEnum):
    """Which limits acted: one bit each, one number per joint."""

    FINITE = FINITE
    RANGE = RANGE
    STEP = STEP
    VELOCITY = VELOCITY
    TORQUE = TORQUE


@compiled
def clamp(value: float, low: float, high: float) -> float:
    """`value` within its bounds; NaN stays NaN, and the encoder refuses it."""
    return low if value < low else high if value > high else value


@compiled
def held_torque(torque: float, most: float, dq: float, fastest: float) -> float:
    """A PD torque within its bounds; a joint that is too fast may be braked but not driven."""
    upper = 0.0 if dq > fastest else most
    lower = 0.0 if dq < -fastest else -most
    return clamp(torque, lower, upper)


@compiled
def pd(sent: Array, j: int, q: float, dq: float) -> Any:
    """The torque that a motor board makes of a command at this position and velocity."""
    return sent[2, j] * (sent[0, j] - q) + sent[3, j] * (sent[1, j] - dq) + sent[4, j]


@compiled
def limit_joint(
    asked: Array, j: int, q: float, dq: float, fraction: float, bounds: Array, sent: Array
) -> Any:
    """Write one joint's command into `sent`; returns the limits that acted."""
    low, high, fastest, step = bounds[0, j], bounds[1, j], bounds[2, j], bounds[3, j]
    most = bounds[4, j] * fraction
    goal = clamp(asked[0, j], low, high)
    acted = RANGE * (goal != asked[0, j])
    sent[1, j] = clamp(asked[1, j], -fastest, fastest)
    acted |= VELOCITY * (sent[1, j] != asked[1, j])
    sent[0, j] = clamp(goal, sent[0, j] - step, sent[0, j] + step)
    acted |= STEP * (sent[0, j] != goal)
    sent[2, j], sent[3, j] = asked[2, j], asked[3, j]
    sent[4, j] = clamp(asked[4, j], -most, most)
    acted |= TORQUE * (sent[4, j] != asked[4, j])
    torque = pd(sent, j, q, dq)
    held = held_torque(torque, most, dq, fastest)
    if held != torque:
        acted |= VELOCITY * (abs(dq) > fastest) | TORQUE * (abs(torque) > most)
        if sent[2, j] > 0.0:
            sent[0, j] = clamp(sent[0, j] + (held - torque) / sent[2, j], low, high)
        rest = held - pd(sent, j, q, dq)
        if not abs(rest) <= limits_reference.NEGLIGIBLE:
            sent[4, j] += rest
    return acted


def _limit(
    asked: Array, motion: Array, fraction: float, bounds: Array, sent: Array, acted: Array
) -> bool:
    """Write the limited command into `sent`, which holds the last one on entry. False, with `sent`
    unchanged, if any number is not finite: then none of the command can be trusted."""
    finite = True
    for j in range(acted.size):
        acted[j] = 0
        for row in range(asked.shape[0]):
            if not np.isfinite(asked[row, j]):
                acted[j], finite = FINITE, False
    if finite:
        for j in range(acted.size):
            q, dq = np.float64(motion[0, j]), np.float64(motion[1, j])
            acted[j] = limit_joint(asked, j, q, dq, fraction, bounds, sent)
    return finite


limit = quickest(_limit, limits_reference.limit)


class Limiter:
    """Turns `asked` into the command to send. `sent` is reused from tick to tick; the slew limit
    counts from `sent.q`."""

    def __init__(self, spec: RobotSpec, stage: Stage) -> None:
        margin = np.float32(stage.joint_margin)
        self.low, self.high = spec.position_low + margin, spec.position_high - margin
        for bound in (self.low, self.high):  # a wheel has no target position
            bound[list(spec.wheels)] = 0.0
        self.velocity = spec.velocity_limit * np.float32(stage.joint_velocity_fraction)
        self.torque = spec.torque_limit * np.float32(stage.torque_fraction)
        step = np.full(spec.joint_count, np.float32(stage.joint_step))
        self.bounds = np.array([self.low, self.high, self.velocity, step, self.torque], float)
        self.sent_block = np.zeros((5, spec.joint_count), np.float32)  # q, dq, kp, kd, torque
        self.sent = JointCommand.of_block(self.sent_block)
        self.acted_bits = np.zeros(spec.joint_count, np.uint8)  # bits of `Limit`, by joint
        still = np.zeros((2, spec.joint_count), np.float32)
        # Compiles now, before the loop runs.
        limit(self.sent_block, still, 1.0, self.bounds, self.sent_block.copy(), self.acted_bits)
        self.rest()

    @property
    def acted(self) -> bytes:
        return self.acted_bits.tobytes()

    def rest(self) -> None:
        """Clear `acted`: nothing has been limited in this tick."""
        self.acted_bits.fill(0)

    def restart(self, q: Floats) -> None:
        """Start the slew limit from these joint positions: control did not hold them until now."""
        np.clip(q, self.low, self.high, out=self.sent.q)

    def limit(
        self, asked: JointCommand, state: RobotState, torque_fraction: float
    ) -> JointCommand | None:
        """The command to send at this state; None if `asked` is not finite."""
        values, motion, fraction = asked.block(), state.motion(), float(torque_fraction)
        if limit(values, motion, fraction, self.bounds, self.sent_block, self.acted_bits):
            return self.sent
        return None


def pd_torque(command: JointCommand, state: RobotState) -> Floats:
    """The torques that the motor boards make of a command at this state."""
    torque: Floats = command.kp * (command.q - state.q)
    torque += command.kd * (command.dq - state.dq)
    torque += command.torque
    return torque
