"""`sim2real report`, `export`, `mend`, `import-log`: what is done with one bag."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal

if TYPE_CHECKING:
    from sim2real_deploy.bags import Bag

FORMS = ("parquet", "numpy")
BAG = typer.Argument(..., help="The bag: a directory or an .mcap file.")


def _open(path: Path) -> "Bag":
    from sim2real_deploy.bags import Bag

    bag = Bag(path)
    for problem in bag.problems:
        typer.secho(problem, fg="yellow", err=True)
    return bag


@app.command("report")
def report(
    bag: Path = BAG,
    output: Path | None = typer.Option(
        None, help="File to write; default: report.html beside the bag."
    ),
) -> None:
    """Write a run's report: modes, velocity, gait, joints, torque, heat, battery, latency."""
    from sim2real_deploy.analysis.report import write_report

    opened = _open(bag)
    folder = bag if bag.is_dir() else bag.parent
    start = time.perf_counter()
    path = write_report(opened, output or folder / "report.html")
    typer.echo(f"report: {path} (made in {time.perf_counter() - start:.1f} s)")


@app.command("export")
def export(
    bag: Path = BAG,
    output: Path | None = typer.Option(
        None, help="Folder to write; default: BAG_export beside it."
    ),
    form: str = typer.Option("parquet", "--format", help="parquet or numpy."),
) -> None:
    """Write every topic as a table: one row per message, one column per value."""
    if form not in FORMS:
        raise Refusal(f"--format {form}: it is one of {', '.join(FORMS)}")
    from sim2real_deploy.analysis.export import export as write

    folder = output or bag.resolve().with_name(bag.resolve().stem + "_export")
    for path in write(_open(bag), folder, form):
        typer.echo(path)


@app.command("mend")
def mend(run: Path = typer.Argument(..., help="Directory of the bag.")) -> None:
    """Close a bag after a crash or power cut, so that `ros2 bag` and Foxglove open it too."""
    from sim2real_deploy.bags.mend import mend as close

    typer.echo(f"{run}: closed, with {close(run)} messages")


@app.command("import-log")
def import_log(
    log: Path = typer.Argument(..., help="An .npz, a .csv, or a rosbag (folder or .mcap)."),
    mapping: Path = typer.Argument(..., help="A small YAML that names its columns or topics."),
    output: Path = typer.Argument(
        ..., help="Folder of the new bag; an existing one is never overwritten."
    ),
) -> None:
    """Use data recorded without this package: identify, report and replay read the bag."""
    from sim2real_deploy.bags.import_log import import_log as convert

    typer.echo(f"{output}: {convert(log, mapping, output)} states")
