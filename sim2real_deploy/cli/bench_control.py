"""`sim2real bench control`: the usual loop on the vendor's SDK, ours, and a bare echo."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import bench


@bench.command("control")
def control(
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    seconds: Annotated[float, typer.Option(min=6.0, help="How long each of them runs.")] = 15.0,
    policy: Annotated[str, typer.Option(help="A policy in policies/, or a folder.")] = "go2_walk",
    robot: Annotated[str, typer.Option(help="A robot in config/robots.")] = "go2",
) -> None:
    """LowState to LowCmd at 500 Hz between two processes: latency, rate and CPU, in one run."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from sim2real_deploy import checks
    from sim2real_deploy.bench import control as benchmark

    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        result = benchmark.run(
            robot,
            policy,
            seconds,
            lambda what, done: bar.update(task, description=what, completed=done),
        )
    table = Table("", *benchmark.CONTESTANTS, title="LowState to LowCmd", title_justify="left")
    figures = result.raw()
    for name in figures["ours"]:
        table.add_row(name, *(f"{figures[who][name]:.4g}" for who in benchmark.CONTESTANTS))
    console.print(table)
    judged = result.checks()
    checks.print_table("bench control", judged)
    if json is not None:
        checks.write_json(json, "bench control", judged, figures)
    raise typer.Exit(checks.exit_code(judged))
