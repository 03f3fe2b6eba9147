"""A child process that ends when its parent does, also when that was killed."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send us this signal when our parent (its pid) ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:  # it was gone before we asked
        sys.exit("the process that started this one has ended; this one ends, too")
