"""How high the feet of a batch of robots are while they swing, and which swings end."""

import numpy as np

from sim2real_deploy.training.rewards import Array, Flags


class Swings:
    """By foot: the mean height of its last swing, and how long a swing that ends now was."""

    def __init__(self, count: int, legs: int):
        self._sum, self._steps = np.zeros((2, count, legs), np.float32)
        self.height, self.ended = np.zeros((2, count, legs), np.float32)  # m, control steps

    def note(self, height: Array, contact: Flags) -> None:
        """One control step."""
        landed = contact & (self._steps > 0)
        mean = self._sum / np.maximum(self._steps, 1)
        self.height = np.where(landed, mean, self.height)
        self.ended = np.where(landed, self._steps, 0)
        self._sum = np.where(contact, 0, self._sum + height)
        self._steps = np.where(contact, 0, self._steps + 1)

    def reset(self, env: int) -> None:
        self._sum[env] = self._steps[env] = self.height[env] = self.ended[env] = 0
