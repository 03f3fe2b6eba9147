"""Ends the processes of a bring-up in order, even when one signal reaches all of them at once.

Ctrl-C in a terminal, `ros2 launch` and a dying launcher all signal everybody. So each process holds
a place in the order and leaves only after those that started later: control damps first, supervisor
and recorder still see it, the twin goes last. A place is an abstract Unix socket, which the kernel
removes however the process ends.
"""

import os
import signal
import socket
import time
from collections.abc import Mapping

LAUNCHER_PID = "SIM2REAL_LAUNCHER_PID"
PLACE = "SIM2REAL_PLACE"  # "2/4": second of four to start, so third to stop
PATIENCE_S = 10.0


def stop_signals() -> tuple[signal.Signals, ...]:
    """Those that ask a process to end: a person, a service manager, Ctrl-\\, and a terminal that is
    gone, as when the connection of who started the stack is lost. With `nohup` that one is not."""
    asked = signal.SIGINT, signal.SIGTERM, signal.SIGQUIT
    kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return asked if kept else (*asked, signal.SIGHUP)


def environment(index: int, processes: int) -> dict[str, str]:
    """The variables that a launcher (this process) sets for the process it starts at `index`."""
    return {LAUNCHER_PID: str(os.getpid()), PLACE: f"{index + 1}/{processes}"}


class StopTurn:
    """This process's place in the order; without a launcher there is none."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        self._launcher = variables.get(LAUNCHER_PID, "")
        own, _, last = variables.get(PLACE, "0/0").partition("/")
        self._later = range(int(own) + 1, int(last) + 1)
        self._socket = socket.socket(socket.AF_UNIX)
        if self._launcher:
            self._socket.bind(self._address(int(own)))
            self._socket.listen()

    def wait_turn(self, patience_s: float = PATIENCE_S) -> bool:
        """Block until all later processes have ended; False after `patience_s`."""
        deadline = time.monotonic() + patience_s
        return all(self._wait_for(place, deadline) for place in reversed(self._later))

    def leave(self) -> None:
        self._socket.close()

    def _wait_for(self, place: int, deadline: float) -> bool:
        """It never answers: the connection ends when that process does."""
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
