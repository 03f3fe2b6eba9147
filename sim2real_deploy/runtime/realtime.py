"""Getting the scheduler, the memory and the garbage collector out of the loop's way.

Each is asked for, none is needed: what the system refuses is said in words, and the loop runs.
"""

import ctypes
import gc
import os
import struct
import sys
from pathlib import Path

FIFO_PRIORITY = 60  # above ordinary work, below the kernel's own threads
WITNESS_PRIORITY = 99  # of who only looks whether the processor is there at all
SERVICE_PRIORITY = 30  # of the other threads of a loop's process
SWITCH_INTERVAL_S = 0.0002  # how long another Python thread may keep the loop waiting; default 5 ms
WAKE_LATENCY = "/dev/cpu_dma_latency"  # the kernel's: how long waking a core may take at most
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


def keep_awake() -> str:
    """Until this process ends no idle core falls asleep so deeply that waking it takes time: a
    loop that waits for states would pay for that at each of them. The reason where that is not
    allowed, else ""."""
    try:
        held_while_open = os.open(WAKE_LATENCY, os.O_WRONLY)
        os.write(held_while_open, struct.pack("=i", 0))
    except OSError as error:
        return f"idle cores fall asleep: {error.strerror} (write access to {WAKE_LATENCY})"
    return ""


def prefer_this_process() -> None:
    """Before any thread is made: all inherit it. A thread that the scheduler takes off the
    processor while it holds the interpreter lock would hold the loop up, whatever its priority."""
    _prefer(0, SERVICE_PRIORITY)


def prefer_this_thread(priority: int = FIFO_PRIORITY) -> str:
    """SCHED_FIFO for the calling thread. The reason where that is not allowed, else ""."""
    return _prefer(0, priority)


def prefer_receivers() -> str:
    """The same for the threads in which DDS takes samples off the network: the loop waits for
    them."""
    return next(filter(None, map(_prefer, _receivers())), "")


def stay_together(number: int) -> str:
    """Keep the calling thread and the receivers it waits for on one core, so that a sample is
    handed over without waking another; `number` spreads the loops of several robots. The reason
    where that is not allowed, else ""."""
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    core = {cores[number % len(cores)]}
    try:
        for thread in (0, *_receivers()):
            os.sched_setaffinity(thread, core)
    except OSError as error:
        return f"the loop wanders between cores: {error.strerror}"
    return ""


def _receivers() -> list[int]:
    """Cyclone starts them by itself and calls them "recv"; they exist once a link is open."""
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
