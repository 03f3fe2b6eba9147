"""Height maps of a whole batch: the true ground with the errors of the twin's height scan.

See twin/height_scan.py, which a finished policy is judged with.
"""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.policy.height_grid import HeightGrid
from sim2real_deploy.training.config import HeightErrors
from sim2real_deploy.training.ground import Ground
from sim2real_deploy.training.rewards import Array, Flags

Array64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


class HeightMaps:
    """`look` in every control step; a new episode begins with a map that is already there."""

    def __init__(self, grid: HeightGrid, errors: HeightErrors, rate_hz: float, count: int) -> None:
        self._grid, self._errors = grid, errors
        self._period = max(1, round(errors.period * rate_hz))  # control steps between two maps
        shortest, longest = (round(delay * rate_hz) for delay in errors.delay)
        self._delays = shortest, longest + 1
        points = len(grid.points)
        # Maps on their way, in turn, and how many control steps each still takes (0: none).
        self._coming = np.zeros((count, longest // self._period + 1, points), np.float32)
        self._wait = np.zeros(self._coming.shape[:2], np.int64)
        self._slot = np.zeros(count, np.int64)  # where the next one goes
        self._delay = np.zeros(count, np.int64)
        self._until = np.zeros(count, np.int64)  # control steps until the next map is measured
        self._ground = np.zeros((count, points))  # as last measured
        self._known = np.zeros((count, points), np.float32)

    def true(self, ground: Ground, tile: Index, position: Array64, forward: Array64) -> Array:
        """Height of each base above its grid's points, without errors."""
        heights = ground.around(tile, position[:, :2], forward, self._grid.points)
        return (position[:, 2:] - heights - self._grid.offset).astype(np.float32)

    def look(
        self, true: Array, base: Array64, fresh: Flags, width: float, rng: np.random.Generator
    ) -> Array:
        """What each robot knows now; `base` are the heights of the bases in the world."""
        self._wait -= self._wait > 0
        self._until -= 1
        self._begin(fresh, rng)
        due = np.flatnonzero((self._until <= 0) | fresh)
        measured = self._measure(true, base, due, fresh[due], width, rng)
        self._until[due] = np.where(fresh[due], self._until[due], self._period)
        slot = self._slot[due]
        self._coming[due, slot] = measured
        self._wait[due, slot] = self._delay[due] + 1
        self._slot[due] = (slot + 1) % self._wait.shape[1]
        for column in range(self._wait.shape[1]):
            here = self._wait[:, column] == 1
            self._known[here] = self._coming[here, column]
        new = np.flatnonzero(fresh)
        self._known[new] = self._coming[new, 0]
        return self._known

    def _begin(self, fresh: Flags, rng: np.random.Generator) -> None:
        new = np.flatnonzero(fresh)
        self._wait[new] = self._slot[new] = 0
        self._delay[new] = rng.integers(*self._delays, len(new))
        self._until[new] = rng.integers(1, self._period + 1, len(new))

    def _measure(
        self,
        true: Array,
        base: Array64,
        due: Index,
        fresh: Flags,
        width: float,
        rng: np.random.Generator,
    ) -> Array:
        """Noise on each point; a hole holds the last value, in a new episode the true one."""
        level = base[due, None] - self._grid.offset
        seen = level - true[due] + rng.normal(0.0, width * self._errors.noise, true[due].shape)
        unseen = (rng.random(seen.shape) < width * self._errors.holes) & ~fresh[:, None]
        self._ground[due] = np.where(unseen, self._ground[due], seen)
        return (level - self._ground[due]).astype(np.float32)
