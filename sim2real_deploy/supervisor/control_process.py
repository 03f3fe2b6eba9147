"""The control process as the supervisor holds it: by a handle that no other process can inherit.

A pid alone may belong to somebody else by the time it is killed; a pidfd cannot.
"""

import os
import select
import signal


class ControlProcess:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = -1
        self._poll = select.poll()
        try:
            self._handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self._poll.register(self._handle, select.POLLIN)

    def is_gone(self) -> bool:
        return self._handle < 0 or bool(self._poll.poll(0))

    def kill(self) -> None:
        if not self.is_gone():
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
