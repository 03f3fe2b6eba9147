"""`sim2real bench policy`: how long the network takes at the rate it really runs."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import bench

P99_MS = 0.2


@bench.command("policy")
def bench_policy(
    policy: Annotated[str, typer.Argument(help="A name in policies/, or a folder.")] = "go2_walk",
    robot: Annotated[str, typer.Option(help="A name in config/robots.")] = "go2",
    seconds: Annotated[float, typer.Option(min=2.0, help="How long to measure.")] = 20.0,
    json: Annotated[Path | None, typer.Option(help="Write figures and checks here.")] = None,
) -> None:
    """One thread of ONNX Runtime as the control loop uses it: awake at every state, the network
    rehearsed a tick ahead. Beside it, the same network after a rest: its caches are cold then."""
    import time

    import numpy as np
    from rich.progress import track

    from sim2real_deploy import checks
    from sim2real_deploy.control import realtime
    from sim2real_deploy.policy.bundle import load_bundle
    from sim2real_deploy.robots import load_robot

    spec = load_robot(robot)
    running = load_bundle(policy, spec).open()
    rate, tick_s = running.contract.rate_hz, 1 / spec.wire.rate_hz
    steps, ticks = max(1, round(seconds / 2 * rate)), round(spec.wire.rate_hz / rate)
    realtime.calm_interpreter()
    realtime.prefer_this_thread()
    took = np.zeros((2, steps))
    for row, words in enumerate(("in the loop", "after a rest")):
        due = time.perf_counter()
        for step in track(range(steps), words):
            naps = [tick_s] * ticks if row == 0 else [ticks * tick_s]
            for left in reversed(range(len(naps))):
                due += naps[left]
                time.sleep(max(0.0, due - time.perf_counter()))
                if left == 1:
                    running.rehearse()
            start = time.perf_counter()
            running.session.run()
            took[row, step] = 1e3 * (time.perf_counter() - start)
    (p50, p99, most), (rested_p50, rested_p99, _) = np.percentile(took, [50, 99, 100], 1).T.tolist()
    judged = [checks.Check.at_most("inference p99", p99, P99_MS, "ms")]
    title = f"{policy} at {rate:g} Hz: p50 {p50:.3f} ms, max {most:.3f} ms; after a rest "
    checks.print_table(f"{title}p50 {rested_p50:.3f}, p99 {rested_p99:.3f} ms", judged)
    if json:
        raw = {"p50_ms": p50, "p99_ms": p99, "max_ms": most, "rate_hz": rate}
        raw |= {"rested_p50_ms": rested_p50, "rested_p99_ms": rested_p99}
        checks.write_json(json, "bench policy", judged, raw)
    raise typer.Exit(checks.exit_code(judged))
