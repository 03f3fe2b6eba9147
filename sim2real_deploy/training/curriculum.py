"""Which terrain each environment walks on: harder after success, easier after a fall."""

import numpy as np

from sim2real_deploy.training.config import Terrain


class TerrainCurriculum:
    """Some environments climb the config's levels one by one; the others stay on the first."""

    def __init__(self, terrain: Terrain, count: int):
        self.last = len(terrain.levels) - 1
        self.climbing = np.arange(count) < round(terrain.share * count)
        self.level = np.zeros(count, np.int64)

    def finish(self, who: int, fell: bool, tracked: bool, rng: np.random.Generator) -> None:
        """An episode is over. Whoever masters the last level is sent to a random one."""
        if not self.climbing[who]:
            return
        if fell:
            self.level[who] = max(0, self.level[who] - 1)
        elif tracked:
            self.level[who] += 1
            if self.level[who] > self.last:
                self.level[who] = rng.integers(self.last + 1)

    @property
    def mean_level(self) -> float:
        return float(self.level[self.climbing].mean()) if self.climbing.any() else 0.0
