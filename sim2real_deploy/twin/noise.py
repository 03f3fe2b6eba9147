"""Seeded noise without a call into the generator at every step."""

import numpy as np
import numpy.typing as npt

_ROWS = 64  # drawn at a time: few enough to stay in the cache


class WhiteNoise:
    """Arrays of Gaussian noise, each entry with its own mean and standard deviation, drawn in
    blocks."""

    def __init__(
        self, rng: np.random.Generator, spread: npt.ArrayLike, mean: npt.ArrayLike = 0.0
    ) -> None:
        self._rng = rng
        self._spread = np.asarray(spread, np.float64)
        self._mean = np.array(mean, np.float64)
        self._drawn: list[npt.NDArray[np.float64]] = []

    def draw(self) -> npt.NDArray[np.float64]:
        if not self._drawn:
            block = self._rng.standard_normal((_ROWS, *self._spread.shape))
            self._drawn = list(block * self._spread + self._mean)
        return self._drawn.pop()
