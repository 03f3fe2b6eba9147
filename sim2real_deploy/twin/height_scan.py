"""A simulated height map around the robot: the true ground, with delay, noise and holes.

On a real robot the map comes from a lidar or depth cameras at about 10 Hz, and the robot occludes
part of the ground. A hole keeps the last value at that grid point, at first that of level ground.
"""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.policy.height_grid import HeightGrid
from sim2real_deploy.robots.geometry import heading
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.robot import BaseTruth


@dataclass(frozen=True, slots=True)
class ScanErrors:
    """The errors of a height map."""

    noise: float = 0.0  # m, one standard deviation of each point
    delay: float = 0.0  # s from measurement to use
    holes: float = 0.0  # share of occluded points, drawn again each time
    period: float = 0.02  # s between two scans


_TINY_S = 1e-9
PERFECT = ScanErrors()
# Assumed: published maps of legged robots have errors of centimetres and delays of 0.1 s.
TYPICAL = ScanErrors(noise=0.02, delay=0.1, holes=0.05, period=0.1)


class HeightScan:
    """Call `look` in every tick; it returns a scan whenever a new one is available."""

    def __init__(self, floor: Floor, grid: HeightGrid, errors: ScanErrors, seed: int = 0) -> None:
        self._floor, self._grid, self._errors = floor, grid, errors
        self._random = np.random.default_rng(seed)
        self._coming: deque[tuple[float, tuple[float, ...]]] = deque()
        self._next_s = -math.inf
        self._ground: npt.NDArray[np.float64] | None = None  # last seen at each point, m

    def look(self, now_s: float, truth: BaseTruth) -> tuple[float, ...] | None:
        if now_s >= self._next_s - _TINY_S:
            self._next_s = now_s + self._errors.period
            self._coming.append((now_s + self._errors.delay, self._see(truth)))
        known = None
        while self._coming and self._coming[0][0] <= now_s + _TINY_S:
            known = self._coming.popleft()[1]
        return known

    def _see(self, truth: BaseTruth) -> tuple[float, ...]:
        yaw = heading(truth.quaternion)
        x, y = self._grid.points.T
        ground = self._floor.height(
            truth.position[0] + math.cos(yaw) * x - math.sin(yaw) * y,
            truth.position[1] + math.sin(yaw) * x + math.cos(yaw) * y,
        )
        errors = self._errors
        if errors.noise:
            ground = ground + self._random.normal(0.0, errors.noise, ground.shape)
        if errors.holes:
            unseen = self._random.random(ground.shape) < errors.holes
            level = self._floor.height(truth.position[0], truth.position[1])
            ground = np.where(unseen, level if self._ground is None else self._ground, ground)
        self._ground = ground
        values: list[float] = (truth.position[2] - ground - self._grid.offset).tolist()
        return tuple(values)
