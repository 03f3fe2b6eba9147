"""The velocity command: checked on arrival, shaped when it is used.

ROS threads write requests and the control loop reads the newest one, without a lock.
"""

import math
import threading
from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import compiled, part
from sim2real_deploy.control.lease import PLANNER, Lease, Source
from sim2real_deploy.control.stages import Stage
from sim2real_deploy.robots.vectors import REST

Array = Any  # a numpy array
ABSURD = 10.0  # m/s or rad/s: beyond this it is a mistake
BRAKING = 2.0  # times the stage's acceleration, once nobody commands any more
KEPT = 8  # requests: a loop that is just reading the newest one has so many to finish
COUNT, SHAPED_NS, BRAKES = range(3)  # places in `memo`
CAME, STALE = range(2)  # places in `times`
NEVER_NS = -1
SHARE = 0.25  # of the command's length: largest correction of a slow command, none at rest


class Shaping(NamedTuple):
    """A velocity command as loops use it."""

    requests: Array  # the last KEPT: vx, vy, wz
    times: Array  # of each: when it came, when it becomes stale
    bounds: Array  # rows: speed, acceleration
    now: Array  # the velocity reached
    shaped: Array  # in single precision, as recorded
    correction: Array  # that adaptation wants
    trim: Array  # and what is left of it, in single precision
    given: Array  # to the policy: their sum
    memo: Array


@part
def longest_correction(velocity: Array) -> float:
    """The largest correction of a command on each axis."""
    x, y, z = velocity[0], velocity[1], velocity[2]
    return SHARE * math.sqrt(x * x + y * y + z * z)


@compiled
def shape(shaping: Shaping, now_ns: int, may_move: bool) -> None:
    """Move on to the velocity for now: within speed and acceleration, going to zero when the
    newest request is stale or the policy may not move. Its correction stays inside the speed,
    too."""
    memo, now, slot = shaping.memo, shaping.now, shaping.memo[COUNT] % KEPT
    in_force = may_move and now_ns <= shaping.times[slot, STALE] and not memo[BRAKES]
    elapsed = 0.0 if memo[SHAPED_NS] == NEVER_NS else (now_ns - memo[SHAPED_NS]) / 1e9
    memo[SHAPED_NS] = now_ns
    for axis in range(now.size):
        most, reach = shaping.bounds[0, axis], shaping.bounds[1, axis] * elapsed
        goal = 0.0
        if in_force:
            goal = min(max(shaping.requests[slot, axis], -most), most)
        else:
            reach *= BRAKING
        now[axis] = min(max(goal, now[axis] - reach), now[axis] + reach)
        shaping.shaped[axis] = np.float32(now[axis])
    within = longest_correction(shaping.shaped)
    for axis in range(now.size):
        most, shaped = shaping.bounds[0, axis], shaping.shaped[axis]
        shaping.trim[axis], wanted = 0.0, min(max(shaping.correction[axis], -within), within)
        if wanted != 0.0:
            corrected = min(max(shaped + wanted, -most), most)
            shaping.trim[axis] = np.float32(corrected - shaped)
        shaping.given[axis] = np.float32(shaped + shaping.trim[axis])


@part
def age_s(shaping: Shaping, now_ns: int) -> float:
    """Age of the last accepted request; infinite before the first."""
    came_ns = shaping.times[shaping.memo[COUNT] % KEPT, CAME]
    return math.inf if came_ns == NEVER_NS else (now_ns - came_ns) / 1e9


class VelocityCommand:
    def __init__(self, stage: Stage, correction: Array = None) -> None:
        self.most = (stage.velocity.vx, stage.velocity.vy, stage.velocity.wz)
        rise = stage.acceleration
        self._lease = Lease()
        self._offering = threading.Lock()
        self.shaping = Shaping(
            requests=np.zeros((KEPT, 3)),
            times=np.full((KEPT, 2), NEVER_NS),
            bounds=np.array((self.most, (rise.vx, rise.vy, rise.wz))),
            now=np.zeros(3),
            shaped=np.zeros(3),
            correction=np.zeros(3) if correction is None else correction,
            trim=np.zeros(3),
            given=np.zeros(3),
            memo=np.zeros(BRAKES + 1, np.int64),
        )
        self.rejected = 0
        shape(self.shaping, 0, True)  # compiles now, before the loop runs
        self.halt()

    @property
    def shaped(self) -> tuple[float, ...]:
        """Without its correction."""
        return tuple(self.shaping.shaped.tolist())

    @property
    def trim(self) -> tuple[float, ...]:
        """The correction in force."""
        return tuple(self.shaping.trim.tolist())

    def offer(self, vx: float, vy: float, wz: float, now_ns: int, source: Source = PLANNER) -> bool:
        """Accept a request if its source holds the lease. One that is not finite, or absurd, is
        counted and changes nothing."""
        if not all(math.isfinite(v) and abs(v) <= ABSURD for v in (vx, vy, wz)):
            self.rejected += 1
            return False
        with self._offering:
            if not self._lease.claim(source, now_ns):
                return False
            shaping, count = self.shaping, int(self.shaping.memo[COUNT]) + 1
            shaping.requests[count % KEPT] = vx, vy, wz
            shaping.times[count % KEPT] = now_ns, now_ns + source.heartbeat_ns
            shaping.memo[COUNT] = count
        return True

    def holder(self, now_ns: int) -> str:
        """The source that commands now; "" for none."""
        source = self._lease.holder(now_ns)
        return source.name if source else ""

    def requested(self, now_ns: int) -> tuple[float, ...]:
        """The request in force; zero if the last one is stale."""
        slot = self.shaping.memo[COUNT] % KEPT
        if now_ns > self.shaping.times[slot, STALE]:
            return REST
        return tuple(self.shaping.requests[slot].tolist())

    def age_s(self, now_ns: int) -> float:
        return float(age_s(self.shaping, now_ns))

    def brake(self) -> None:
        """Slow down to rest, whatever is requested, until `halt`."""
        self.shaping.memo[BRAKES] = 1

    def shape(self, now_ns: int, may_move: bool = True) -> tuple[float, ...]:
        """The velocity for now, as given to the policy."""
        shape(self.shaping, now_ns, may_move)
        return tuple(self.shaping.given.tolist())

    def halt(self) -> None:
        """Start from rest: the robot is not walking."""
        self.shaping.now.fill(0.0)
        for reached in (self.shaping.shaped, self.shaping.trim, self.shaping.given):
            reached.fill(0.0)
        self.shaping.memo[SHAPED_NS], self.shaping.memo[BRAKES] = NEVER_NS, 0
