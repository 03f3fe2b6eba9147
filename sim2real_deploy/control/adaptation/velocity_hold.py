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
from collections.abc import Sequence
from typing import NamedTuple

from sim2real_deploy.robots.vectors import REST, Numbers, as_recorded

SETTLE_S = 1.0  # after the last change of the command, before the reference is learnt
STRIDES_S = 0.5  # of that time, at its end: the filters begin at the mean of it
LEARN_S = 3.0  # whole strides of any usual gait
MEMORY_S = 0.35  # time constant of each of two filters in a row
FROM, UNTIL = 0.008, 0.004  # m/s, rad/s: a deviation this large is corrected, until this small
BOUNDS = (0.1, 0.1, 0.2)  # m/s, m/s, rad/s: largest correction
SHARE = 0.25  # of the command's length: largest correction of a slow command, none at rest
RATE = 0.15  # m/s^2, rad/s^2: the most that a correction changes
GAIN = 0.95  # velocity by command; the correction converges for any value near it
JOLT = 0.06  # m/s between the two filters: a push of 30 N makes 0.08, a gait 0.045 at most
CALM_S = 1.5  # after a jolt, before anything is learnt or corrected again
DISAGREE = 0.15  # m/s between the feet's velocity and the network's


class VelocityViews(NamedTuple):
    """Two independent views of vx, vy, wz."""

    velocity: Numbers  # of feet and gyroscope
    believed: Numbers  # the network's


class Smooth:
    """Two first-order filters in a row, value by value: a gait's bounce does not pass."""

    def __init__(self, values: Sequence[float]) -> None:
        self.first, self.values = list(values), list(values)

    def add(self, values: Sequence[float], keep: float) -> None:
        for axis, value in enumerate(values):
            self.first[axis] += keep * (value - self.first[axis])
            self.values[axis] += keep * (self.first[axis] - self.values[axis])


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
        self._restart(REST)

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
        self._missed, self._trims = Smooth(missed), Smooth(self.trim)
        self._apart = Smooth((0.0, 0.0))  # the two views of vx and vy

    def step(
        self, command: tuple[float, ...], seen: VelocityViews | None, period_s: float, allowed: bool
    ) -> None:
        """`seen` is None where the velocity is not known. `trim` corrects this command."""
        known = seen is not None and math.isfinite(sum(seen.velocity) + sum(seen.believed))
        missed = REST if seen is None or not known else _minus(seen.velocity, command)
        if command != self.command:
            self.command = command
            self._restart(missed)
        if seen is not None and known:
            self._observe(missed, _minus(seen.believed[:2], seen.velocity[:2]), period_s)
        acts = allowed and self.holds and not self.let_go
        if not (acts and self._jolted_s > 0.0):
            self._follow(command, period_s, acts)

    def _observe(self, missed: Numbers, apart: Numbers, period_s: float) -> None:
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
            self._learnt.add(missed)
            if self._learnt.count * period_s >= LEARN_S:
                self._reference, self.holds = self._learnt.values, True

    def _settle(self, missed: Numbers) -> None:
        """It is still on its way to the command. The filters will begin at the mean of the last
        strides: a single value of a gait that bounces would look like a jolt."""
        if self._seconds > SETTLE_S - STRIDES_S:
            self._settling.add(missed)
            self._missed = Smooth(self._settling.values)

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
