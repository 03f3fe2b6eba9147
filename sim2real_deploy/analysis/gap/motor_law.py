"""Strength and delay of the motors, by torque against the PD law: needs no simulation."""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.analysis.gap.walk import Array, Walk

LATEST = 16  # wire periods that a command may be under way
LEAST_TORQUE = 0.3  # Nm rms: a joint that does less says nothing


@dataclass(frozen=True, slots=True)
class MotorLaw:
    """What the motors make of a command; the delay counts from the state that it answers."""

    delay_s: float
    strength: Array  # by joint: reported torque by that of the PD law
    fit: float  # share of the torque that the law explains


def fit_motor_law(walk: Walk) -> MotorLaw:
    rows = slice(walk.settled.start, len(walk))
    torque = walk["torque"][rows]
    torque = torque - torque.mean(axis=0)
    used = torque.std(axis=0) > LEAST_TORQUE
    share, strength = [], []
    for late in range(LATEST + 1):
        law = _pd_law(walk, rows, late)
        law -= law.mean(axis=0)
        gain = (law * torque).sum(axis=0) / np.maximum((law**2).sum(axis=0), 1e-12)
        left = ((torque - gain * law) ** 2).sum(axis=0) / np.maximum((torque**2).sum(axis=0), 1e-12)
        share.append(float(left[used].mean()) if used.any() else 1.0)
        strength.append(gain)
    best = int(np.argmin(share))
    rows_late = best + _vertex(share, best)
    return MotorLaw(rows_late / walk.rate_hz, strength[best], 1.0 - share[best])


def _pd_law(walk: Walk, rows: slice, late: int) -> Array:
    """The torque asked for when commands act `late` rows later and the state is fresh."""
    before = slice(rows.start - late, rows.stop - late)
    kp, kd = walk["kp"][before], walk["kd"][before]
    error = walk["target"][before] - walk["q"][rows]
    return np.asarray(kp * error - kd * walk["dq"][rows] + walk["feed_forward"][before])


def _vertex(values: list[float], best: int) -> float:
    """Where between its neighbours a minimum lies."""
    if not 0 < best < len(values) - 1:
        return 0.0
    left, middle, right = values[best - 1 : best + 2]
    bend = left - 2 * middle + right
    return 0.5 * (left - right) / bend if bend > 0 else 0.0
