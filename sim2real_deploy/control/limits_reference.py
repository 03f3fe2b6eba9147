"""limits.py in plain numpy, all joints at once: its reference, and its substitute without numba."""

from typing import Any

import numpy as np

Array = Any  # a numpy array
FINITE, RANGE, STEP, VELOCITY, TORQUE = 1, 2, 4, 8, 16  # bits: which limit acted
NEGLIGIBLE = 1e-3  # Nm


def clamp(values: Array, low: Array, high: Array) -> Array:
    """`values` within their bounds; NaN stays NaN."""
    return np.where(values < low, low, np.where(values > high, high, values))


def pd(command: Array, motion: Array) -> Array:
    """The torques that the motor boards make of a command at this motion."""
    (q, dq, kp, kd, torque), (at, speed) = command.astype(float), motion.astype(float)
    return kp * (q - at) + kd * (dq - speed) + torque


def limit(
    asked: Array, motion: Array, fraction: float, bounds: Array, sent: Array, acted: Array
) -> bool:
    """See limits.py."""
    acted[:] = FINITE * ~np.isfinite(asked).all(0)
    if acted.any():
        return False
    low, high, fastest, step, torque_limit = bounds
    most = torque_limit * fraction
    goal = clamp(asked[0], low, high)
    last = sent[0].astype(float)
    sent[:] = (
        clamp(goal, last - step, last + step),
        clamp(asked[1], -fastest, fastest),
        asked[2],
        asked[3],
        clamp(asked[4], -most, most),
    )
    acted |= np.uint8(RANGE) * (goal != asked[0])
    acted |= np.uint8(VELOCITY) * (sent[1] != asked[1])
    acted |= np.uint8(STEP) * (sent[0] != goal)
    acted |= np.uint8(TORQUE) * (sent[4] != asked[4])
    torque, speed = pd(sent, motion), motion[1]
    upper, lower = np.where(speed > fastest, 0.0, most), np.where(speed < -fastest, 0.0, -most)
    held = clamp(torque, lower, upper)
    over = held != torque
    acted |= np.uint8(VELOCITY) * (over & (np.abs(speed) > fastest))
    acted |= np.uint8(TORQUE) * (over & (np.abs(torque) > most))
    movable = over & (sent[2] > 0.0)
    change = np.divide(held - torque, sent[2], out=np.zeros_like(held), where=movable)
    sent[0] = np.where(movable, clamp(sent[0] + change, low, high), sent[0])
    rest = held - pd(sent, motion)
    sent[4] = np.where(over & ~(np.abs(rest) <= NEGLIGIBLE), sent[4] + rest, sent[4])
    return True
