"""Seeded noise without a call into the generator at every step."""

import numpy as np
import numpy.typing as npt

_ROWS = 512


class WhiteNoise:
    """Arrays of Gaussian noise, each entry with its own spread, drawn a block at a time."""

    def __init__(self, rng: np.random.Generator, spread: npt.ArrayLike) -> None:
        self._rng = rng
        self._spread = np.asarray(spread, np.float64)
        self._block = np.zeros((_ROWS, *self._spread.shape))
        self._next = _ROWS

    def draw(self) -> npt.NDArray[np.float64]:
        """The next array: a view, good until the block is used up."""
        if self._next == _ROWS:
            self._rng.standard_normal(out=self._block)
            self._block *= self._spread
            self._next = 0
        self._next += 1
        return self._block[self._next - 1]  # type: ignore[no-any-return]
