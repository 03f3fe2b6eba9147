"""`sim2real faults`: break everything against the twin, and time the way to damping."""

from functools import partial
from pathlib import Path

import typer

from sim2real_deploy.cli import app


@app.command("faults")
def faults(
    json_file: Path = typer.Option(None, "--json", help="Write the figures to this file."),
    repeat: int = typer.Option(20, min=1, help="How often each fault is injected."),
    quick: bool = typer.Option(False, "--quick", help="Each fault once: about ten minutes."),
    only: str = typer.Option("", help="Only faults whose name contains this."),
    policy: str = typer.Option("go2_walk", help="Policy that walks while faults are injected."),
    robot: str = typer.Option("go2", help="Robot: a name in config/robots."),
    adaptation: str = typer.Option(
        "none", help="Adaptation while faults are injected, as in `up`."
    ),
) -> None:
    """Run the whole stack against the twin, inject every fault, time it on the wire."""
    from sim2real_deploy.bench import faults as benchmark
    from sim2real_deploy.bench.conduct import conduct

    measure = partial(benchmark.run, robot, policy, 1 if quick else repeat, only, adaptation)
    raise typer.Exit(conduct("faults", measure, json_file))
