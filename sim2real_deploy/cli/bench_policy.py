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
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 20.0,
    json: Annotated[Path | None, typer.Option(help="Write figures and checks here.")] = None,
) -> None:
    """Infer at the policy's own rate, asleep in between: caches are cold then, as on the robot."""
    import time

    import numpy as np
    from rich.progress import track

    from sim2real_deploy import checks
    from sim2real_deploy.policy.bundle import load_bundle
    from sim2real_deploy.robots import load_robot

    running = load_bundle(policy, load_robot(robot)).open()
    rate = running.contract.rate_hz
    took = np.zeros(max(1, round(seconds * rate)))
    begin = time.perf_counter()
    for i in track(range(len(took)), "inference"):
        time.sleep(max(0.0, begin + i / rate - time.perf_counter()))
        start = time.perf_counter()
        running.infer()
        took[i] = 1e3 * (time.perf_counter() - start)
    p50, p99, most = np.percentile(took, [50, 99, 100]).tolist()
    judged = [checks.Check.at_most("inference p99", p99, P99_MS, "ms")]
    checks.print_table(f"{policy} at {rate:g} Hz: p50 {p50:.3f} ms, max {most:.3f} ms", judged)
    if json:
        raw = {"p50_ms": p50, "p99_ms": p99, "max_ms": most, "rate_hz": rate}
        checks.write_json(json, "bench policy", judged, raw)
    raise typer.Exit(checks.exit_code(judged))
