"""The last gate before the wire: whatever is asked, what is sent stays inside these limits.

The torque that PD would produce is held by moving the target; where the joint range does not let
the target move that far, feed-forward takes off the rest. So range and torque hold together,
always.

np.clip and .any() cost several times the ufuncs used here instead, and this runs in every tick.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.stages import Stage
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats

Flags = npt.NDArray[np.bool_]


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
    """`aim` takes what is asked, when it changes; `hold` makes each tick's command of it.

    `sent` and `acted` are reused from tick to tick; `sent.q` is where the next step begins.
    """

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
        self._aimed = np.zeros(count, np.uint8)  # limits that act as long as this is asked
        self._goal = spec.stand_pose.copy()
        self._feed_forward = np.zeros(count, np.float32)
        self._there = False  # the last command sent is the goal itself
        self._fraction = 1.0  # of the torque, as the supervisor allows it
        # Speed and torque of the joints, side by side so that one comparison serves both.
        self._speed_and_torque = np.zeros((2, count), np.float32)
        self._sizes = np.zeros((2, count), np.float32)
        self._bounds = np.stack([self.velocity, self.torque])
        self._beyond = np.zeros((2, count), bool)

    def restart(self, q: Floats) -> None:
        """The next step is counted from here: the robot was not held by us until now."""
        np.clip(q, self.low, self.high, out=self.sent.q)
        self._there = False

    def aim(self, asked: JointCommand) -> bool:
        """Take what is asked; False when a number is not finite: then nothing of it is sound."""
        self._aimed.fill(0)
        self._there = False
        finite = np.isfinite(_sum(asked))
        if np.count_nonzero(finite) < len(finite):
            self.acted[~finite] = Limit.FINITE
            return False
        np.copyto(self.sent.kp, asked.kp)
        np.copyto(self.sent.kd, asked.kd)
        np.copyto(self._feed_forward, asked.torque)
        _mark(self._aimed, _clip(asked.q, self.low, self.high, self._goal), Limit.RANGE)
        changed = _clip(asked.dq, -self.velocity, self.velocity, self.sent.dq)
        _mark(self._aimed, changed, Limit.VELOCITY)
        return True

    def hold(self, state: RobotState, torque_fraction: float) -> JointCommand:
        """What may be sent at this state: one step towards the goal, within torque and speed."""
        sent, acted = self.sent, self.acted
        np.copyto(acted, self._aimed)
        most = self._bounds[1]
        if torque_fraction != self._fraction:
            self._fraction = torque_fraction
            np.multiply(self.torque, np.float32(torque_fraction), most)
        if not self._there:
            changed = _clip(self._goal, sent.q - self.step, sent.q + self.step, sent.q)
            _mark(acted, changed, Limit.STEP)
            self._there = not np.count_nonzero(changed)
            _mark(acted, _clip(self._feed_forward, -most, most, sent.torque), Limit.TORQUE)
        speed, torque = self._speed_and_torque
        np.copyto(speed, state.dq)
        pd_torque(sent, state, torque)
        np.absolute(self._speed_and_torque, self._sizes)
        np.greater(self._sizes, self._bounds, self._beyond)
        if np.count_nonzero(self._beyond):
            self._relieve(state, torque, most, self._beyond[0])
        return sent

    def _relieve(self, state: RobotState, torque: Floats, most: Floats, too_fast: Flags) -> None:
        """Move targets until the torque is allowed: a joint too fast may be braked, not driven."""
        sent = self.sent
        upper = np.where(too_fast & (state.dq > 0), np.float32(0), most)
        lower = np.where(too_fast & (state.dq < 0), np.float32(0), -most)
        held = np.minimum(np.maximum(torque, lower), upper)
        over: Flags = held != torque
        self._there = False
        _mark(self.acted, over & too_fast, Limit.VELOCITY)
        _mark(self.acted, over & (np.abs(torque) > most), Limit.TORQUE)
        movable = over & (sent.kp > 0)
        sent.q[movable] += (held - torque)[movable] / sent.kp[movable]
        np.clip(sent.q, self.low, self.high, out=sent.q)
        rest = held - pd_torque(sent, state)
        fixed = over & (np.abs(rest) > 1e-3)
        sent.torque[fixed] += rest[fixed]


def pd_torque(command: JointCommand, state: RobotState, out: Floats | None = None) -> Floats:
    """What the motor boards will make of a command at this state."""
    torque: Floats = np.subtract(command.q, state.q, out)
    torque *= command.kp
    damping = command.dq - state.dq
    damping *= command.kd
    torque += damping
    torque += command.torque
    return torque


def _clip(values: Floats, low: Floats, high: Floats, out: Floats) -> Flags:
    """Clip into `out`; which ones had to be."""
    clipped = np.minimum(np.maximum(values, low), high)
    np.copyto(out, clipped)
    changed: Flags = clipped != values
    return changed


def _mark(acted: npt.NDArray[np.uint8], where: Flags, limit: Limit) -> None:
    if np.count_nonzero(where):
        acted[where] |= int(limit)


def _sum(command: JointCommand) -> Floats:
    """Per joint; not finite where one of its numbers is not."""
    total: Floats = command.q + command.dq
    total += command.kp
    total += command.kd
    total += command.torque
    return total
