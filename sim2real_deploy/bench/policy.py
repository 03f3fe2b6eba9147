"""Inference time of a policy, called as in the control loop, which sleeps between states.

Seconds in which the machine itself stalled are shown but do not count; more are measured instead.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime import realtime
from sim2real_deploy.runtime.stalls import STILL_MS, StallWitness

P99_MS = 0.2
MOST = 6  # times the seconds asked for, on a machine that stalls often


@dataclass(frozen=True, slots=True)
class Taken:
    """ms of each step."""

    counted: npt.NDArray[np.float64]  # in seconds without a stall
    all: npt.NDArray[np.float64]

    def percentiles(self) -> tuple[float, float, float]:
        """p50, p99 and max of the steps that count; of all if none does."""
        values = self.counted if len(self.counted) else self.all
        p50, p99, most = np.percentile(values, (50, 99, 100)).tolist()
        return p50, p99, most


def run(policy: str, robot: str, seconds: int, progress: Progress) -> BenchResult:
    spec = load_robot(robot)
    running = load_bundle(policy, spec).open()
    realtime.calm_interpreter()
    realtime.lock_memory()
    realtime.keep_awake()
    taken = {}
    for rested, name in enumerate(("in the loop", "after a rest")):

        def tell(done: float, rested: int = rested, name: str = name) -> None:
            progress(name, (rested + done) / 2)

        taken[name] = measure(running, spec.wire.rate_hz, seconds, bool(rested), tell)
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
    """Time the network as in the control loop: awake at every state; or `rested`: asleep between
    policy steps."""
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
                for nap in naps:
                    due += nap
                    time.sleep(max(0.0, due - time.perf_counter()))
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
