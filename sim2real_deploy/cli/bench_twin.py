"""`sim2real bench twin`: what the twin costs, and how well it keeps time."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import bench


@bench.command("twin")
def twin(
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    seconds: Annotated[float, typer.Option(min=2.0, help="How long it runs on the wire.")] = 60.0,
    preset: Annotated[str, typer.Option(help="Its name in config/twins.")] = "default",
) -> None:
    """In-process speed against bare mj_step; rate and real-time factor on the wire."""
    from rich.console import Console
    from rich.progress import Progress

    from sim2real_deploy import checks
    from sim2real_deploy.bench import twin as benchmark

    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        result = benchmark.run(
            seconds, preset, lambda what, done: bar.update(task, description=what, completed=done)
        )
    speed = result.speed
    console.print(
        f"one wire period: {speed.twin_us:.0f} us of a core, of which {speed.steps} mj_step "
        f"{speed.bare_us:.0f} us; on the wire {result.wire.rate_hz:.2f} Hz, "
        f"{result.wire.lost} lost (the preset's bus loses some)"
    )
    judged = result.checks()
    checks.print_table("bench twin", judged)
    if json is not None:
        checks.write_json(json, "bench twin", judged, result.raw())
    raise typer.Exit(checks.exit_code(judged))
