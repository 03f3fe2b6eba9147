"""Floors for the twin and for training, as data; floor_geometry.py builds the MuJoCo geometry.

The floor alone determines the friction under the robot (its geoms have priority), so a slippery
floor, a randomised friction or a slip is one number in one place.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal

Heights = npt.NDArray[np.float64]

FLOOR_GEOM = "floor"  # prefix of every floor geom's name
_STAIRS_START = 0.8  # m in front of the origin
_STAIRS_WIDTH = 3.0
_OBSTACLES = 24
_SLABS = 16
_GAP_DEPTH = 0.2
_FLAT_START = 0.5  # m around the origin where a rough floor is still flat
_GRID = 0.05  # m between two points of a rough floor


@dataclass(frozen=True, slots=True)
class Box:
    """Faces of an upright box, m."""

    x: tuple[float, float]
    y: tuple[float, float]
    z: tuple[float, float]


class Floor(Strict):
    """One floor. The robot starts at the origin, facing +x; slope and stairs go up along +x,
    and `stairs_down` goes down."""

    kind: Literal["flat", "rough", "slope", "stairs", "stairs_down", "obstacles", "gaps"] = "flat"
    friction: float = Field(default=0.8, gt=0, le=2)
    seed: int = 0  # of a rough floor, or of where obstacles and gaps are
    roughness: float = Field(default=0.06, gt=0, le=0.3)  # m, highest above lowest point
    slope: float = Field(default=0.2, gt=-0.8, lt=0.8)  # rad
    uphill: float = Field(default=0.0, ge=-3.15, le=3.15)  # rad, to the left of +x
    rise: float = Field(default=0.08, gt=0, le=0.3)  # m, height of a stair or an obstacle
    run: float = Field(default=0.32, gt=0.05, le=1)  # m, depth of a stair
    steps: int = Field(default=5, ge=1, le=30)
    gap: float = Field(default=0.1, gt=0, le=0.5)  # m, width of a gap
    size: float = Field(default=8.0, ge=2, le=50)  # m from the origin to the edge of a rough floor

    def height(self, x: Any, y: Any) -> Heights:
        """Height of the ground at x, y (numbers or arrays, metres)."""
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        if self.kind == "slope":
            along = x * np.cos(self.uphill) + y * np.sin(self.uphill)
            return np.asarray(along * np.tan(self.slope))
        if self.kind == "rough":
            last = len(self.grid) - 1
            column = np.clip((x + self.size) / (2 * self.size) * last, 0, last - 1e-9)
            row = np.clip((y + self.size) / (2 * self.size) * last, 0, last - 1e-9)
            i, j = row.astype(int), column.astype(int)
            u, v = row - i, column - j
            near = self.grid[i, j] * (1 - v) + self.grid[i, j + 1] * v
            far = self.grid[i + 1, j] * (1 - v) + self.grid[i + 1, j + 1] * v
            return np.asarray(near * (1 - u) + far * u)
        height = np.full(x.shape, self.plane)
        for box in self.boxes:
            inside = (x >= box.x[0]) & (x <= box.x[1]) & (y >= box.y[0]) & (y <= box.y[1])
            height[inside] = np.maximum(height[inside], box.z[1])
        return height

    @cached_property
    def grid(self) -> Heights:
        """Heights of a rough floor in metres, rows along y: waves of many lengths from the seed."""
        points = int(2 * self.size / _GRID) + 1
        rng = np.random.default_rng(self.seed)
        axis_frequency = np.fft.fftfreq(points, _GRID)
        frequency = np.hypot(*np.meshgrid(axis_frequency, axis_frequency))
        weight = np.exp(-((frequency / 1.5) ** 2)) * (frequency > 0)
        waves = np.fft.ifft2(np.fft.fft2(rng.standard_normal((points, points))) * weight).real
        axis = np.linspace(-self.size, self.size, points)
        distance = np.hypot(*np.meshgrid(axis, axis))
        heights = (waves - waves.min()) / np.ptp(waves) * self.roughness
        fade = np.clip((distance - _FLAT_START) / _FLAT_START, 0, 1)
        level = heights[points // 2, points // 2]
        return np.asarray((heights - level) * fade)

    @property
    def attitude(self) -> Heights:
        """The attitude (w, x, y, z) of a trunk that lies on it at the origin."""
        half = self.slope / 2 if self.kind == "slope" else 0.0
        axis = np.array([np.sin(self.uphill), -np.cos(self.uphill), 0.0])
        return np.array([np.cos(half), *(np.sin(half) * axis)])

    @property
    def plane(self) -> float:
        """Height of the plane below everything."""
        if self.kind == "stairs_down":
            return -self.steps * self.rise
        return -_GAP_DEPTH if self.kind == "gaps" else 0.0

    @cached_property
    def boxes(self) -> list[Box]:
        """Everything with sharp edges that stands on the plane."""
        rng = np.random.default_rng(self.seed)
        sides = (-_STAIRS_WIDTH / 2, _STAIRS_WIDTH / 2)
        if self.kind == "stairs":  # up, a landing, and down again
            end = _STAIRS_START + (2 * self.steps + 3) * self.run
            stair = [(_STAIRS_START + k * self.run, end - k * self.run) for k in range(self.steps)]
            return [
                Box(x, sides, (k * self.rise, (k + 1) * self.rise)) for k, x in enumerate(stair)
            ]
        if self.kind == "stairs_down":
            return [
                Box((-2.0, _STAIRS_START + k * self.run), sides, (self.plane, -k * self.rise))
                for k in range(self.steps)
            ]
        if self.kind == "obstacles":
            return [_obstacle(self.rise, rng) for _ in range(_OBSTACLES)]
        return self._slabs(sides, rng) if self.kind == "gaps" else []

    def _slabs(self, sides: tuple[float, float], rng: np.random.Generator) -> list[Box]:
        """The slabs between gaps; the robot starts on the first."""
        boxes, near = [], -2.0
        far = _STAIRS_START
        for _ in range(_SLABS):
            boxes.append(Box((near, far), sides, (self.plane, 0.0)))
            near = far + self.gap
            far = near + rng.uniform(0.4, 0.9)
        return boxes


def _obstacle(height: float, rng: np.random.Generator) -> Box:
    """A block, plank or kerb in front of the robot, at most `height` high."""
    x, y = rng.uniform(0.7, 5.5), rng.uniform(-1.0, 1.0)
    depth, width = rng.uniform(0.05, 0.4), rng.uniform(0.1, 0.8)
    top = height * rng.uniform(0.4, 1.0)
    return Box((x - depth / 2, x + depth / 2), (y - width / 2, y + width / 2), (-0.1, top))


FLOORS = {
    "flat": Floor(),
    "rough": Floor(kind="rough"),
    "slope": Floor(kind="slope"),
    "stairs": Floor(kind="stairs"),
    "stairs_20": Floor(kind="stairs", rise=0.2, steps=4),
    "stairs_down": Floor(kind="stairs_down"),
    "obstacles": Floor(kind="obstacles", rise=0.05),
    "gaps": Floor(kind="gaps"),
    "slippery": Floor(friction=0.25),
}


def named_floor(name: str, seed: int = 0) -> Floor:
    if name not in FLOORS:
        raise Refusal(f"floor '{name}' does not exist; there are: {', '.join(FLOORS)}")
    return FLOORS[name].model_copy(update={"seed": seed})
