"""Real-time rights: scheduler, memory, garbage collector and power states out of the loop's way.

All are optional. A function returns "" on success, else the reason for which the right is missing;
the loop runs without it.
"""

import ctypes
import gc
import os
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path

FIFO_PRIORITY = 60  # above ordinary work, below the kernel's own threads
WITNESS_PRIORITY = 99  # of threads that only check whether the core runs at all
INTERPRETER_PRIORITY = 40  # of Python's threads in a loop's process: one may hold the GIL
SERVICE_PRIORITY = 30  # of that process's other threads: the middleware's
RECORDER_PRIORITY = 10  # a recorder that has to wait loses what arrives meanwhile
SWITCH_INTERVAL_S = 0.0002  # longest hold of the GIL by another thread; Python: 5 ms
WAKE_LATENCY = "/dev/cpu_dma_latency"  # Linux PM QoS: the longest a core may take to wake up
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4


def calm_interpreter() -> None:
    """Call once per process, after all long-lived objects exist."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.disable()


def drop_unread_output() -> None:
    """From now on a line that nobody reads, on a pipe or a terminal, is dropped."""
    for descriptor in (1, 2):
        with suppress(OSError):  # a socket cannot be opened again
            unhurried = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
            own = os.open(f"/proc/self/fd/{descriptor}", unhurried)  # the shell's stays as it is
            os.dup2(own, descriptor)
            os.close(own)


def lock_memory() -> str:
    """Keep pages in memory once touched."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0:
        return ""
    return f"memory is not locked: {os.strerror(ctypes.get_errno())} (ulimit -l unlimited)"


def keep_awake() -> str:
    """Keep idle cores out of deep sleep until this process ends: a loop that blocks for each state
    would pay the wake-up latency every time."""
    try:
        held_while_open = os.open(WAKE_LATENCY, os.O_WRONLY)
        os.write(held_while_open, struct.pack("=i", 0))
    except OSError as error:
        return f"idle cores fall asleep: {error.strerror} (write access to {WAKE_LATENCY})"
    return ""


def prefer_this_process(priority: int = SERVICE_PRIORITY) -> None:
    """Call before any thread starts: all inherit it, the middleware's included."""
    _prefer(0, priority)


def prefer_interpreter() -> None:
    """In a preferred process, raise Python's threads above the middleware's of any process. One
    that holds the GIL and waits for a core blocks the loop, whatever the loop's own priority, and a
    crowd of messages would keep it waiting. Call when the middleware's threads exist and the loop's
    does not; threads started later inherit it."""
    if os.sched_getscheduler(0) != os.SCHED_FIFO:
        return
    for thread in threading.enumerate():
        if thread.native_id is not None:
            _prefer(thread.native_id, INTERPRETER_PRIORITY)


def prefer_this_thread(priority: int = FIFO_PRIORITY) -> str:
    """SCHED_FIFO for the calling thread."""
    return _prefer(0, priority)


def prefer_receivers() -> str:
    """SCHED_FIFO for the DDS receive threads, which the loop waits for."""
    return next(filter(None, map(_prefer, _receivers())), "")


def stay_together(number: int) -> str:
    """Pin the calling thread and the DDS receive threads to one core, so that handing over a sample
    wakes no other core; `number` spreads the loops of several robots."""
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    core = {cores[number % len(cores)]}
    try:
        for thread in (0, *_receivers()):
            os.sched_setaffinity(thread, core)
    except OSError as error:
        return f"the loop is not pinned to a core: {error.strerror}"
    return ""


def _receivers() -> list[int]:
    """Cyclone DDS names its receive threads "recv..."; they exist once a link is open."""
    tasks = Path("/proc/self/task").iterdir()
    return [int(task.name) for task in tasks if _name(task).startswith("recv")]


def _name(task: Path) -> str:
    try:
        return (task / "comm").read_text()
    except OSError:  # it has just ended
        return ""


def _prefer(thread: int, priority: int = FIFO_PRIORITY) -> str:
    try:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return f"no real-time priority: {error.strerror} (ulimit -r {FIFO_PRIORITY})"
    return ""
