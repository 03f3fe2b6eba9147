"""`sim2real bench wire`: what the vendor's Python path to the robot costs, and what ours does."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import bench


@bench.command("wire")
def wire(
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="How long each path runs at 500 Hz.")
    ] = 6.0,
) -> None:
    """Codec, one-way latency between two processes and CPU, vendor's and ours, in one run."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from sim2real_deploy import checks
    from sim2real_deploy.bench import wire as benchmark

    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        result = benchmark.run(
            seconds, lambda what, done: bar.update(task, description=what, completed=done)
        )

    table = Table("", "vendor's", "ours", "unit", title="go family, Python", title_justify="left")
    for name, unit, theirs, ours in result.rows():
        table.add_row(name, f"{theirs:.4g}", f"{ours:.4g}", unit)
    console.print(table)
    judged = result.checks()
    checks.print_table("bench wire", judged)
    if json is not None:
        checks.write_json(json, "bench wire", judged, result.raw())
    raise typer.Exit(checks.exit_code(judged))
