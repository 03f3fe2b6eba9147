"""`sim2real bench estop`: the stop that people call, while every core is busy."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import bench

P99_MS = 50.0


@bench.command("estop")
def bench_estop(
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    calls: Annotated[int, typer.Option(min=1, help="How often it is called.")] = 200,
    policy: Annotated[str, typer.Option(help="A policy in policies/, or a folder.")] = "go2_walk",
) -> None:
    """Call /safety/estop again and again on a loaded computer; time it to damping on the wire."""
    import numpy as np
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from sim2real_deploy import checks
    from sim2real_deploy.bench.estop import time_calls
    from sim2real_deploy.cli.faults import whole_stack

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with whole_stack(policy) as (stack, _), Progress(*columns, TimeElapsedColumn()) as progress:
        task = progress.add_task("estop", total=calls)
        took_ms = time_calls(stack, calls, lambda done: progress.update(task, completed=done))
        progress.update(task, completed=calls)
    p50, p99, most = np.percentile(took_ms, (50, 99, 100)).tolist()
    judged = [checks.Check.at_most("call to damping, p99", p99, P99_MS, "ms")]
    title = f"{calls} calls, every core busy: p50 {p50:.1f} ms, max {most:.1f} ms"
    checks.print_table(title, judged)
    if json is not None:
        checks.write_json(json, "bench estop", judged, {"times_ms": took_ms})
    raise typer.Exit(checks.exit_code(judged))
