"""The last gate before the wire: whatever is asked, what is sent stays inside these limits.

The torque that PD would produce is held by moving the target; where the joint range does not let
the target move that far, feed-forward takes off the rest. So range and torque hold together,
always.

np.clip and .any() cost several times the ufuncs used here instead. What runs in every tick is
plain arithmetic: at 500 Hz each call of numpy's finds its code gone from the caches.
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
        self._most = self.torque.copy()
        # By joint: torque at rest at zero, kp, kd, and the most torque and speed that may be.
        self._watched: list[tuple[float, float, float, float, float]] = []

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
        most = self._most
        if torque_fraction != self._fraction:
            self._fraction, self._there = torque_fraction, False
            np.multiply(self.torque, np.float32(torque_fraction), most)
        if not self._there:
            changed = _clip(self._goal, sent.q - self.step, sent.q + self.step, sent.q)
            _mark(acted, changed, Limit.STEP)
            self._there = not np.count_nonzero(changed)
            _mark(acted, _clip(self._feed_forward, -most, most, sent.torque), Limit.TORQUE)
            self._watch()
        if self._is_beyond(state):
            self._relieve(state)
        return sent

    def _watch(self) -> None:
        """What `_is_beyond` needs of the command, which seldom changes."""
        rows = zip(*self.sent_block.tolist(), strict=True)
        at_rest = [(kp * q + kd * dq + torque, kp, kd) for q, dq, kp, kd, torque in rows]
        bounds = zip(self._most.tolist(), self.velocity.tolist(), strict=True)
        self._watched = [(*a, *b) for a, b in zip(at_rest, bounds, strict=True)]

    def _is_beyond(self, state: RobotState) -> bool:
        """Whether PD would make more torque than allowed of this state, or a joint is too fast."""
        for q, dq, (at_rest, kp, kd, most, fastest) in zip(
            state.q.tolist(), state.dq.tolist(), self._watched, strict=True
        ):
            torque = at_rest - kp * q - kd * dq
            if not (-most <= torque <= most and -fastest <= dq <= fastest):
                return True
        return False

    def _relieve(self, state: RobotState) -> None:
        """Move targets until the torque is allowed: a joint too fast may be braked, not driven."""
        sent, most = self.sent, self._most
        torque, too_fast = pd_torque(sent, state), np.abs(state.dq) > self.velocity
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


def pd_torque(command: JointCommand, state: RobotState) -> Floats:
    """What the motor boards will make of a command at this state."""
    torque: Floats = command.kp * (command.q - state.q)
    torque += command.kd * (command.dq - state.dq)
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
