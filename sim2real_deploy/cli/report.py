"""`sim2real report`: a run as one HTML file."""

from pathlib import Path

import typer

from sim2real_deploy.cli import app


@app.command("report")
def report(
    bag: Path = typer.Argument(..., help="The bag: a directory or an .mcap file."),
    output: Path | None = typer.Option(
        None, help="File to write; default: report.html beside the bag."
    ),
) -> None:
    """Write a run's report: modes, velocity, gait, joints, torque, heat, battery, latency."""
    import time

    from sim2real_deploy.analysis.report import write_report
    from sim2real_deploy.bags import Bag

    opened = Bag(bag)
    for problem in opened.problems:
        typer.secho(problem, fg="yellow", err=True)
    folder = bag if bag.is_dir() else bag.parent
    start = time.perf_counter()
    path = write_report(opened, output or folder / "report.html")
    typer.echo(f"report: {path} (made in {time.perf_counter() - start:.1f} s)")
