"""How strong each motor is: recursive least squares of reported torque on the PD law.

The boards answer a command that was sent some ticks ago with the joint's present position and
velocity. The regression runs for every delay in question at once; the delay that explains the
torques of all joints best is the one believed. It has an intercept, so an offset of the torque
sensor does no harm and a joint that does not move teaches nothing. Where strength and delay cannot
be told apart, as with a leg that swings fast in the air, the standard error says so.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim2real_deploy.compiled import compiled, part, quickest
from sim2real_deploy.robots.state import Floats

Vector = npt.NDArray[np.float64]
Array = Any  # a numpy array, as the compiled loops see it
Sums = tuple[Array, Array, Array, Array, Array]  # now, mean, squares, products, samples
Judgement = tuple[Array, Array, Array, Array]  # ready, slope, missing, unexplained
KNOWN, OLDEST, DELAY, BEST = range(4)  # places in `memo`
SHARE, FULL = range(2)  # places in `figures`

DELAYS = 8  # ticks: from one to so many
MEMORY_S = 1.0  # time constant of forgetting: two seconds hold most of the weight
FULL_S = 0.8  # of samples, before anything is believed
EXCITED = 0.03  # of the torque limit: the spread of the law's torque from which on it is a lesson
CORRELATED = 8.0  # samples that follow each other err alike: so many count as one
DELAY_ERROR_TICKS = 0.5  # the true delay lies between two ticks: strength may be off with it
AS_GOOD = 2.0  # times the unexplained share of the best delay
CERTAIN = 0.05  # standard error up to which an estimate is used
SANE = 1.2  # of the torque limit: no motor reports or follows more
NEVER = 1.0  # standard error of a joint of which nothing is known
_TINY = 1e-9


def plain_learn(
    sent: Array, seen: Array, usable: Array, sane: Array, share: float, sums: Sums
) -> None:
    """Take one state into the regressions of all joints and delays."""
    now, mean, squares, products, samples = sums
    q, dq, torque = seen
    now[:-1] = sent[:, 2] * (sent[:, 0] - q) + sent[:, 3] * (sent[:, 1] - dq) + sent[:, 4]
    now[-1] = torque
    good = usable & (np.abs(now) < sane).all(axis=0)  # not so for NaN
    samples += good
    np.copyto(now, mean, where=~good)
    now -= mean
    part = np.where(good, share, 0.0)
    mean += part * now
    squares += now * now
    squares *= 1.0 - part
    products += now[:-1] * now[-1]
    products *= 1.0 - part


def _learn(sent: Array, seen: Array, usable: Array, sane: Array, share: float, sums: Sums) -> None:
    now, mean, squares, products, samples = sums
    last = sent.shape[0]
    for j in range(sane.size):
        good, now[last, j] = usable[j], seen[2, j]
        for d in range(last):
            law = np.float64(sent[d, 2, j]) * (sent[d, 0, j] - seen[0, j])
            now[d, j] = law + sent[d, 3, j] * (sent[d, 1, j] - seen[1, j]) + sent[d, 4, j]
        for d in range(last + 1):
            good = good and abs(now[d, j]) < sane[j]
        if not good:
            continue
        samples[j] += 1.0
        for d in range(last + 1):
            now[d, j] -= mean[d, j]
            mean[d, j] += share * now[d, j]
            squares[d, j] = (squares[d, j] + now[d, j] * now[d, j]) * (1.0 - share)
        for d in range(last):
            products[d, j] = (products[d, j] + now[d, j] * now[last, j]) * (1.0 - share)


learn = quickest(_learn, plain_learn)


@compiled
def judge(
    squares: Array, products: Array, samples: Array, full: float, excited: Array, out: Judgement
) -> int:
    """How well each delay explains the torques, where there is enough to tell: the place of the
    best, -1 for none."""
    ready, slope, missing, unexplained = out
    delays, some = products.shape[0], False
    for j in range(samples.size):
        ready[j] = samples[j] > full and squares[0, j] > excited[j]
        some = some or ready[j]
    if not some:
        return -1
    best = 0
    for d in range(delays):
        missing[d] = 0.0
        for j in range(samples.size):
            slope[d, j] = products[d, j] / (squares[d, j] + _TINY)
            if ready[j]:  # share of the torque's spread that is not explained
                missing[d] += 1.0 - slope[d, j] * products[d, j] / (squares[delays, j] + _TINY)
        if missing[d] < missing[best]:
            best = d
    for j in range(samples.size):
        left = squares[delays, j] + _TINY - slope[best, j] * products[best, j]
        unexplained[j] = max(left, 0.0) / (squares[best, j] + _TINY)
    return best


@compiled
def settle(judged: Judgement, best: int, share: float, strength: Array, error: Array) -> None:
    """Strength and its standard error. The delay may be off, too: by half a tick at least, and by
    every delay that explains the torques about as well as the best."""
    ready, slope, missing, unexplained = judged
    last = missing.size - 1
    for j in range(strength.size):
        if not ready[j] or slope[best, j] <= 0.0:
            continue
        low = high = slope[best, j]
        for d in range(last + 1):
            if missing[d] <= AS_GOOD * missing[best]:
                low, high = min(low, slope[d, j]), max(high, slope[d, j])
        around = abs(slope[max(best - 1, 0), j] - slope[min(best + 1, last), j])
        delay = max(DELAY_ERROR_TICKS / 2 * around, (high - low) / 2)
        found = math.sqrt(CORRELATED * share * unexplained[j] + delay * delay)
        if found < CERTAIN:
            strength[j], error[j] = slope[best, j], found


class Motors(NamedTuple):
    """`remember` every command, `take` a state at `rate_hz`, then `compare` and `estimate`: in
    parts, so that no tick has to do it all."""

    strength: Array  # of each joint
    error: Array  # one standard error of each
    nominal: Array  # the strength expected
    usable: Array  # joints on which no limit acted since the last state taken
    sent: Array  # the last DELAYS commands, twice over: they always lie in a row, the oldest first
    memo: Array  # commands since `restart`, the oldest's place, the delay found, its place
    figures: Array  # share of a sample in the means; samples, before anything is believed
    sane: Array  # Nm, by joint
    excited: Array
    samples: Array
    # Of each delay (rows) the law's torque, and in the last row the reported torque.
    now: Array
    mean: Array
    squares: Array  # sums about the means, fading
    products: Array  # likewise, of law and torque
    ready: Array
    slope: Array
    missing: Array
    unexplained: Array

    @classmethod
    def of(cls, torque_limit: Floats, nominal: Vector, rate_hz: float) -> "Motors":
        joints, share = len(torque_limit), 1.0 - math.exp(-1.0 / (MEMORY_S * rate_hz))
        limit = torque_limit.astype(np.float64)
        return cls(
            strength=nominal.copy(),
            error=np.full(joints, NEVER),
            nominal=nominal,
            usable=np.ones(joints, np.bool_),
            sent=np.zeros((2 * DELAYS, 5, joints), np.float32),
            memo=np.array([0, 0, 0, -1]),
            figures=np.array([share, FULL_S * rate_hz]),
            sane=SANE * limit,
            excited=(EXCITED * limit) ** 2 / share,
            samples=np.zeros(joints),
            now=np.zeros((DELAYS + 1, joints)),
            mean=np.zeros((DELAYS + 1, joints)),
            squares=np.zeros((DELAYS + 1, joints)),
            products=np.zeros((DELAYS, joints)),
            ready=np.zeros(joints, np.bool_),
            slope=np.zeros((DELAYS, joints)),
            missing=np.zeros(DELAYS),
            unexplained=np.zeros(joints),
        )

    @property
    def delay_ticks(self) -> int:
        """0: not known yet."""
        return int(self.memo[DELAY])

    def restart(self) -> None:
        """The commands before this one were not seen."""
        self.memo[KNOWN] = 0
        self.usable[:] = True


@part
def remember(motors: Motors, sent: Array, acted: Array) -> bool:
    """A command as it left (rows of q, dq, kp, kd, torque), and the limits that acted on each
    joint; whether one did."""
    memo, some = motors.memo, False
    oldest = memo[OLDEST]
    for j in range(acted.size):
        for row in range(sent.shape[0]):
            motors.sent[oldest, row, j] = motors.sent[oldest + DELAYS, row, j] = sent[row, j]
        if acted[j]:
            motors.usable[j], some = False, True
    memo[OLDEST] = (oldest + 1) % DELAYS
    memo[KNOWN] += 1
    return some


@part
def take(motors: Motors, seen: Array) -> None:
    """A state: rows q, dq, torque. Joints that are not `usable` are left out."""
    oldest, share = motors.memo[OLDEST], motors.figures[SHARE]
    if motors.memo[KNOWN] >= DELAYS:
        sums = (motors.now, motors.mean, motors.squares, motors.products, motors.samples)
        sent = motors.sent[oldest : oldest + DELAYS]
        learn(sent, seen, motors.usable, motors.sane, share, sums)
    for j in range(motors.usable.size):
        motors.usable[j] = True


@part
def compare(motors: Motors) -> None:
    """How well each delay explains the torques."""
    memo, out = motors.memo, (motors.ready, motors.slope, motors.missing, motors.unexplained)
    sums = motors.squares, motors.products, motors.samples
    memo[BEST] = judge(*sums, motors.figures[FULL], motors.excited, out)
    if memo[BEST] >= 0:
        memo[DELAY] = DELAYS - memo[BEST]


@part
def estimate(motors: Motors) -> None:
    """Strength and its standard error, of the last `compare`."""
    judged = motors.ready, motors.slope, motors.missing, motors.unexplained
    if motors.memo[BEST] >= 0:
        best, share = motors.memo[BEST], motors.figures[SHARE]
        settle(judged, best, share, motors.strength, motors.error)
