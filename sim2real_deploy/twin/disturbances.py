"""Disturbances from outside: pushes and slippery ground."""

from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from sim2real_deploy.configfile import Strict


class Push(Strict):
    """A force on the trunk, in the world frame."""

    force: float = Field(gt=0, le=2000)  # N
    direction: tuple[float, float, float]
    duration: float = Field(gt=0, le=60)  # s

    @field_validator("direction")
    @classmethod
    def _points_somewhere(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if not np.linalg.norm(value) > 0:
            raise ValueError("a direction cannot be all zeros")
        return value

    @property
    def vector(self) -> npt.NDArray[np.float64]:
        direction = np.asarray(self.direction, np.float64)
        return np.asarray(self.force * direction / np.linalg.norm(direction))


class Slip(Strict):
    """The ground becomes slippery for a while."""

    friction: float = Field(ge=0.01, le=2)
    duration: float = Field(gt=0, le=600)  # s


class Disturbances:
    """Applies pushes and slips to the physics, and ends them when they expire."""

    def __init__(self, model: Any, data: Any, base: int, floor_geoms: npt.NDArray[np.intp]) -> None:
        self._model, self._data = model, data
        self._base, self._floor = base, floor_geoms
        self._friction = model.geom_friction[floor_geoms, 0].copy()
        self._push_end: int | None = None
        self._slip_end: int | None = None

    def push(self, push: Push, now_ns: int) -> None:
        self._data.xfrc_applied[self._base, :3] = push.vector
        self._push_end = now_ns + round(push.duration * 1e9)

    def slip(self, slip: Slip, now_ns: int) -> None:
        self._model.geom_friction[self._floor, 0] = slip.friction
        self._slip_end = now_ns + round(slip.duration * 1e9)

    def update(self, now_ns: int) -> None:
        """End what has expired."""
        if self._push_end is not None and now_ns >= self._push_end:
            self._data.xfrc_applied[self._base] = 0.0
            self._push_end = None
        if self._slip_end is not None and now_ns >= self._slip_end:
            self._model.geom_friction[self._floor, 0] = self._friction
            self._slip_end = None

    def clear(self) -> None:
        self._data.xfrc_applied[self._base] = 0.0
        self._model.geom_friction[self._floor, 0] = self._friction
        self._push_end = self._slip_end = None
