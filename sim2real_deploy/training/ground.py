"""The ground under and round many robots, each on its own tile, looked up in height maps."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim2real_deploy.training.terrain import GRID, Tile

Array64 = npt.NDArray[np.float64]
NEAR = 0.3  # m round a robot's start
AHEAD = np.array([0.0, 0.05, 0.1, 0.15])  # m in front of a foot
# Points round the trunk, along and across where it faces (m), that say how the ground lies.
SCAN = np.array([(x, y) for x in (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6) for y in (-0.18, 0.0, 0.18)])
UNDER = np.abs(SCAN[:, 0]) < 0.5  # those of them that a slope is fitted through


class Ground:
    def __init__(self, tiles: Sequence[Tile]):
        self._half = tiles[0].size / 2
        self._maps = np.stack([tile.heights() for tile in tiles]).astype(np.float32)
        self._last = self._maps.shape[1] - 1
        under = SCAN[UNDER]
        self._fit = np.linalg.pinv(np.column_stack([np.ones(len(under)), under]))[1:]

    def height(self, tile: npt.NDArray[np.int64], points: Array64) -> Array64:
        """At points (robots x points x 2)."""
        cells = np.clip(np.rint((points + self._half) / GRID), 0, self._last).astype(np.int64)
        return self._maps[tile[:, None], cells[..., 1], cells[..., 0]].astype(np.float64)

    def highest(self, tile: int, x: float, y: float) -> float:
        """Near a place where a robot starts."""
        i, j = (round((value + self._half) / GRID) for value in (y, x))
        near = round(NEAR / GRID)
        return float(self._maps[tile, i - near : i + near + 1, j - near : j + near + 1].max())

    def scan(self, tile: npt.NDArray[np.int64], place: Array64, forward: Array64) -> Array64:
        """Heights at SCAN round each robot (robots x points)."""
        return self.around(tile, place, forward, SCAN)

    def around(
        self, tile: npt.NDArray[np.int64], place: Array64, forward: Array64, points: Array64
    ) -> Array64:
        """Heights at points along and across where each robot faces (robots x points)."""
        left = np.stack([-forward[:, 1], forward[:, 0]], 1)
        along = points[:, 0, None] * forward[:, None] + points[:, 1, None] * left[:, None]
        return self.height(tile, place[:, None] + along)

    def slope(self, scan: Array64) -> Array64:
        """Rise per metre along and across each robot, of the plane through what it stands on."""
        return np.asarray(scan[:, UNDER] @ self._fit.T)

    def step_ahead(self, tile: npt.NDArray[np.int64], feet: Array64, way: Array64) -> Array64:
        """How far the ground rises in front of each foot (robots x feet), going this way."""
        robots, legs = feet.shape[:2]
        points = feet[:, :, None] + AHEAD[:, None] * way[:, None, None]
        heights = self.height(tile, points.reshape(robots, -1, 2)).reshape(robots, legs, -1)
        return np.asarray(heights.max(2) - heights[:, :, 0])
