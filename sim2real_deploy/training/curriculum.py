"""Which terrain each environment walks on: harder after success, easier after failure."""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.training.config import Terrain
from sim2real_deploy.training.terrain import first_tiles


class TerrainCurriculum:
    """Every environment stays on one kind of terrain and moves through its levels.

    An episode is promoted or demoted by the share of the commanded distance that it walked.
    """

    def __init__(self, terrain: Terrain, count: int):
        self._settings = terrain.promotion
        self.names: list[str] = [kind.kind for kind in terrain.kinds]
        edges = np.cumsum([kind.share for kind in terrain.kinds])
        self.kind = np.searchsorted(edges / edges[-1], (np.arange(count) + 0.5) / count)
        self._first = np.array(first_tiles(terrain))
        self._levels = np.array([len(kind.levels) for kind in terrain.kinds])
        highest = self._levels[self.kind] - 1
        self.level = np.floor(terrain.start * highest).astype(np.int64)

    def tile(self, env: int) -> int:
        return int(self._first[self.kind[env]] + self.level[env])

    def finish(
        self, env: int, fell: bool, walked: float, commanded: float, rng: np.random.Generator
    ) -> None:
        """Promote or demote after an episode. After the last level comes a random level."""
        levels = self._levels[self.kind[env]]
        share = walked / max(commanded, 1e-6)
        long = commanded > self._settings.least_way
        if fell or (long and share < self._settings.demote_below):
            self.level[env] = max(0, self.level[env] - 1)
        elif long and share > self._settings.promote_above:
            self.level[env] += 1
            if self.level[env] >= levels:
                self.level[env] = rng.integers(levels)

    def resume(self, levels: dict[str, float]) -> None:
        """Continue at the mean levels of an earlier session; shares and levels may have changed."""
        for number, name in enumerate(self.names):
            level = min(round(levels.get(name, 0.0)), int(self._levels[number]) - 1)
            self.level[self.kind == number] = level

    def on(self, name: str) -> npt.NDArray[np.bool_]:
        """Which environments are on this kind."""
        return np.asarray(self.kind == self.names.index(name))

    def mean_levels(self) -> dict[str, float]:
        """By kind, among the environments that are on it; 0 where there are none."""
        return {
            name: float(self.level[self.on(name)].mean()) if self.on(name).any() else 0.0
            for name in self.names
        }
