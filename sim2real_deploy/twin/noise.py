"""Seeded noise without a call into the generator at every step."""

import numpy as np
import numpy.typing as npt

_ROWS = 512


class WhiteNoise:
    """Rows of Gaussian noise with a spread per column, drawn a block at a time."""

    def __init__(self, rng: np.random.Generator, spread: npt.ArrayLike) -> None:
        self._rng = rng
        self._spread = np.asarray(spread, np.float64)
        self._block = np.zeros((_ROWS, len(self._spread)))
        self._next = _ROWS

    def row(self) -> npt.NDArray[np.float64]:
        """The next row: a view, good until the block is used up."""
        if self._next == _ROWS:
            self._rng.standard_normal(out=self._block)
            self._block *= self._spread
            self._next = 0
        row = self._block[self._next]
        self._next += 1
        return row  # type: ignore[no-any-return]
