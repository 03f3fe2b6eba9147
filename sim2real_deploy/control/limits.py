"""The last gate before the wire: whatever is asked, what is sent stays inside these limits.

The torque that PD would produce is held by moving the target; where the joint range does not let
the target move that far, feed-forward takes off the rest. So range and torque hold together,
always.

What runs in every tick is plain arithmetic: at 500 Hz each call of numpy's finds its code gone
from the caches.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum
from math import isfinite
from operator import or_

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.stages import Stage
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import clip

Flags = npt.NDArray[np.bool_]


class Limit(IntEnum):
    """Which limit acted: bits of one number per joint."""

    FINITE = 1
    RANGE = 2
    STEP = 4
    VELOCITY = 8
    TORQUE = 16


class Limiter:
    """`aim` takes what is asked, when it changes; `hold` makes each tick's command of it.

    `sent` is reused from tick to tick; `sent.q` is where the next step begins.
    """

    def __init__(self, spec: RobotSpec, stage: Stage) -> None:
        count = spec.joint_count
        self.low = spec.position_low + np.float32(stage.joint_margin)
        self.high = spec.position_high - np.float32(stage.joint_margin)
        self.step = np.float32(stage.joint_step)
        self.velocity = spec.velocity_limit * np.float32(stage.joint_velocity_fraction)
        self.torque = spec.torque_limit * np.float32(stage.torque_fraction)
        self.sent_block = np.zeros((5, count), np.float32)  # q, dq, kp, kd, torque
        self.sent = JointCommand.of_block(self.sent_block)
        self._memory = self.sent_block.data
        self._ranges = _pairs(self.low, self.high)
        self._speeds = _pairs(-self.velocity, self.velocity)
        self._block = struct.Struct(f"={self.sent_block.size}f")
        self._row = struct.Struct(f"={count}f")
        self._nothing = bytes(count)
        self.acted = self._nothing  # in this tick: for each joint the bits of `Limit`
        self._aimed = self._nothing  # limits that act as long as this is asked
        self._goal: list[float] = spec.stand_pose.tolist()
        self._manner = b""  # all that was asked beside the goal: it seldom changes
        self._dq, self._kp, self._kd, self._feed_forward = ([0.0] * count for _ in range(4))
        self._slowed = [0] * count  # the limit's bit where speed is not what was asked
        self._q = self._goal  # the last step towards it
        self._there = False  # the last command sent is the goal itself
        self._allow(1.0)

    def rest(self) -> None:
        """Nothing is asked: no limit acts."""
        self.acted = self._nothing

    def restart(self, q: Floats) -> None:
        """The next step is counted from here: the robot was not held by us until now."""
        np.clip(q, self.low, self.high, out=self.sent.q)
        self._there = False

    def aim(self, asked: JointCommand) -> bool:
        """Take what is asked; False when a number is not finite: then nothing of it is sound."""
        self._there = False
        values = asked.values()
        q, manner = [*self._row.unpack_from(values)], values[self._row.size :]
        # Of float32 in double precision, a sum is finite when all of them are.
        if not isfinite(sum(q)) or (manner != self._manner and not self._take(manner)):
            self._manner = b""
            by_joint = zip(*self._row.iter_unpack(values), strict=True)
            self.acted = bytes(0 if isfinite(sum(x)) else Limit.FINITE for x in by_joint)
            return False
        self._goal, self._aimed = clip(q, self._ranges), self._nothing
        if self._goal != q or any(self._slowed):
            self._aimed = bytes(map(or_, _marks(self._goal, q, Limit.RANGE), self._slowed))
        return True

    def _take(self, manner: bytes) -> bool:
        """Speed, gains and torque that are asked; False when a number is not finite."""
        dq, kp, kd, torque = ([*row] for row in self._row.iter_unpack(manner))
        if not isfinite(sum(map(sum, (dq, kp, kd, torque)))):
            return False
        self._kp, self._kd, self._feed_forward, self._dq = kp, kd, torque, clip(dq, self._speeds)
        self._slowed = _marks(self._dq, dq, Limit.VELOCITY)
        self._manner = manner
        self._settle()
        return True

    def hold(self, state: RobotState, torque_fraction: float) -> JointCommand:
        """What may be sent at this state: one step towards the goal, within torque and speed."""
        self.acted = self._aimed
        if torque_fraction != self._fraction:
            self._allow(torque_fraction)
        if not self._there:
            self._approach()
        if self._is_beyond(state):
            self._relieve(state)
        return self.sent

    def _allow(self, torque_fraction: float) -> None:
        """So much of the torque, as the supervisor says."""
        self._fraction, self._there = torque_fraction, False
        self._most: Floats = self.torque * np.float32(torque_fraction)
        self._torques = _pairs(-self._most, self._most)
        self._settle()

    def _settle(self) -> None:
        """What is left of the torque that is asked, and each joint's law: kp, kd, the bounds of the
        torque that they may add to it, and of the joint's speed."""
        self._pushed = clip(self._feed_forward, self._torques)
        self._weakened = _marks(self._pushed, self._feed_forward, Limit.TORQUE)
        given = [
            kd * dq + push for kd, dq, push in zip(self._kd, self._dq, self._pushed, strict=True)
        ]
        self._laws = [
            (kp, kd, low - torque, high - torque, *speeds)
            for kp, kd, torque, (low, high), speeds in zip(
                self._kp, self._kd, given, self._torques, self._speeds, strict=True
            )
        ]

    def _approach(self) -> None:
        """One step towards the goal."""
        step = float(self.step)
        self._q = q = [
            at - step if goal < at - step else at + step if goal > at + step else goal
            for goal, at in zip(self._goal, self._row.unpack_from(self._memory), strict=True)
        ]
        self._there = q == self._goal
        if not self._there:
            self._act(_marks(q, self._goal, Limit.STEP))
        if any(self._weakened):
            self._act(self._weakened)
        rest = *self._dq, *self._kp, *self._kd, *self._pushed
        self._block.pack_into(self._memory, 0, *q, *rest)

    def _act(self, marks: Iterable[int]) -> None:
        self.acted = bytes(map(or_, self.acted, marks))

    def _is_beyond(self, state: RobotState) -> bool:
        """Whether PD would make more torque than allowed of this state, or a joint is too fast."""
        for q, dq, to, (kp, kd, low, high, backward, forward) in zip(
            *state.motion(), self._q, self._laws, strict=True
        ):
            if not (low <= kp * (to - q) - kd * dq <= high and backward <= dq <= forward):
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
        self._act((over & too_fast) * np.uint8(Limit.VELOCITY))
        self._act((over & (np.abs(torque) > most)) * np.uint8(Limit.TORQUE))
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


def _pairs(low: Floats, high: Floats) -> list[tuple[float, float]]:
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _marks(held: list[float], wanted: list[float], limit: int) -> list[int]:
    """The limit's bit for every joint that it holds."""
    return [limit if a != b else 0 for a, b in zip(held, wanted, strict=True)]
