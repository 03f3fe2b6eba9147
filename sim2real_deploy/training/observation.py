"""The deployed policy's observation, computed for a whole batch, with noise and memory."""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.height_grid import grid_of
from sim2real_deploy.policy.terms import TERMS, Batch, BatchInput
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.rewards import Array, Flags


class Observer:
    """`values` is one frame; `remember` stacks frames into the network's input, term by term."""

    def __init__(self, config: TrainingConfig, robot: RobotSpec, count: int):
        joints = len(robot.joints)
        self._names = [term.name for term in config.observation]
        self._terms: list[Batch] = []
        scales: list[Array] = []
        noise: list[Array] = []
        vector, row = np.zeros((1, 3), np.float32), np.zeros((1, joints), np.float32)
        self.grid = next(filter(None, map(grid_of, config.observation)), None)
        points = 0 if self.grid is None else len(self.grid.points)
        heights = np.zeros((1, points), np.float32)
        phase = np.zeros(1, np.float32)
        nothing = BatchInput(vector, vector, vector, row, row, row, phase, heights)
        self._windows: list[Array] = []  # environments x history x values, newest last
        for term in config.observation:
            batch = TERMS[term.name].batch if term.name in TERMS else None
            if batch is None or term.clip is not None:
                known = ", ".join(name for name, forms in TERMS.items() if forms.batch)
                raise Refusal(
                    f"observation '{term.name}': training knows {known}, each without clip"
                )
            size = batch(nothing).shape[1]
            if size == 0:
                raise Refusal(f"observation '{term.name}': training needs its size and resolution")
            scale = np.broadcast_to(np.asarray(term.scale, np.float32), size)
            self._terms.append(batch)
            self._windows.append(np.zeros((count, term.history, size), np.float32))
            scales.append(scale)
            noise.append(config.randomisation.noise.get(term.name, 0.0) * scale)
        self._scale = np.concatenate(scales)
        self._noise = np.concatenate(noise).astype(np.float32)
        self._ends = np.cumsum([len(scale) for scale in scales])[:-1]

    @property
    def size(self) -> int:
        """Of what the network sees."""
        return sum(window[0].size for window in self._windows)

    def newest(self, name: str) -> tuple[npt.NDArray[np.int64], Array]:
        """Columns of a term's newest values in the network's input, and their scale."""
        index = self._names.index(name)
        end = sum(window[0].size for window in self._windows[: index + 1])
        scale = np.split(self._scale, self._ends)[index]
        return np.arange(end - len(scale), end), scale

    def values(self, inputs: BatchInput) -> Array:
        raw = np.concatenate([term(inputs) for term in self._terms], 1, dtype=np.float32)
        return raw * self._scale

    def noisy(self, values: Array, width: float, rng: np.random.Generator) -> Array:
        noise = rng.uniform(-1, 1, values.shape).astype(np.float32)
        return values + noise * (width * self._noise)

    def remember(self, frame: Array, fresh: Flags) -> Array:
        """Add a frame; in a new episode its first frame fills the history."""
        for window, newest in zip(self._windows, np.split(frame, self._ends, 1), strict=True):
            window[:, :-1] = window[:, 1:]
            window[:, -1] = newest
            window[fresh] = newest[fresh, None]
        return np.concatenate([w.reshape(len(w), -1) for w in self._windows], 1)
