"""The engine that moves the twin's body: MuJoCo, unless another one is asked for.

Whatever the engine, the twin's state is an MjData: it is read and written there by everyone.
"""

from typing import Any, ClassVar, Protocol

import mujoco


class Physics(Protocol):
    """An engine at work on one model and its state, sensors of force and acceleration included."""

    steps: ClassVar[int]  # in a wire period

    def __init__(self, model: Any, data: Any) -> None: ...

    def step(self, count: int) -> None:
        """Let `count` time steps of the model pass, its motors following the command in ctrl."""


class MujocoPhysics:
    steps: ClassVar[int] = 2

    def __init__(self, model: Any, data: Any) -> None:
        self._model, self._data = model, data

    def step(self, count: int) -> None:
        mujoco.mj_step(self._model, self._data, count)
