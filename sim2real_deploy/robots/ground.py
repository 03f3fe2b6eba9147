"""The height of the ground under the trunk, estimated from where the feet came to rest.

An integrated height drifts with every step. So the trunk is placed as high above the ground as its
legs reach down, and the ground rises along the plane of the last footholds. What drift remains
comes from the error of the IMU's tilt and grows with the distance walked: stepping in place adds
none.
"""

import math

from sim2real_deploy.robots.geometry import Vector

FOLLOW_S = 0.1  # time constant with which the height follows the ground
LEAST_FEET = 3  # footholds that make a plane
LEAST_SPREAD = 1e-4  # m^4: footholds nearly in a line do not tell the slope across it


class Ground:
    """All vectors are in world axes."""

    def __init__(self, feet: int) -> None:
        self._footholds: list[Vector | None] = [None] * feet
        self._height: float | None = None  # of the ground under the trunk
        self._last = (0.0, 0.0)

    def correct(self, position: Vector, standing: dict[int, Vector], elapsed: float) -> Vector:
        """The corrected position of the trunk. `standing` are the feet at rest, relative to it."""
        x, y, z = position
        moved_x, moved_y = x - self._last[0], y - self._last[1]
        self._last = x, y
        if self._height is not None:
            slope_x, slope_y = self._slope()
            self._height += slope_x * moved_x + slope_y * moved_y
        if not standing:
            return position
        above = -sum(foot[2] for foot in standing.values()) / len(standing)
        if self._height is None:
            self._height = z - above
        z += (1.0 - math.exp(-elapsed / FOLLOW_S)) * (self._height + above - z)
        for number, foot in standing.items():
            self._footholds[number] = x + foot[0], y + foot[1], z + foot[2]
        return x, y, z

    def _slope(self) -> tuple[float, float]:
        """Slope of the least-squares plane through the last footholds; level without one."""
        known = [place for place in self._footholds if place is not None]
        if len(known) < LEAST_FEET:
            return 0.0, 0.0
        count = len(known)
        mean_x, mean_y, mean_z = (sum(axis) / count for axis in zip(*known, strict=True))
        xx = xy = yy = xz = yz = 0.0
        for x, y, z in known:
            x, y, z = x - mean_x, y - mean_y, z - mean_z
            xx, xy, yy = xx + x * x, xy + x * y, yy + y * y
            xz, yz = xz + x * z, yz + y * z
        spread = xx * yy - xy * xy
        if spread < LEAST_SPREAD:
            return 0.0, 0.0
        return (xz * yy - yz * xy) / spread, (yz * xx - xz * xy) / spread
