"""A fixed delay per joint between the boards' receipt of a command and the motors."""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.twin.kernels import take_late
from sim2real_deploy.twin.motors import MotorCommand


class DelayLine:
    """Returns what was put in, each joint's a whole number of physics steps later.

    `chunks` groups the physics steps of a wire period that follow the same command: one chunk if
    every delay is a multiple of the period.
    """

    def __init__(self, late: npt.NDArray[np.int64], steps: int, first: MotorCommand) -> None:
        self._late, self._steps = late, steps
        self._none = not late.any()
        self.chunks = (steps,) if not (late % steps).any() else (1,) * steps
        length = int(-(-late.max() // steps)) + 1
        self._ring = np.repeat(first.block[None], length, axis=0)
        self._newest = 0
        self._ages = [-((done - late) // steps) for done in np.cumsum((0, *self.chunks[:-1]))]
        self._source = first
        self._unchanged = 0  # wire periods since the command last changed
        self._out = MotorCommand(late.size)
        self._out.block[:] = first.block

    def put(self, command: MotorCommand) -> None:
        """The command at the beginning of a wire period."""
        if self._none:
            self._source = command
            return
        changed = command.anew or command is not self._source
        self._unchanged = 0 if changed else self._unchanged + 1
        self._source, command.anew = command, False
        self._newest = (self._newest + 1) % len(self._ring)
        self._ring[self._newest] = command.block

    def take(self, chunk: int) -> MotorCommand:
        """The command that the motors follow in a chunk of this period."""
        if self._none:
            return self._source
        if self._unchanged <= len(self._ring):
            take_late(self._ring, self._newest, self._ages[chunk], self._out.block)
            self._out.anew = True
        return self._out
