"""The velocity that is asked for: checked when it comes, shaped when it is used.

Written by whoever listens (a ROS thread), read by the control loop: one tuple changes hands.
"""

import math
import struct

from sim2real_deploy.control.lease import PLANNER, Lease, Source
from sim2real_deploy.control.stages import Stage

ABSURD = 10.0  # m/s or rad/s: nobody means this
BRAKING = 2.0  # times the stage's acceleration, when nobody commands any more
REST = (0.0, 0.0, 0.0)
_AS_RECORDED = struct.Struct("=3f")


class VelocityCommand:
    def __init__(self, stage: Stage) -> None:
        self.most = (stage.velocity.vx, stage.velocity.vy, stage.velocity.wz)
        rise = stage.acceleration
        self._acceleration = (rise.vx, rise.vy, rise.wz)
        self._lease = Lease()
        self._asked: tuple[float, float, float, int, int] | None = None  # and when, until when
        self._braking = False
        self._now = [0.0, 0.0, 0.0]
        self._shaped_ns: int | None = None
        self._reached: tuple[float, ...] | None = None  # the wish that `shaped` fulfils
        self.shaped: tuple[float, ...] = REST  # as the policy was given it
        self.rejected = 0

    def offer(self, vx: float, vy: float, wz: float, now_ns: int, source: Source = PLANNER) -> bool:
        """Take a wish, if its source holds the lease; one that is not finite or absurd is counted
        and changes nothing."""
        if not all(math.isfinite(v) and abs(v) <= ABSURD for v in (vx, vy, wz)):
            self.rejected += 1
            return False
        if not self._lease.claim(source, now_ns):
            return False
        self._asked = (vx, vy, wz, now_ns, now_ns + source.heartbeat_ns)
        return True

    def holder(self, now_ns: int) -> str:
        """Whose wishes count now; "" when nobody commands."""
        source = self._lease.holder(now_ns)
        return source.name if source else ""

    def wished(self, now_ns: int) -> tuple[float, ...]:
        """The wish in force; at rest when the last one has gone stale."""
        asked = self._asked
        return REST if asked is None or now_ns > asked[4] else asked[:3]

    def age_s(self, now_ns: int) -> float:
        """Of the newest good wish; infinite before the first."""
        return math.inf if self._asked is None else (now_ns - self._asked[3]) / 1e9

    def brake(self) -> None:
        """Come to rest, whatever is wished, until `halt`."""
        self._braking = True
        self._reached = None

    def shape(self, now_ns: int) -> tuple[float, ...]:
        """The velocity in force now: zero when stale, inside the stage's speed and acceleration."""
        asked = self._asked
        wish, haste = REST, BRAKING
        if asked is not None and now_ns <= asked[4] and not self._braking:
            wish, haste = asked[:3], 1.0
        elapsed = 0.0 if self._shaped_ns is None else (now_ns - self._shaped_ns) / 1e9
        self._shaped_ns = now_ns
        if wish != self._reached:
            self._approach(wish, elapsed * haste)
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
        self._braking = False
        self.shaped = REST
