"""Pushes in training: how hard, from where, and how many of them are withstood."""

import numpy as np

from sim2real_deploy.training.config import Randomisation
from sim2real_deploy.training.randomisation import AdaptiveWidth

SIDEWAYS = 0.5  # rad: spread of the direction of a push from the side
SECTORS = 6  # of the directions of pushes, from along the commanded motion to against it
MEMORY = 0.98  # of the share of falls in a sector, per push
AT_FIRST = 0.1  # that share, before any is known: high enough that every sector gets its pushes


class Pushes:
    """Draws pushes for a batch of robots. They get harder while most are withstood, and come more
    often from where most of them end in a fall."""

    def __init__(self, count: int, width: AdaptiveWidth):
        self.width = width  # the share of the speed in force
        self._falls = np.full(SECTORS, AT_FIRST)  # recent share of pushes that ended in a fall
        self._sector = np.full(count, -1)  # of the last push, until it is known how it ended

    def draw(
        self, env: int, ranges: Randomisation, motion: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        """Speed and direction of a push; directions, as `motion`, from the robot's heading."""
        angle = rng.uniform(-np.pi, np.pi)
        if rng.uniform() < ranges.push_sideways:
            angle = rng.choice([-np.pi / 2, np.pi / 2]) + rng.uniform(-SIDEWAYS, SIDEWAYS)
        elif rng.uniform() < ranges.push_weakest:
            sector = rng.choice(SECTORS, p=self._falls / self._falls.sum())
            angle = motion + rng.choice([-1, 1]) * (sector + rng.uniform()) * np.pi / SECTORS
        away = abs((angle - motion + np.pi) % (2 * np.pi) - np.pi)
        self._sector[env] = min(int(away / np.pi * SECTORS), SECTORS - 1)
        return self.width.value * rng.uniform(*ranges.push_speed), angle

    def ended(self, env: int, fell: bool) -> bool:
        """Before the next push, or at the end of an episode. Returns whether there was a push."""
        sector, self._sector[env] = self._sector[env], -1
        if sector >= 0:
            self._falls[sector] = MEMORY * self._falls[sector] + (1 - MEMORY) * fell
        return bool(sector >= 0)
