"""The last gate before the wire: whatever is asked, what is sent stays inside these limits.

The torque that PD would produce is held by moving the target; where the joint range does not let
the target move that far, feed-forward takes off the rest. So range and torque hold together,
always.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.stages import Stage
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats


class Limit(IntEnum):
    """Which limit acted: bits of one number per joint."""

    FINITE = 1
    RANGE = 2
    STEP = 4
    VELOCITY = 8
    TORQUE = 16


def limit_names(acted: int) -> list[str]:
    return [limit.name.lower() for limit in Limit if acted & limit]


class Limiter:
    """`apply` fills `sent` and `acted`; both are reused from tick to tick."""

    def __init__(self, spec: RobotSpec, stage: Stage) -> None:
        count = spec.joint_count
        self.low = spec.position_low + np.float32(stage.joint_margin)
        self.high = spec.position_high - np.float32(stage.joint_margin)
        self.step = np.float32(stage.joint_step)
        self.velocity = spec.velocity_limit * np.float32(stage.joint_velocity_fraction)
        self.torque = spec.torque_limit * np.float32(stage.torque_fraction)
        self.sent_block = np.zeros((5, count), np.float32)  # q, dq, kp, kd, torque
        self.sent = JointCommand(*self.sent_block)
        self.acted = np.zeros(count, np.uint8)
        self._last_q = spec.stand_pose.copy()

    def restart(self, q: Floats) -> None:
        """The next step is counted from here: the robot was not held by us until now."""
        np.clip(q, self.low, self.high, out=self._last_q)

    def apply(
        self, asked: JointCommand, state: RobotState, torque_fraction: float
    ) -> JointCommand | None:
        """What may be sent, or None when a number is not finite: then nothing of it is sound."""
        sent = self.sent
        self.acted.fill(0)
        if not _is_finite(asked):
            self.acted[~np.isfinite(_sum(asked))] = Limit.FINITE
            return None
        np.copyto(sent.kp, asked.kp)
        np.copyto(sent.kd, asked.kd)
        self._clip(asked.q, self.low, self.high, sent.q, Limit.RANGE)
        self._clip(sent.q, self._last_q - self.step, self._last_q + self.step, sent.q, Limit.STEP)
        self._clip(asked.dq, -self.velocity, self.velocity, sent.dq, Limit.VELOCITY)
        most = self.torque * np.float32(torque_fraction)
        self._clip(asked.torque, -most, most, sent.torque, Limit.TORQUE)
        self._hold_torque(state, most)
        np.copyto(self._last_q, sent.q)
        return sent

    def _clip(self, values: Floats, low: Floats, high: Floats, out: Floats, limit: Limit) -> None:
        clipped = np.minimum(np.maximum(values, low), high)  # np.clip takes four times as long
        changed = clipped != values
        if np.count_nonzero(changed):
            self.acted[changed] |= int(limit)
        np.copyto(out, clipped)

    def _hold_torque(self, state: RobotState, most: Floats) -> None:
        """A joint that is too fast may be braked, not driven on."""
        sent = self.sent
        asked = pd_torque(sent, state)
        too_fast = np.abs(state.dq) > self.velocity
        if np.count_nonzero(too_fast):
            upper = np.where(too_fast & (state.dq > 0), np.float32(0), most)
            lower = np.where(too_fast & (state.dq < 0), np.float32(0), -most)
        else:
            upper, lower = most, -most
        held = np.minimum(np.maximum(asked, lower), upper)
        over: npt.NDArray[np.bool_] = held != asked
        if not np.count_nonzero(over):
            return
        self.acted[over & too_fast] |= int(Limit.VELOCITY)
        self.acted[over & (np.abs(asked) > most)] |= int(Limit.TORQUE)
        movable = over & (sent.kp > 0)
        sent.q[movable] += ((held - asked)[movable]) / sent.kp[movable]
        np.clip(sent.q, self.low, self.high, out=sent.q)
        rest = held - pd_torque(sent, state)
        fixed = over & (np.abs(rest) > 1e-3)
        sent.torque[fixed] += rest[fixed]


def _sum(command: JointCommand) -> Floats:
    """Per joint; not finite where one of its numbers is not."""
    total: Floats = command.q + command.dq
    total += command.kp
    total += command.kd
    total += command.torque
    return total


def _is_finite(command: JointCommand) -> bool:
    return bool(np.count_nonzero(np.isfinite(_sum(command))) == len(command.q))


def pd_torque(command: JointCommand, state: RobotState) -> Floats:
    """What the motor boards will make of a command at this state."""
    torque: Floats = command.kp * (command.q - state.q)
    torque += command.kd * (command.dq - state.dq)
    torque += command.torque
    return torque
