"""Getting the scheduler, the memory and the garbage collector out of the loop's way.

Each is asked for, none is needed: what the system refuses is said in words, and the loop runs.
"""

import ctypes
import gc
import os
import sys

FIFO_PRIORITY = 60  # above ordinary work, below the kernel's own threads
SERVICE_PRIORITY = 30  # for what serves the loops: network threads, a stop's service
SWITCH_INTERVAL_S = 0.0002  # how long another Python thread may keep the loop waiting; default 5 ms
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4


def calm_interpreter() -> None:
    """Once per process, when everything long-lived exists."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.disable()


def lock_memory() -> str:
    """Keep pages in memory once touched. The reason where that is not allowed, else ""."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0:
        return ""
    return f"memory is not locked: {os.strerror(ctypes.get_errno())} (ulimit -l unlimited)"


def prefer_this_thread(priority: int = FIFO_PRIORITY) -> str:
    """SCHED_FIFO for the calling thread and those it makes. Why it is not allowed, else ""."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return f"no real-time priority: {error.strerror} (ulimit -r {FIFO_PRIORITY})"
    return ""


def stop_preferring_this_thread() -> None:
    """For slow work in a process whose threads are preferred by default."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
