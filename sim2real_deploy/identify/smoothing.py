"""Smoothed readings and their slopes (Savitzky and Golay)."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def smooth(values: Array, half: int = 4) -> Array:
    """Fit a parabola through each row and `half` neighbours on either side."""
    return _convolved(values, _kernel(half, 0))


def slope(values: Array, period: float, half: int = 4) -> Array:
    return _convolved(values, _kernel(half, 1)) / period


def _kernel(half: int, derivative: int) -> Array:
    x = np.arange(-half, half + 1, dtype=float)
    return np.asarray(np.linalg.pinv(np.vander(x, 3, increasing=True))[derivative])


def _convolved(values: Array, kernel: Array) -> Array:
    half = len(kernel) // 2
    padded = np.pad(values, ((half, half), (0, 0)), mode="edge")
    return np.asarray(
        np.stack([np.convolve(column, kernel[::-1], "valid") for column in padded.T], axis=1)
    )
