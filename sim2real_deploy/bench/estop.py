"""From a call of /safety/estop to damping on the wire, while every core is busy."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.faults.assembly import whole_stack
from sim2real_deploy.faults.stack import Stack

P99_MS = 50.0
MOVING_S = 0.1  # of standing up before it is stopped
PATIENCE_S = 2.0


def run(robot: str, policy: str, calls: int, progress: Progress) -> BenchResult:
    with whole_stack(robot, policy) as (stack, _):
        took_ms = time_calls(stack, calls, progress)
    p50, p99, most = np.percentile(took_ms, (50, 99, 100)).tolist()
    checks = [Check.at_most("call to damping, p99", p99, P99_MS, "ms")]
    rows = [(calls, p50, p99, most)]
    columns = ("calls, every core busy", "p50 ms", "p99 ms", "max ms")
    return BenchResult("bench estop", checks, {"times_ms": took_ms}, columns, rows)


def time_calls(stack: Stack, calls: int, progress: Progress) -> list[float]:
    """Milliseconds from each call of /safety/estop, while the robot stands up, to damping."""
    progress("starting the stack", 0.0)
    stack.recover()
    took_ms = []
    with all_cores_busy():
        for number in range(calls):
            progress("estop", number / calls)
            start_ns = stack.call("estop")
            damped_ns = stack.watch.damped_at(start_ns, PATIENCE_S)
            took_ms.append(float("inf") if damped_ns is None else (damped_ns - start_ns) / 1e6)
            stack.until("it stands up", lambda: _stands_up(stack))
            time.sleep(MOVING_S)
    return took_ms


def _stands_up(stack: Stack) -> bool:
    """One attempt; restarts control if the supervisor has ended it."""
    stack.all_run()
    last = stack.watch.commands[-1]
    if not last.damping and time.monotonic_ns() - last.ns < 5e7:
        return True
    if stack.succeeds("reset"):
        stack.succeeds("stand")
    return False


@contextmanager
def all_cores_busy() -> Iterator[None]:
    """One computing process per core, at ordinary priority."""
    context = multiprocessing.get_context("spawn")
    load = [context.Process(target=_compute, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in load:
        process.start()
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.join()


def _compute() -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # not inherited
    while True:
        sum(range(100_000))
