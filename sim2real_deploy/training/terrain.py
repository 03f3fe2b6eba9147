"""Tiles of terrain to learn on: plain facts and a height map, from which a model's floor is made.

Stairs, obstacles and gaps are boxes with sharp edges, as on the robot's way; slopes are tilted
planes; only rough ground is a height field.
"""

from dataclasses import dataclass, field

import numpy as np

from sim2real_deploy.training.config import Terrain
from sim2real_deploy.twin.floors import Box, Floor, Heights

GRID = 0.025  # m between two points of a height map
ROUGH_GRID = 0.05  # m between two points of a height field
OBSTACLES = 14  # of a tile
START = 0.55  # m round the origin that are flat
STEPS = 6  # stairs of a flight
TOP = 1.2  # m between a flight up and one down
GAP_WIDTH = (0.06, 0.12)  # m
ALONG_X = ("stairs", "stairs_down", "gaps", "obstacles")  # tiles that are walked along x


@dataclass(slots=True)
class Tile:
    """A square of ground round the origin."""

    kind: str
    level: int
    size: float
    plane: float = 0.0  # height of the plane below everything
    slope: float = 0.0  # rad, of that plane, up along x
    rough: Heights | None = None  # a height field in place of the plane
    boxes: list[Box] = field(default_factory=list)

    def heights(self) -> Heights:
        """Of the whole tile on GRID, rows along y."""
        axis = np.linspace(-self.size / 2, self.size / 2, round(self.size / GRID) + 1)
        x, y = np.meshgrid(axis, axis)
        if self.rough is not None:
            fine = np.linspace(0, len(self.rough) - 1, len(axis)).round().astype(int)
            return np.asarray(self.rough[np.ix_(fine, fine)])
        height: Heights = self.plane + x * np.tan(self.slope)
        for box in self.boxes:
            inside = (x >= box.x[0]) & (x <= box.x[1]) & (y >= box.y[0]) & (y <= box.y[1])
            height[inside] = np.maximum(height[inside], box.z[1])
        return height


def make_tiles(terrain: Terrain, seed: int) -> list[Tile]:
    """Every level of every kind, in the config's order: the tile of (kind, level) is found by
    `first_tiles`."""
    tiles: list[Tile] = []
    for kind in terrain.kinds:
        for level, height in enumerate(kind.levels):
            rng = np.random.default_rng([seed, len(tiles)])
            tiles.append(_tile(kind.kind, level, height, terrain.size, rng))
    return tiles


def first_tiles(terrain: Terrain) -> list[int]:
    """Where each kind's tiles begin."""
    counts = [len(kind.levels) for kind in terrain.kinds]
    return [0, *np.cumsum(counts)[:-1].tolist()]


def _tile(kind: str, level: int, height: float, size: float, rng: np.random.Generator) -> Tile:
    tile = Tile(kind, level, size)
    half = size / 2
    if kind == "rough":
        floor = Floor(kind="rough", roughness=height, seed=int(rng.integers(2**31)), size=half)
        axis = np.linspace(-half, half, round(size / ROUGH_GRID) + 1)
        tile.rough = floor.height(*np.meshgrid(axis, axis))
    elif kind == "slope":
        tile.slope = float(np.arctan(height))
    elif kind == "stairs":
        tile.boxes = _flights(height, half, rng)
    elif kind == "stairs_down":
        run = rng.uniform(0.26, 0.38)
        ends = [START + run * level for level in range(2 * STEPS)]
        tile.boxes = [
            Box((-ends[i], ends[i]), (-half, half), (0.0, height * (2 * STEPS - i)))
            for i in range(2 * STEPS)
        ]
    elif kind == "obstacles":
        tile.boxes = [_obstacle(height, half, rng) for _ in range(OBSTACLES)]
    elif kind == "gaps":
        tile.plane, tile.boxes = -height, _slabs(height, half, rng)
    return tile


def _flights(rise: float, half: float, rng: np.random.Generator) -> list[Box]:
    """Up on both sides of the origin, then level, then down again."""
    boxes = []
    for side in (-1, 1):
        run = rng.uniform(0.26, 0.38)
        end = START + 2 * STEPS * run + TOP
        for step in range(STEPS):
            near, far = START + step * run, end - step * run
            x = (near, far) if side > 0 else (-far, -near)
            boxes.append(Box(x, (-half, half), (rise * step, rise * (step + 1))))
    return boxes


def _obstacle(height: float, half: float, rng: np.random.Generator) -> Box:
    """A block, plank or kerb somewhere along the way."""
    x = rng.uniform(START + 0.3, half - 1.0) * rng.choice((-1, 1))
    y = rng.uniform(-1.0, 1.0)
    depth, width = rng.uniform(0.05, 0.4), rng.uniform(0.2, 1.2)
    x_sides, y_sides = (x - depth / 2, x + depth / 2), (y - width, y + width)
    return Box(x_sides, y_sides, (-0.1, height * rng.uniform(0.6, 1.0)))


def _slabs(depth: float, half: float, rng: np.random.Generator) -> list[Box]:
    """Slabs that a robot walks along, with a gap after each. A deep gap is what is hard, not a wide
    one: feet wedge in narrow ones."""
    boxes = [Box((-START, START), (-half, half), (-depth, 0.0))]
    for side in (-1, 1):
        near = START + rng.uniform(*GAP_WIDTH)
        for number in range(6):
            far = near + rng.uniform(0.4, 0.9) if number < 5 else half
            x = (near, far) if side > 0 else (-far, -near)
            boxes.append(Box(x, (-half, half), (-depth, 0.0)))
            near = far + rng.uniform(*GAP_WIDTH)
    return boxes
