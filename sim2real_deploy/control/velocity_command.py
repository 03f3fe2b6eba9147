"""The velocity command: checked on arrival, shaped when it is used.

A ROS thread writes it and the control loop reads it; they share one tuple, replaced as a whole.
"""

import math

from sim2real_deploy.control.lease import PLANNER, Lease, Source
from sim2real_deploy.control.stages import Stage
from sim2real_deploy.robots.vectors import REST, as_recorded

ABSURD = 10.0  # m/s or rad/s: beyond this it is a mistake
BRAKING = 2.0  # times the stage's acceleration, once nobody commands any more


class VelocityCommand:
    def __init__(self, stage: Stage) -> None:
        self.most = (stage.velocity.vx, stage.velocity.vy, stage.velocity.wz)
        rise = stage.acceleration
        self._acceleration = (rise.vx, rise.vy, rise.wz)
        self._lease = Lease()
        # vx, vy, wz, when it came, when it becomes stale
        self._asked: tuple[float, float, float, int, int] | None = None
        self._braking = False
        self._now = [0.0, 0.0, 0.0]
        self._shaped_ns: int | None = None
        self._reached: tuple[float, ...] | None = None  # the request that `shaped` has reached
        self.shaped: tuple[float, ...] = REST  # as given to the policy
        self.rejected = 0

    def offer(self, vx: float, vy: float, wz: float, now_ns: int, source: Source = PLANNER) -> bool:
        """Accept a request if its source holds the lease. One that is not finite, or absurd, is
        counted and changes nothing."""
        if not all(math.isfinite(v) and abs(v) <= ABSURD for v in (vx, vy, wz)):
            self.rejected += 1
            return False
        if not self._lease.claim(source, now_ns):
            return False
        self._asked = (vx, vy, wz, now_ns, now_ns + source.heartbeat_ns)
        return True

    def holder(self, now_ns: int) -> str:
        """The source that commands now; "" for none."""
        source = self._lease.holder(now_ns)
        return source.name if source else ""

    def requested(self, now_ns: int) -> tuple[float, ...]:
        """The request in force; zero if the last one is stale."""
        asked = self._asked
        return REST if asked is None or now_ns > asked[4] else asked[:3]

    def age_s(self, now_ns: int) -> float:
        """Age of the last accepted request; infinite before the first."""
        return math.inf if self._asked is None else (now_ns - self._asked[3]) / 1e9

    def brake(self) -> None:
        """Slow down to rest, whatever is requested, until `halt`."""
        self._braking = True
        self._reached = None

    def shape(self, now_ns: int, may_move: bool = True) -> tuple[float, ...]:
        """The velocity for now: within the stage's speed and acceleration, going to zero when the
        request is stale or the policy may not move."""
        asked = self._asked
        goal, haste = REST, BRAKING
        if asked is not None and now_ns <= asked[4] and may_move and not self._braking:
            goal, haste = asked[:3], 1.0
        elapsed = 0.0 if self._shaped_ns is None else (now_ns - self._shaped_ns) / 1e9
        self._shaped_ns = now_ns
        if goal != self._reached:
            self._approach(goal, elapsed * haste)
        return self.shaped

    def _approach(self, goal: tuple[float, ...], elapsed: float) -> None:
        targets = [min(max(v, -most), most) for v, most in zip(goal, self.most, strict=True)]
        for axis, target in enumerate(targets):
            reach = self._acceleration[axis] * elapsed
            before = self._now[axis]
            self._now[axis] = min(max(target, before - reach), before + reach)
        self.shaped = as_recorded(self._now)
        self._reached = goal if self._now == targets else None

    def inside(self, trim: tuple[float, ...]) -> tuple[float, ...]:
        """The part of a correction that keeps the shaped velocity inside the stage's speed."""
        if not any(trim):
            return trim
        rows = zip(self.shaped, trim, self.most, strict=True)
        return as_recorded(min(max(v + t, -most), most) - v for v, t, most in rows)

    def halt(self) -> None:
        """Start from rest: the robot is not walking."""
        self._now = [0.0, 0.0, 0.0]
        self._shaped_ns = self._reached = None
        self._braking = False
        self.shaped = REST
