"""Stage A: strength, delay and lag of each motor from torque against the PD law, no simulation.

Velocity readings have noise that is not in the torque, so plain least squares would find every
motor too weak. The recent commands are independent of that noise: both sides of the law are first
projected on them (two-stage least squares with the command as instrument).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.recording import JOINT_COLUMNS, Recording

Array = npt.NDArray[np.float64]
Interval = tuple[float, float]

INSTRUMENTS = np.arange(0, 64, 4)  # rows of command history
BLOCK = 1000  # rows; the bootstrap resamples blocks
DELAYS = np.arange(1.0, 13.01, 0.25)  # rows
LAGS = np.array((0.0, 1.0, 2.0, 3.0, 4.0, 5.5, 7.0, 9.0, 12.0, 16.0))  # rows
AGES = (0.0, 0.5, 1.0)  # rows by which a torque may belong to an older state than its row's
SPEED_SHARE = 0.03  # closer to one than this: kp and kd have the same strength
LEAST_FEED = 0.05  # Nms/rad: less cannot be told from zero
SEVERAL = 1.5  # least ratio of the largest kd to the smallest
LEAST_BIAS = 0.02  # Nm: less cannot be told from zero,
LEAST_BLOCKS = 5  # nor can any bias with fewer blocks
LEAST_SPEED_OFFSET = 0.004  # rad/s: one step of the real boards' velocity
LEAST_TORQUE = 0.05  # Nm rms explained by the law: with less the joint is not excited
DRAWS = 100
UNKNOWN: Interval = (0.0, np.inf)
LAG_EVIDENCE = 0.8  # a lag counts only if it removes this share of the residual


@dataclass(frozen=True, slots=True)
class MotorLaw:
    """The law of one joint; intervals are 95 %."""

    residual: float  # Nm rms that the law leaves
    torque: float  # Nm rms about the mean
    strength: float = 1.0
    strength_interval: Interval = UNKNOWN
    delay: float = 0.0  # s, from a command to the reported torque
    delay_interval: Interval = UNKNOWN
    lag: float = 0.0  # s
    lag_interval: Interval = UNKNOWN
    speed_share: float = 1.0  # strength of kd over strength of kp
    speed_gain: float = 1.0  # velocity reading over the slope of the position
    speed_feed: float = 0.0  # Nms/rad, torque along the velocity besides the PD law
    speed_feed_interval: Interval = UNKNOWN
    torque_bias: float = 0.0  # Nm, mean torque besides the PD law
    torque_bias_interval: Interval = UNKNOWN
    speed_offset: float = 0.0  # rad/s, velocity reading at rest
    excited: bool = False


@dataclass(frozen=True, slots=True)
class _Terms:
    """One block projected on its instruments; by lag and delay: kp and kd terms of the law."""

    terms: Array  # (ages and lags) x delays x 2 x instruments
    torque: Array  # instruments
    kd: float


def fit_motor_law(
    recordings: Sequence[Recording], joint: int, rng: np.random.Generator, lags: Array = LAGS
) -> MotorLaw:
    """From all recordings together. Never refuses; `excited` tells whether the result counts."""
    blocks = [b for r in recordings for b in _blocks(r, joint, lags)]
    both = sum(float(r["torque"][:, joint].var()) * len(r) for r in recordings)
    torque = np.sqrt(both / max(sum(len(r) for r in recordings), 1))
    if not blocks:
        return MotorLaw(residual=float(torque), torque=float(torque))
    of_all_ages = _grams(blocks)
    grams = _of_best_age(of_all_ages, len(lags))
    everything = np.ones(len(blocks))
    speed_share = _speed_share(grams, everything)
    joined = abs(speed_share - 1) < SPEED_SHARE
    period = recordings[0].period
    best = _search(grams, everything, joined, lags)
    draws = rng.multinomial(len(blocks), everything / len(blocks), DRAWS).astype(float)
    drawn = np.array([_search(grams, weights, joined, lags) for weights in draws])
    low, high = np.percentile(drawn, (2.5, 97.5), axis=0)
    strength, delay, lag, residual, explained = best
    feed, feed_interval = 0.0, (0.0, 0.0)
    fed = _with_feed(of_all_ages, len(lags), draws)
    if fed is not None and fed.residual < residual:  # otherwise a lag explains more
        strength, delay, lag, residual = fed.strength, fed.delay, 0.0, fed.residual
        low[2] = high[2] = 0.0
        low[1], high[1] = np.minimum(low[1], delay), np.maximum(high[1], delay)
        feed, feed_interval, speed_share = fed.feed, fed.interval, fed.speed_share
        joined = abs(speed_share - 1) < SPEED_SHARE
    rows = sum(len(r) for r in recordings)
    law = (strength, strength * speed_share, delay, feed)
    bias, bias_interval = _torque_bias(recordings, joint, law, rng)
    return MotorLaw(
        strength=strength,
        strength_interval=(float(low[0]), float(high[0])),
        delay=delay * period,
        delay_interval=(float(low[1]) * period, float(high[1]) * period),
        lag=lag * period,
        lag_interval=(float(low[2]) * period, float(high[2]) * period),
        speed_share=speed_share if not joined else 1.0,
        speed_gain=speed_reading(recordings, joint),
        speed_feed=feed,
        speed_feed_interval=feed_interval,
        torque_bias=bias,
        torque_bias_interval=bias_interval,
        speed_offset=_speed_offset(recordings, joint),
        residual=float(np.sqrt(max(residual, 0.0) / rows)),
        torque=float(torque),
        excited=bool(np.sqrt(max(explained, 0.0) / rows) > LEAST_TORQUE),
    )


def _blocks(recording: Recording, joint: int, lags: Array) -> list[_Terms]:
    column = {name: recording[name][:, joint] for name in JOINT_COLUMNS}
    column["fresh"] = recording.fresh.astype(float)
    starts = range(int(INSTRUMENTS[-1]) + 1, len(recording) - BLOCK // 2, BLOCK)
    return [
        terms
        for start in starts
        if (terms := _project(column, slice(start, min(start + BLOCK, len(recording))), lags))
    ]


def _project(column: dict[str, Array], rows: slice, lags: Array) -> _Terms | None:
    """None if the motor is off, its gains change or its target does not move."""
    first = int(INSTRUMENTS[-1])
    whole = slice(rows.start - first, rows.stop)
    kp, kd = column["kp"][whole], column["kd"][whole]
    fresh = np.flatnonzero(column["fresh"][rows] > 0) + first
    if kp[0] <= 0 or np.ptp(kp) or np.ptp(kd) or len(fresh) < BLOCK // 4:
        return None
    target, q = column["target_q"][whole], column["q"][whole]
    history = np.stack([target[fresh - lag] for lag in INSTRUMENTS], axis=1)
    if np.ptp(history) < 1e-3:
        return None
    left, size, _ = np.linalg.svd(history - history.mean(axis=0), full_matrices=False)
    basis = left[:, size > 1e-7 * size[0]]  # without the mean, which holds the torque bias
    rows_late = np.arange(int(DELAYS[-1]) + 2)
    terms = np.empty((len(AGES), len(lags), len(DELAYS), 2, basis.shape[1]))
    pairs = (
        (kp[0] * target + column["feed_forward"][whole], kp[0] * q),
        (kd[0] * column["target_dq"][whole], kd[0] * column["dq"][whole]),
    )
    for (k, lag), (t, (ask, read)) in itertools.product(enumerate(lags), enumerate(pairs)):
        commanded = np.zeros((len(DELAYS), basis.shape[1]))
        if ask.any():
            asked = _lagged(ask, lag)
            commanded = _between(asked[fresh[None] - rows_late[:, None]] @ basis)
        state = _lagged(read, lag)
        newer, older = state[fresh] @ basis, state[fresh - 1] @ basis
        for a, age in enumerate(AGES):
            terms[a, k, :, t] = commanded - (1 - age) * newer - age * older
    flat = terms.reshape(-1, *terms.shape[2:])
    return _Terms(flat, column["torque"][whole][fresh] @ basis, float(kd[0]))


def _between(whole: Array) -> Array:
    """Values at DELAYS, interpolated between whole rows."""
    floor = np.floor(DELAYS).astype(int)
    share = (DELAYS - floor)[:, None]
    return np.asarray((1 - share) * whole[floor] + share * whole[floor + 1])


def _lagged(values: Array, rows: float) -> Array:
    """Filtered with a first-order lag."""
    if rows == 0:
        return values
    keep = np.exp(-1 / rows)
    kernel = (1 - keep) * keep ** np.arange(min(int(7 * rows) + 1, int(INSTRUMENTS[-1])))
    padded = np.concatenate((np.full(len(kernel), values[0]), values))
    return np.convolve(padded, kernel / kernel.sum())[len(kernel) : len(kernel) + len(values)]


@dataclass(frozen=True, slots=True)
class _Grams:
    """Sums of products of each block, which is all that least squares needs."""

    terms: Array  # blocks x lags x delays x 2 x 2
    cross: Array  # blocks x lags x delays x 2
    torque: Array  # blocks
    kd: Array  # blocks

    def summed(self, weights: Array) -> tuple[Array, Array]:
        square = np.einsum("b,bkdij->kdij", weights, self.terms)
        return square, np.einsum("b,bkdi->kdi", weights, self.cross)

    def solved(self, weights: Array) -> tuple[Array, Array]:
        """Strengths of the kp and kd terms, and the squares they explain, by lag and delay."""
        square, cross = self.summed(weights)
        strengths = np.linalg.solve(square + 1e-9 * np.eye(2), cross[..., None])[..., 0]
        return np.asarray(strengths), (strengths * cross).sum(-1)


def _grams(blocks: Sequence[_Terms]) -> _Grams:
    return _Grams(
        np.stack([np.einsum("kdai,kdbi->kdab", b.terms, b.terms) for b in blocks]),
        np.stack([b.terms @ b.torque for b in blocks]),
        np.array([b.torque @ b.torque for b in blocks]),
        np.array([b.kd for b in blocks]),
    )


def _of_best_age(grams: _Grams, lags: int) -> _Grams:
    """The terms at the age of the state that explains most, for all blocks together."""
    _, explained = grams.solved(np.ones(len(grams.kd)))
    explained = explained.max(axis=1)
    first = int(np.argmax(explained)) // lags * lags
    chosen = slice(first, first + lags)
    return _Grams(grams.terms[:, chosen], grams.cross[:, chosen], grams.torque, grams.kd)


def _search(
    grams: _Grams, weights: Array, joined: bool, lags: Array
) -> tuple[float, float, float, float, float]:
    """Strength, delay, lag (rows), residual and explained sum of squares at the best fit."""
    total = float(weights @ grams.torque)
    if joined:
        square, cross = grams.summed(weights)
        strength = cross.sum(-1) / np.maximum(square.sum((-1, -2)), 1e-12)
        explained = strength * cross.sum(-1)
    else:
        solved, explained = grams.solved(weights)
        strength = solved[..., 0]
    k, d = np.unravel_index(int(np.argmax(explained)), explained.shape)
    if explained[0].max() > explained[k, d] - LAG_EVIDENCE * (total - explained[k, d]):
        explained, strength, lags = explained[:1], strength[:1], lags[:1]
        k, d = np.intp(0), np.argmax(explained[0])
    lag = _peak(lags, explained[:, d], int(k))
    # The best delay depends on the lag: read both at the refined maximum.
    near = min(max(int(np.searchsorted(lags, lag)) - 1, 0), max(len(lags) - 2, 0))
    after = min(near + 1, len(lags) - 1)
    share = 0.0 if after == near else (lag - lags[near]) / (lags[after] - lags[near])
    row = (1 - share) * explained[near] + share * explained[after]
    at = int(np.argmax(row))
    delay = _peak(DELAYS, row, at)
    strength_row = (1 - share) * strength[near] + share * strength[after]
    found = float(np.interp(delay, DELAYS, strength_row))
    return found, delay, lag, total - float(row[at]), float(row[at])


def _peak(grid: Array, values: Array, at: int) -> float:
    """The maximum of a parabola through the best point and its neighbours."""
    if not 0 < at < len(grid) - 1:
        return float(grid[at])
    x, y = grid[at - 1 : at + 2], values[at - 1 : at + 2]
    second, first, _ = np.polyfit(x - x[1], y, 2)
    if second >= 0:
        return float(grid[at])
    return float(np.clip(x[1] - first / (2 * second), x[0], x[2]))


def _speed_share(grams: _Grams, weights: Array) -> float:
    solved, explained = grams.solved(weights)
    best = np.unravel_index(int(np.argmax(explained)), explained.shape)
    position, speed = solved[best]
    return float(speed / position) if position > 0 else 1.0


@dataclass(frozen=True, slots=True)
class _Fed:
    """A law without lag, with a board that adds torque along the velocity."""

    strength: float
    speed_share: float
    feed: float
    interval: Interval
    delay: float  # rows
    residual: float  # squares left


def _with_feed(grams: _Grams, lags: int, draws: Array) -> _Fed | None:
    """The law with a speed feed, at the age of the state that explains most; None if there is none.

    It takes recordings at several kd: the feed is the part of the torque that is proportional to
    velocity and independent of kd.
    """
    if grams.kd.min() * SEVERAL > grams.kd.max():
        return None
    turn = np.zeros((len(grams.kd), 1, 3, 2))  # of the law's terms: the velocity without its kd
    turn[..., 0, 0] = turn[..., 1, 1] = 1.0
    turn[..., 2, 1] = -1 / grams.kd[:, None]
    terms, cross = grams.terms[:, ::lags], grams.cross[:, ::lags]  # without lag, at each age
    blocks, joined = len(grams.kd), (len(AGES) * len(DELAYS),)
    squares = turn @ terms.reshape(blocks, *joined, 2, 2) @ turn.swapaxes(-1, -2)
    sides = (turn @ cross.reshape(blocks, *joined, 2, 1))[..., 0]

    def solve(weights: Array, delays: slice) -> Array:
        total = np.tensordot(weights, squares[:, delays], 1) + 1e-9 * np.eye(3)
        side = np.tensordot(weights, sides[:, delays], 1)
        return np.asarray(np.linalg.solve(total, side[..., None])[..., 0])

    everything = np.ones(len(grams.kd))
    explained = (solve(everything, slice(None)) * sides.sum(0)).sum(-1)
    at = int(np.argmax(explained))
    here, age = slice(at, at + 1), at // len(DELAYS)
    position, speed, feed = solve(everything, here)[0]
    low, high = np.percentile([solve(weights, here)[0, 2] for weights in draws], (2.5, 97.5))
    if feed < LEAST_FEED or low <= LEAST_FEED / 2 or position <= 0:
        return None
    return _Fed(
        strength=float(position),
        speed_share=float(speed / position),
        feed=float(feed),
        interval=(float(low), float(high)),
        delay=_peak(DELAYS, explained.reshape(len(AGES), -1)[age], at % len(DELAYS)),
        residual=float(grams.torque.sum() - explained[at]),
    )


def _torque_bias(
    recordings: Sequence[Recording],
    joint: int,
    law: tuple[float, float, float, float],
    rng: np.random.Generator,
) -> tuple[float, Interval]:
    """Mean torque besides the law (strengths of kp and kd, delay in rows, speed feed) and its
    interval; zero if it cannot be told from zero."""
    strength, damping, delay, feed = law
    late, means = round(delay), []
    for recording in recordings:
        column = {name: recording[name][:, joint] for name in JOINT_COLUMNS}
        for start in range(late + 1, len(recording) - BLOCK, BLOCK):
            rows = np.arange(start, start + BLOCK)
            rows = rows[recording.fresh[rows] & (column["kp"][rows] > 0)]
            if len(rows) < BLOCK // 4:
                continue
            sent = rows - late
            pull = column["kp"][sent] * (column["target_q"][sent] - column["q"][rows])
            brake = column["kd"][sent] * (column["target_dq"][sent] - column["dq"][rows])
            asked = strength * (pull + column["feed_forward"][sent]) + damping * brake
            left = column["torque"][rows] - asked - feed * column["dq"][rows]
            means.append(float(left.mean()))
    if len(means) < LEAST_BLOCKS:
        return 0.0, (0.0, 0.0)
    drawn = rng.choice(means, (DRAWS, len(means))).mean(axis=1)
    low, high = (float(x) for x in np.percentile(drawn, (2.5, 97.5)))
    bias = float(np.mean(means))
    if abs(bias) < LEAST_BIAS or low * high <= 0:
        return 0.0, (min(low, 0.0), max(high, 0.0))
    return bias, (low, high)


def _speed_offset(recordings: Sequence[Recording], joint: int) -> float:
    """Mean velocity reading minus the mean velocity by positions."""
    read = moved = 0.0
    for recording in recordings:
        q, dq = recording["q"][:, joint], recording["dq"][:, joint]
        read += float(dq[recording.fresh].mean()) * recording.seconds
        moved += float(q[-1] - q[0])
    offset = (read - moved) / sum(recording.seconds for recording in recordings)
    return offset if abs(offset) > LEAST_SPEED_OFFSET else 0.0


def speed_reading(recordings: Sequence[Recording], joint: int) -> float:
    """Velocity reading over the slope of the position, with the command as instrument."""
    read = change = 0.0
    for recording in recordings:
        q, dq = recording["q"][:, joint], recording["dq"][:, joint]
        steps = (q[2:] - q[:-2]) / (2 * recording.period)
        rows = np.arange(int(INSTRUMENTS[-1]) + 1, len(q) - 2)
        rows = rows[recording.fresh[rows - 1] & recording.fresh[rows] & recording.fresh[rows + 1]]
        if len(rows) < BLOCK // 4:
            continue
        target = recording["target_q"][:, joint]
        history = np.stack([target[rows - lag] for lag in INSTRUMENTS], axis=1)
        history -= history.mean(axis=0)
        weights = np.linalg.lstsq(history, steps[rows - 1], rcond=None)[0]
        guess = history @ weights
        change += float(guess @ guess)
        read += float(guess @ dq[rows])
    return read / change if change > 0 else 1.0
