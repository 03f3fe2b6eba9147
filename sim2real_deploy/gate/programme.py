"""The short walk of `make walk`, and the figures it is judged by.

Pure: timed samples of the measured velocity in, a summary out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

from sim2real_deploy.checks import Check

SETTLE_S = 1.5  # after a change of command, before tracking counts
MAX_FORWARD_ERROR = 0.15  # m/s
FALL_TILT = 1.0  # rad


@dataclass(frozen=True, slots=True)
class Segment:
    name: str
    vx: float
    vy: float
    wz: float
    share: float  # of the walking time


PROGRAMME = (
    Segment("forward", 0.5, 0.0, 0.0, 0.4),
    Segment("turn", 0.0, 0.0, 0.6, 0.2),
    Segment("sideways", 0.0, 0.3, 0.0, 0.2),
    Segment("stop", 0.0, 0.0, 0.0, 0.2),
)


def segment_at(elapsed_s: float, duration_s: float) -> Segment | None:
    """The current segment; None after the end. duration_s = 0 repeats the programme forever."""
    if duration_s <= 0:
        elapsed_s, duration_s = elapsed_s % 20.0, 20.0
    start = 0.0
    for segment in PROGRAMME:
        start += segment.share * duration_s
        if elapsed_s < start:
            return segment
    return None


class Tracker:
    """Accumulates distance, tilt and mean velocity per segment."""

    def __init__(self) -> None:
        self.distance_m = 0.0
        self.max_tilt_rad = 0.0
        self._tracked: dict[str, list[float]] = {}  # seconds, and sums of vx, vy, wz
        self._segment: Segment | None = None
        self._since_s = 0.0
        self._last_s: float | None = None

    def add(
        self, now_s: float, segment: Segment | None, velocity: Sequence[float], tilt_rad: float
    ) -> None:
        """One sample of vx, vy, wz in the robot's frame, and its tilt."""
        step_s = 0.0 if self._last_s is None else max(0.0, now_s - self._last_s)
        self._last_s = now_s
        self.distance_m += hypot(velocity[0], velocity[1]) * step_s
        self.max_tilt_rad = max(self.max_tilt_rad, tilt_rad)
        if segment is not self._segment:
            self._segment, self._since_s = segment, now_s
        if segment is not None and now_s - self._since_s >= SETTLE_S:
            tracked = self._tracked.setdefault(segment.name, [0.0] * 4)
            for place, value in enumerate((1.0, *velocity[:3])):
                tracked[place] += value * step_s

    def segments(self) -> list[dict[str, Any]]:
        """Command, mean velocity and error of each segment of at least half a second."""
        rows = []
        for segment in PROGRAMME:
            seconds, *sums = self._tracked.get(segment.name, [0.0])
            if seconds < 0.5:
                continue
            mean = [total / seconds for total in sums]
            asked = (segment.vx, segment.vy, segment.wz)
            rows.append(
                {
                    "name": segment.name,
                    "asked": asked,
                    "measured": [round(value, 4) for value in mean],
                    "error": [round(m - a, 4) for m, a in zip(mean, asked, strict=True)],
                }
            )
        return rows

    def checks(self) -> list[Check]:
        rows = {row["name"]: row for row in self.segments()}
        checks = [Check.at_most("largest tilt", self.max_tilt_rad, FALL_TILT, "rad")]
        if "forward" in rows:
            error = abs(rows["forward"]["error"][0])
            checks.append(Check.at_most("forward error", error, MAX_FORWARD_ERROR, "m/s"))
            speed = rows["forward"]["measured"][0]
            checks.append(Check.at_least("forward speed", speed, 0.3, "m/s"))
        else:
            checks.append(Check.at_least("seconds walked forward", 0.0, 0.5, "s"))
        return checks
