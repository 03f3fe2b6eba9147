"""Estimates when the states of a log were really sampled.

A program that logs the latest state once per period writes some states late and some twice, since
its clock and the robot's drift apart. All joints of such a row are displaced along their velocity
by the same time. The displacement from a smooth path through neighbouring rows gives that time, and
the states are then interpolated onto even rows.
"""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.smoothing import slope, smooth

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

HALF = 6  # rows either side of a smooth path
SLOW = 0.3  # rad/s rms over the joints: at lower speeds noise would be taken for time
MOST = 1.5  # periods that a row can be off
EVIDENCE = 0.25  # share of the deviations that one time per row explains; by chance it is 0.12


def sampling_times(q: Array, period: float) -> Array | None:
    """The time of each row since the first (s); None if rows are about evenly spaced."""
    path, speed = smooth(q, HALF), slope(q, period, HALF)
    off = q - path
    off[:HALF] = off[-HALF:] = 0.0  # at the ends the path is not a parabola
    late = (off * speed).sum(axis=1) / ((speed**2).sum(axis=1) + q.shape[1] * SLOW**2)
    late = np.clip(late, -MOST * period, MOST * period)
    total = float((off**2).sum())
    left = float(((off - late[:, None] * speed) ** 2).sum())
    if total == 0 or 1 - left / total < EVIDENCE:
        return None
    return np.asarray(np.arange(len(q)) * period + late)


def on_even_rows(values: Array, times: Array, fresh: Flags, period: float) -> Array:
    """Readings sampled at `times`, interpolated onto even rows."""
    order = np.argsort(times[fresh], kind="stable")
    at, known = times[fresh][order], values[fresh][order]
    rows = np.arange(len(values)) * period
    return np.stack([np.interp(rows, at, column) for column in known.T], axis=1)
