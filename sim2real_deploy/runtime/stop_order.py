"""Ends the processes of a bring-up in order even when one signal reaches all of them at once.

A terminal's Ctrl-C, `ros2 launch` and the death of a launcher all do that. So each process holds a
place, and leaves only when those that started after it have left: control damps first, the
supervisor and the recorder see it, the twin goes last. A place is an abstract Unix socket: the
kernel clears it however its process ends.
"""

import os
import socket
import time
from collections.abc import Mapping

LAUNCHER_PID = "SIM2REAL_LAUNCHER_PID"
PLACE = "SIM2REAL_PLACE"  # "2/4": second of four to start, so third to stop
PATIENCE_S = 10.0


def environment(index: int, processes: int) -> dict[str, str]:
    """What the launcher, which must be this process, sets for the one it starts at `index`."""
    return {LAUNCHER_PID: str(os.getpid()), PLACE: f"{index + 1}/{processes}"}


class StopTurn:
    """This process's place; without a launcher there is no order to keep."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        self._launcher = variables.get(LAUNCHER_PID, "")
        own, _, last = variables.get(PLACE, "0/0").partition("/")
        self._later = range(int(own) + 1, int(last) + 1)
        self._socket = socket.socket(socket.AF_UNIX)
        if self._launcher:
            self._socket.bind(self._address(int(own)))
            self._socket.listen()

    def wait_turn(self, patience_s: float = PATIENCE_S) -> bool:
        """Block until all that started later have ended; False when patience ends first."""
        deadline = time.monotonic() + patience_s
        return all(self._wait_for(place, deadline) for place in reversed(self._later))

    def leave(self) -> None:
        self._socket.close()

    def _wait_for(self, place: int, deadline: float) -> bool:
        """Connected to a process that never answers, the end of the connection is its end."""
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                waiting.connect(self._address(place))
                waiting.recv(1)
            except (ConnectionRefusedError, ConnectionResetError):
                return True
            except TimeoutError:
                return False
        return True

    def _address(self, place: int) -> str:
        return f"\0sim2real/{self._launcher}/{place}"
