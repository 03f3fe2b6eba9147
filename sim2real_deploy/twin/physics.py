"""The twin's physics engine: MuJoCo, unless another one is chosen.

Whatever the engine, the twin's state is an MjData, which everything else reads and writes.
"""

from typing import Any, ClassVar, Protocol

import mujoco


class Physics(Protocol):
    """An engine for one model and its state, including force and acceleration sensors."""

    steps: ClassVar[int]  # in a wire period

    def __init__(self, model: Any, data: Any) -> None: ...

    def step(self, count: int) -> None:
        """Simulate `count` timesteps, the motors following the command in ctrl."""


class MujocoPhysics:
    steps: ClassVar[int] = 2

    def __init__(self, model: Any, data: Any) -> None:
        self._model, self._data = model, data

    def step(self, count: int) -> None:
        mujoco.mj_step(self._model, self._data, count)
