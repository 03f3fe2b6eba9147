"""The grid of ground heights that a perceptive policy observes, from its contract."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Contract, Term

HEIGHT_SCAN = "height_scan"  # the term that observes it


@dataclass(frozen=True)
class HeightGrid:
    """Points around the base in its yaw frame, row by row along x, as in Isaac Lab.

    A value is the height of the base above the ground at that point, minus `offset`.
    """

    length: float  # m along x
    width: float  # m along y
    resolution: float  # m between two points
    offset: float

    @cached_property
    def points(self) -> npt.NDArray[np.float64]:
        """x and y of each point, m."""
        x, y = np.meshgrid(self._axis(self.length), self._axis(self.width))
        return np.stack([x.ravel(), y.ravel()], 1)

    @cached_property
    def mirrored(self) -> npt.NDArray[np.int64]:
        """For each point the index of the one opposite, on the other side of the robot."""
        count = len(self.points)
        rows = len(self._axis(self.width))
        return np.arange(count).reshape(rows, -1)[::-1].ravel()

    def _axis(self, extent: float) -> npt.NDArray[np.float64]:
        places = np.arange(round(extent / self.resolution) + 1, dtype=np.float64)
        return np.asarray(places * self.resolution - extent / 2, np.float64)


def height_grid(contract: Contract) -> HeightGrid | None:
    """The grid of a policy that observes heights; None if it has none or does not place it."""
    terms = [term for group in contract.observations for term in group.terms]
    return next((grid for grid in map(grid_of, terms) if grid is not None), None)


def flat_scan(contract: Contract) -> tuple[float, ...] | None:
    """What a policy that observes heights sees on flat ground, by its contract; None without."""
    for term in (term for group in contract.observations for term in group.terms):
        if term.name == HEIGHT_SCAN:
            flat = float(term.params.get("flat", 0.0))  # type: ignore[arg-type]
            count = int(float(term.params["count"]))  # type: ignore[arg-type]
            return (flat,) * count
    return None


def grid_of(term: Term) -> HeightGrid | None:
    """Where the points of a `height_scan` term are; None for other terms and unplaced points."""
    size = term.params.get("size", ())
    if term.name != HEIGHT_SCAN or not isinstance(size, tuple) or not size:
        return None
    resolution, offset = (
        float(term.params.get(key, 0.0))  # type: ignore[arg-type]
        for key in ("resolution", "offset")
    )
    if len(size) != 2 or min(*size, resolution) <= 0:
        raise Refusal("height_scan.params: size must be [length, width] and resolution above 0")
    grid = HeightGrid(size[0], size[1], resolution, offset)
    if len(grid.points) != int(float(term.params["count"])):  # type: ignore[arg-type]
        raise Refusal(
            f"height_scan.params.count: is {term.params['count']}, its grid has "
            f"{len(grid.points)} points"
        )
    return grid
