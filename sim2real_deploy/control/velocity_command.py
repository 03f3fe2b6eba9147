"""The velocity that is asked for: checked when it comes, shaped when it is used.

Written by whoever listens (a ROS thread), read by the control loop: one tuple changes hands.
"""

import math
import struct

from sim2real_deploy.control.stages import Stage

STALE_NS = 500_000_000
ABSURD = 10.0  # m/s or rad/s: nobody means this
_AS_RECORDED = struct.Struct("=3f")


class VelocityCommand:
    def __init__(self, stage: Stage) -> None:
        self.most = (stage.velocity.vx, stage.velocity.vy, stage.velocity.wz)
        rise = stage.acceleration
        self._acceleration = (rise.vx, rise.vy, rise.wz)
        self._asked: tuple[float, float, float, int] | None = None
        self._by_hand_ns: int | None = None
        self._now = [0.0, 0.0, 0.0]
        self._shaped_ns: int | None = None
        self._reached: tuple[float, ...] | None = None  # the wish that `shaped` fulfils
        self.shaped: tuple[float, ...] = (0.0, 0.0, 0.0)  # as the policy was given it
        self.rejected = 0

    def offer(self, vx: float, vy: float, wz: float, now_ns: int, *, by_hand: bool = False) -> bool:
        """Take a wish; one that is not finite or absurd is counted and changes nothing.

        A person's hand on the remote wins over programs until it has rested as long as is stale.
        """
        if not all(math.isfinite(v) and abs(v) <= ABSURD for v in (vx, vy, wz)):
            self.rejected += 1
            return False
        if by_hand:
            self._by_hand_ns = now_ns
        elif self._by_hand_ns is not None and now_ns - self._by_hand_ns <= STALE_NS:
            return False
        self._asked = (vx, vy, wz, now_ns)
        return True

    def age_s(self, now_ns: int) -> float:
        """Of the newest good wish; infinite before the first."""
        return math.inf if self._asked is None else (now_ns - self._asked[3]) / 1e9

    def shape(self, now_ns: int) -> tuple[float, ...]:
        """The velocity in force now: zero when stale, inside the stage's speed and acceleration."""
        asked = self._asked
        wish = (0.0, 0.0, 0.0)
        if asked is not None and now_ns - asked[3] <= STALE_NS:
            wish = asked[:3]
        elapsed = 0.0 if self._shaped_ns is None else (now_ns - self._shaped_ns) / 1e9
        self._shaped_ns = now_ns
        if wish != self._reached:
            self._approach(wish, elapsed)
        return self.shaped

    def _approach(self, wish: tuple[float, ...], elapsed: float) -> None:
        targets = [min(max(v, -most), most) for v, most in zip(wish, self.most, strict=True)]
        for axis, target in enumerate(targets):
            reach = self._acceleration[axis] * elapsed
            before = self._now[axis]
            self._now[axis] = min(max(target, before - reach), before + reach)
        self.shaped = _AS_RECORDED.unpack(_AS_RECORDED.pack(*self._now))
        self._reached = wish if self._now == targets else None

    def halt(self) -> None:
        """Begin from rest: the robot is not walking."""
        self._now = [0.0, 0.0, 0.0]
        self._shaped_ns = self._reached = None
        self.shaped = (0.0, 0.0, 0.0)
