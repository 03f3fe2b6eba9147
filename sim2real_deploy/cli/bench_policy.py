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
    seconds: Annotated[int, typer.Option(min=2, help="How long to measure each way.")] = 10,
    json: Annotated[Path | None, typer.Option(help="Write figures and checks here.")] = None,
) -> None:
    """One thread of ONNX Runtime as the control loop uses it: awake at every state, the network
    rehearsed a tick ahead. Beside it, the same network after a rest: its caches are cold then.
    Seconds in which the machine itself stood still do not count."""
    from rich.progress import Progress

    from sim2real_deploy import checks
    from sim2real_deploy.bench.policy import measure
    from sim2real_deploy.policy.bundle import load_bundle
    from sim2real_deploy.robots import load_robot
    from sim2real_deploy.runtime import realtime

    spec = load_robot(robot)
    running = load_bundle(policy, spec).open()
    realtime.calm_interpreter()
    realtime.lock_memory()
    realtime.keep_awake()
    taken = []
    with Progress() as bar:
        for rested, words in ((False, "in the loop"), (True, "after a rest")):
            task = bar.add_task(words, total=1.0)
            taken.append(
                measure(
                    running,
                    spec.wire.rate_hz,
                    seconds,
                    rested,
                    lambda done, task=task: bar.update(task, completed=done),  # type: ignore[misc]
                )
            )
    in_loop, after_rest = taken
    p50, p99, most = in_loop.percentiles()
    rested_p50, rested_p99, _ = after_rest.percentiles()
    rate = running.contract.rate_hz
    judged = [checks.Check.at_most("inference p99", p99, P99_MS, "ms")]
    checks.print_table(
        f"{policy} at {rate:g} Hz: p50 {p50:.3f} ms, max {most:.3f} ms in "
        f"{len(in_loop.counted)} of {len(in_loop.all)} steps that count; "
        f"after a rest p50 {rested_p50:.3f}, p99 {rested_p99:.3f} ms",
        judged,
    )
    if json:
        raw = {"p50_ms": p50, "p99_ms": p99, "max_ms": most, "rate_hz": rate}
        raw |= {"rested_p50_ms": rested_p50, "rested_p99_ms": rested_p99}
        raw |= {"steps": len(in_loop.all), "steps_counted": len(in_loop.counted)}
        checks.write_json(json, "bench policy", judged, raw)
    raise typer.Exit(checks.exit_code(judged))
