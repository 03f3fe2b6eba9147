"""How long a policy's network takes where it really runs: in a loop that sleeps between states.

Seconds in which the machine itself stood still say nothing of it: they are measured, shown beside
the others, and others are taken in their place.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bench.conduct import BenchResult, Progress
from sim2real_deploy.checks import Check
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime import realtime
from sim2real_deploy.runtime.stalls import STILL_MS, StallWitness

P99_MS = 0.2
MOST = 6  # times as many seconds as were asked for, on a machine that stands still that often


@dataclass(frozen=True, slots=True)
class Taken:
    """ms of each step."""

    counted: npt.NDArray[np.float64]  # in seconds in which the machine did not stand still
    all: npt.NDArray[np.float64]

    def percentiles(self) -> tuple[float, float, float]:
        """p50, p99 and the most of what counts; of all where nothing does."""
        values = self.counted if len(self.counted) else self.all
        p50, p99, most = np.percentile(values, (50, 99, 100)).tolist()
        return p50, p99, most


def run(policy: str, robot: str, seconds: int, progress: Progress) -> BenchResult:
    spec = load_robot(robot)
    running = load_bundle(policy, spec).open()
    realtime.calm_interpreter()
    realtime.lock_memory()
    realtime.keep_awake()
    taken = {
        "in the loop": measure(
            running,
            spec.wire.rate_hz,
            seconds,
            False,
            lambda done: progress("in the loop", done / 2),
        ),
        "after a rest": measure(
            running,
            spec.wire.rate_hz,
            seconds,
            True,
            lambda done: progress("rested", (1 + done) / 2),
        ),
    }
    rows = [
        (name, *one.percentiles(), f"{len(one.counted)} of {len(one.all)}")
        for name, one in taken.items()
    ]
    (_, p50, p99, most, _), (_, rested_p50, rested_p99, _, _) = rows
    in_loop, rate = taken["in the loop"], running.contract.rate_hz
    raw = {"p50_ms": p50, "p99_ms": p99, "max_ms": most, "rate_hz": rate}
    raw |= {"rested_p50_ms": rested_p50, "rested_p99_ms": rested_p99}
    raw |= {"steps": len(in_loop.all), "steps_counted": len(in_loop.counted)}
    columns = ("ms per step", "p50", "p99", "max", "steps that count")
    checks = [Check.at_most("inference p99", p99, P99_MS, "ms")]
    return BenchResult(f"bench policy: {policy} at {rate:g} Hz", checks, raw, columns, rows)


def measure(
    policy: Policy, wire_hz: float, seconds: int, rested: bool, progress: Callable[[float], None]
) -> Taken:
    """As the control loop runs it, awake at every state and rehearsed a tick ahead; or `rested`:
    asleep from one step to the next, all caches cold."""
    rate_hz = policy.contract.rate_hz
    ticks, tick_s = round(wire_hz / rate_hz), 1 / wire_hz
    naps = [ticks * tick_s] if rested else [tick_s] * ticks
    counted: list[float] = []
    every: list[float] = []
    witness = StallWitness()
    try:
        realtime.prefer_this_thread()
        due = time.perf_counter()
        for number in range(MOST * seconds):
            began_ns, took = time.monotonic_ns(), []
            for _ in range(round(rate_hz)):
                for left in reversed(range(len(naps))):
                    due += naps[left]
                    time.sleep(max(0.0, due - time.perf_counter()))
                    if left == 1:
                        policy.session.rehearse()
                start = time.perf_counter()
                policy.session.run()
                took.append(1e3 * (time.perf_counter() - start))
            every += took
            if witness.stalled_ms(began_ns, time.monotonic_ns()) < STILL_MS:
                counted += took
            done = len(counted) / (seconds * round(rate_hz))
            progress(max(done, (number + 1) / (MOST * seconds)))
            if done >= 1.0:
                break
    finally:
        witness.close()
    return Taken(np.array(counted), np.array(every))
