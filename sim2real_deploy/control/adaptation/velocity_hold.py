"""Holds the velocity a robot had, by a bounded correction of the command.

A policy misses its command by a little even on a healthy robot, each robot in its own way. While
a command stays the same, the first seconds tell what this robot makes of it: that is the
reference. Where the velocity leaves it later, a disturbance observer finds by how much, and the
command is shifted against it.

The velocity is that of the trunk over standing feet, and the gyroscope's. The policy's own network
estimates it, too; less accurately, but from other signs. Where the two disagree (feet that slip, a
sensor that lies) or more would be needed than the bound (a slope, a wall), the hold lets go until
the next command.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sim2real_deploy.robots.vectors import REST, Numbers, as_recorded

SETTLE_S = 1.0  # after the last change of the command, before the reference is learnt
STRIDE_S = 0.5  # of a policy without a gait clock
LEARN_S = 3.0
MEMORY_S = 0.4  # time constant of the filter behind the mean over a stride
SANE = 10.0  # m/s, rad/s: nothing that walks is faster
FROM, UNTIL = 0.005, 0.002  # m/s, rad/s: a deviation this large is corrected, until this small
BOUNDS = (0.1, 0.1, 0.2)  # m/s, m/s, rad/s: largest correction
SHARE = 0.25  # of the command's length: largest correction of a slow command, none at rest
RATE = 0.15  # m/s^2, rad/s^2: the most that a correction changes
GAIN = 0.95  # velocity by command; the correction converges for any value near it
JOLT = 0.06  # m/s between the mean over a stride and the filter behind it
CALM_S = 1.5  # after a jolt, before anything is learnt or corrected again
DISAGREE = 0.15  # m/s between the feet's velocity and the network's


class VelocityViews(NamedTuple):
    """Two independent views of vx, vy, wz."""

    velocity: Numbers  # of feet and gyroscope
    believed: Numbers  # the network's


class Pace(NamedTuple):
    """Of a policy."""

    period_s: float  # from step to step
    stride_s: float = STRIDE_S

    @property
    def steps(self) -> int:
        return max(round(self.stride_s / self.period_s), 1)


class Smooth:
    """The mean over the last stride and a first-order filter behind it, value by value: nothing
    that repeats with every stride passes."""

    def __init__(self, values: Sequence[float], steps: int) -> None:
        self.first, self.values = list(values), list(values)
        self._sums, self._known = [steps * value for value in values], steps
        self._stride: deque[Sequence[float] | None] = deque([tuple(values)] * steps)

    def add(self, values: Sequence[float] | None, keep: float) -> None:
        """One step; None where nothing is known of it, and the others of the stride count."""
        for changed, sign in ((self._stride.popleft(), -1), (values, 1)):
            if changed is not None:
                self._known += sign
                for axis, value in enumerate(changed):
                    self._sums[axis] += sign * value
        self._stride.append(values)
        if values is None:
            return
        self.first = [total / self._known for total in self._sums]
        for axis, value in enumerate(self.first):
            self.values[axis] += keep * (value - self.values[axis])


class Mean:
    """Value by value, of all that was added."""

    def __init__(self) -> None:
        self.count, self.values = 0, list(REST)

    def add(self, values: Sequence[float]) -> None:
        self.count += 1
        for axis, value in enumerate(values):
            self.values[axis] += (value - self.values[axis]) / self.count


class VelocityHold:
    """`step` once for each step of the policy."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Walking begins: no correction, no reference."""
        self.trim: tuple[float, ...] = REST  # added to the command; float32 values, as recorded
        self.command: tuple[float, ...] | None = None  # that `trim` is for
        self._pace = Pace(STRIDE_S)
        self._restart(REST)

    def forget(self) -> None:
        """Another policy walks: its reference is learnt anew."""
        self.command = None

    def _restart(self, missed: Sequence[float]) -> None:
        """Another command: the correction fades out, the reference is learnt again."""
        self.holds = False  # a reference is known
        self.let_go = False
        self.deviation = list(REST)  # from the reference, the correction's own effect apart
        self._reference = list(REST)
        self._jolted_s = 0.0  # time left of waiting after a jolt
        self._seconds = 0.0
        self._settling, self._learnt = Mean(), Mean()
        self._active = [False] * 3
        steps = self._pace.steps
        self._missed, self._trims = Smooth(missed, steps), Smooth(self.trim, steps)
        self._apart = Smooth((0.0, 0.0), steps)  # the two views of vx and vy

    def step(
        self, command: tuple[float, ...], seen: VelocityViews | None, pace: Pace, allowed: bool
    ) -> None:
        """`seen` is None where the velocity is not known. `trim` corrects this command."""
        if seen is not None and not all(abs(v) < SANE for v in (*seen.velocity, *seen.believed)):
            seen = None  # nor is NaN below it
        missed = REST if seen is None else _minus(seen.velocity, command)
        if command != self.command:
            self.command, self._pace = command, pace
            self._restart(missed)
        if seen is not None:
            self._observe(missed, _minus(seen.believed[:2], seen.velocity[:2]))
        else:
            for view in (self._missed, self._trims, self._apart):
                view.add(None, 0.0)
        acts = allowed and self.holds and not self.let_go
        if not (acts and self._jolted_s > 0.0):
            self._follow(command, pace.period_s, acts)

    def _observe(self, missed: Numbers, apart: Numbers) -> None:
        period_s = self._pace.period_s
        self._seconds += period_s
        if self._seconds <= SETTLE_S:
            self._settle(missed)
            return
        keep = 1.0 - math.exp(-period_s / MEMORY_S)
        self._missed.add(missed, keep)
        self._trims.add(self.trim, keep)
        self._apart.add(apart, keep)
        self._detect_jolts(period_s)
        if self._jolted_s > 0.0:
            return
        if self.holds:
            own = [GAIN * trim for trim in self._trims.values]
            self.deviation = _minus(_minus(self._missed.values, self._reference), own)
            beyond = any(abs(d) > b for d, b in zip(self.deviation, BOUNDS, strict=True))
            disagrees = any(abs(value) > DISAGREE for value in self._apart.values)
            self.let_go = self.let_go or beyond or disagrees
        else:
            self._learnt.add(self._missed.first)
            if self._learnt.count * period_s >= LEARN_S:
                self._reference, self.holds = self._learnt.values, True

    def _settle(self, missed: Numbers) -> None:
        """It is still on its way to the command. The filters will begin at the mean of the last
        stride: a single value of a gait that bounces would look like a jolt."""
        if self._seconds > SETTLE_S - self._pace.stride_s:
            self._settling.add(missed)
            self._missed = Smooth(self._settling.values, self._pace.steps)

    def _detect_jolts(self, period_s: float) -> None:
        self._jolted_s = max(self._jolted_s - period_s, 0.0)
        moves = zip(self._missed.first[:2], self._missed.values[:2], strict=True)
        if any(abs(a - b) > JOLT for a, b in moves):
            self._jolted_s = CALM_S
            self._learnt = Mean()  # what was learnt so far may have been part of it

    def _follow(self, command: Numbers, period_s: float, acts: bool) -> None:
        """Move the correction towards what is wanted, at its rate and within its bounds."""
        if not acts and self.trim == REST:
            return
        reach, step = SHARE * math.hypot(*command), RATE * period_s
        trim = []
        for axis, (was, bound) in enumerate(zip(self.trim, BOUNDS, strict=True)):
            off, most = abs(self.deviation[axis]), min(bound, reach)
            self._active[axis] = off > FROM or (self._active[axis] and off > UNTIL)
            wanted = -self.deviation[axis] / GAIN if acts and self._active[axis] else 0.0
            moved = was + min(max(wanted - was, -step), step)
            trim.append(min(max(moved, -most), most))
        self.trim = as_recorded(trim)


def _minus(a: Numbers, b: Numbers) -> list[float]:
    return [x - y for x, y in zip(a, b, strict=True)]
