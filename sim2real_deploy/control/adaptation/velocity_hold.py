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
from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import part
from sim2real_deploy.control.velocity_command import longest_correction

Array = Any  # a numpy array
SETTLE_S = 1.0  # after the last change of the command, before the reference is learnt
STRIDE_S = 0.5  # of a policy without a gait clock
LEARN_S = 3.0
MEMORY_S = 0.4  # time constant of the filter behind the mean over a stride
SANE = 10.0  # m/s, rad/s: nothing that walks is faster
FROM, UNTIL = 0.005, 0.002  # m/s, rad/s: a deviation this large is corrected, until this small
BOUNDS = (0.1, 0.1, 0.2)  # m/s, m/s, rad/s: largest correction
RATE = 0.15  # m/s^2, rad/s^2: the most that a correction changes
GAIN = 0.95  # velocity by command; the correction converges for any value near it
JOLT = 0.06  # m/s between the mean over a stride and the filter behind it
CALM_S = 1.5  # after a jolt, before anything is learnt or corrected again
DISAGREE = 0.15  # m/s between the feet's velocity and the network's
MOST_STEPS = 256  # of the policy, in a stride
# Places in `memo`, and in `pace`.
KNOWN, STEP, SETTLING, LEARNT, FORGETS, HOLDS, LET_GO = range(7)
PERIOD_S, STRIDE_STEPS, POLICY = range(3)
JOLTED_S, SECONDS = range(2)  # places in `times`
# Places in what is smoothed: the velocity missed, the correction, how far feet and network differ.
MISSED, TRIM, APART, SMOOTHED = 0, 3, 6, 8


class Told(NamedTuple):
    """What a step of the policy leaves to learn from."""

    command: Array  # vx, vy, wz
    seen: Array  # the velocity reached: of feet and gyroscope
    believed: Array  # and the network's
    pace: Array  # of the policy: s from step to step, steps of a stride, its number

    @classmethod
    def nothing(cls) -> "Told":
        return cls(*np.zeros((4, 3)))


class Hold(NamedTuple):
    """`step` once for each step of the policy."""

    trim: Array  # wanted on top of the command; float32 values
    command: Array  # that it is for
    deviation: Array  # from the reference, the correction's own effect apart
    reference: Array
    settling: Array  # means
    learnt: Array
    active: Array  # axes that are corrected
    pace: Array
    times: Array  # left of waiting after a jolt; since the command changed
    stride: Array  # what is smoothed, of each step of the last stride,
    filled: Array  # and whether something is known of it
    sums: Array
    first: Array  # means over the last stride
    values: Array  # and a first-order filter behind them: nothing that repeats with a stride passes
    memo: Array  # steps known in the stride, the place of its oldest, counts of the means, flags

    @classmethod
    def of(cls, trim: Array) -> "Hold":
        command, deviation, reference, settling, learnt = np.zeros((5, 3))
        return cls(
            trim=trim,
            command=command,
            deviation=deviation,
            reference=reference,
            settling=settling,
            learnt=learnt,
            active=np.zeros(3, np.bool_),
            pace=np.array([STRIDE_S, 1.0, -1.0]),
            times=np.zeros(2),
            stride=np.zeros((MOST_STEPS, SMOOTHED)),
            filled=np.zeros(MOST_STEPS, np.bool_),
            sums=np.zeros(SMOOTHED),
            first=np.zeros(SMOOTHED),
            values=np.zeros(SMOOTHED),
            memo=np.array([1, 0, 0, 0, 1, 0, 0]),
        )

    def begin(self) -> None:
        """Walking begins: no correction, no reference."""
        self.trim[:] = self.deviation[:] = 0.0
        self.memo[FORGETS] = 1


@part
def fill(hold: Hold) -> None:
    """Let the filters begin at the present mean and correction, as if all of the stride had been
    like that."""
    steps = int(hold.pace[STRIDE_STEPS])
    for axis in range(3):
        hold.values[MISSED + axis] = hold.settling[axis]
        hold.values[TRIM + axis] = hold.trim[axis]
    for k in range(APART, SMOOTHED):
        hold.values[k] = 0.0
    for k in range(SMOOTHED):
        hold.first[k], hold.sums[k] = hold.values[k], steps * hold.values[k]
        for place in range(steps):
            hold.stride[place, k] = hold.values[k]
    for place in range(steps):
        hold.filled[place] = True
    hold.memo[KNOWN], hold.memo[STEP] = steps, 0


@part
def add(hold: Hold, news: Array, known: bool, keep: float) -> None:
    """One step; where nothing is known of it, the others of the stride count."""
    memo, place = hold.memo, hold.memo[STEP]
    memo[STEP] = (place + 1) % int(hold.pace[STRIDE_STEPS])
    memo[KNOWN] += int(known) - int(hold.filled[place])
    for k in range(SMOOTHED):
        if hold.filled[place]:
            hold.sums[k] -= hold.stride[place, k]
        if known:
            hold.stride[place, k] = news[k]
            hold.sums[k] += news[k]
            hold.first[k] = hold.sums[k] / memo[KNOWN]
            hold.values[k] += keep * (hold.first[k] - hold.values[k])
    hold.filled[place] = known


@part
def restart(hold: Hold, told: Told) -> None:
    """Another command, or another policy: the correction fades out, the reference is learnt
    again."""
    hold.memo[HOLDS] = hold.memo[LET_GO] = hold.memo[FORGETS] = 0
    hold.memo[SETTLING] = hold.memo[LEARNT] = 0
    hold.times[JOLTED_S] = hold.times[SECONDS] = 0.0
    for axis in range(3):
        hold.command[axis], hold.pace[axis] = told.command[axis], told.pace[axis]
        hold.deviation[axis] = hold.reference[axis] = 0.0
        hold.settling[axis] = hold.learnt[axis] = 0.0
        hold.active[axis] = False
    fill(hold)


@part
def step(hold: Hold, told: Told, may_act: bool) -> None:
    """`trim` corrects the command from the next step on."""
    known, same = True, not hold.memo[FORGETS] and told.pace[POLICY] == hold.pace[POLICY]
    for axis in range(3):  # NaN is not below it, either
        known = known and abs(told.seen[axis]) < SANE and abs(told.believed[axis]) < SANE
        same = same and told.command[axis] == hold.command[axis]
    if not same:
        restart(hold, told)
    if known:
        observe(hold, told)
    else:
        add(hold, hold.values, False, 0.0)
    acts = may_act and hold.memo[HOLDS] and not hold.memo[LET_GO]
    if not (acts and hold.times[JOLTED_S] > 0.0):
        follow(hold, acts)


@part
def observe(hold: Hold, told: Told) -> None:
    period_s, memo = hold.pace[PERIOD_S], hold.memo
    hold.times[SECONDS] += period_s
    if hold.times[SECONDS] <= SETTLE_S:
        settle(hold, told)
        return
    news = np.zeros(SMOOTHED)
    for axis in range(3):
        news[MISSED + axis] = told.seen[axis] - told.command[axis]
        news[TRIM + axis] = hold.trim[axis]
    for axis in range(2):
        news[APART + axis] = told.believed[axis] - told.seen[axis]
    add(hold, news, True, 1.0 - math.exp(-period_s / MEMORY_S))
    detect_jolts(hold)
    if hold.times[JOLTED_S] > 0.0:
        return
    if memo[HOLDS]:
        compare(hold)
        return
    memo[LEARNT] += 1
    for axis in range(3):
        hold.learnt[axis] += (hold.first[axis] - hold.learnt[axis]) / memo[LEARNT]
    if memo[LEARNT] * period_s >= LEARN_S:
        memo[HOLDS] = 1
        for axis in range(3):
            hold.reference[axis] = hold.learnt[axis]


@part
def settle(hold: Hold, told: Told) -> None:
    """It is still on its way to the command. The filters will begin at the mean of the last stride:
    a single value of a gait that bounces would look like a jolt."""
    stride_s = hold.pace[PERIOD_S] * hold.pace[STRIDE_STEPS]
    if hold.times[SECONDS] > SETTLE_S - stride_s:
        hold.memo[SETTLING] += 1
        for axis in range(3):
            missed = told.seen[axis] - told.command[axis]
            hold.settling[axis] += (missed - hold.settling[axis]) / hold.memo[SETTLING]
        fill(hold)


@part
def compare(hold: Hold) -> None:
    """With the reference; let go where that cannot be made up for, or cannot be believed."""
    for axis in range(3):
        own = GAIN * hold.values[TRIM + axis]
        hold.deviation[axis] = hold.values[axis] - hold.reference[axis] - own
        if abs(hold.deviation[axis]) > BOUNDS[axis]:
            hold.memo[LET_GO] = 1
    for k in range(APART, SMOOTHED):
        if abs(hold.values[k]) > DISAGREE:
            hold.memo[LET_GO] = 1


@part
def detect_jolts(hold: Hold) -> None:
    hold.times[JOLTED_S] = max(hold.times[JOLTED_S] - hold.pace[PERIOD_S], 0.0)
    for axis in range(2):
        if abs(hold.first[axis] - hold.values[axis]) > JOLT:
            hold.times[JOLTED_S] = CALM_S
            hold.memo[LEARNT] = 0  # what was learnt so far may have been part of it
    if not hold.memo[LEARNT]:
        for axis in range(3):
            hold.learnt[axis] = 0.0


@part
def follow(hold: Hold, acts: bool) -> None:
    """Move the correction towards what is wanted, at its rate and within its bounds."""
    within, most = longest_correction(hold.command), RATE * hold.pace[PERIOD_S]
    for axis in range(3):
        off, bound = abs(hold.deviation[axis]), min(BOUNDS[axis], within)
        hold.active[axis] = off > FROM or (hold.active[axis] and off > UNTIL)
        wanted = -hold.deviation[axis] / GAIN if acts and hold.active[axis] else 0.0
        moved = hold.trim[axis] + min(max(wanted - hold.trim[axis], -most), most)
        hold.trim[axis] = np.float32(min(max(moved, -bound), bound))
