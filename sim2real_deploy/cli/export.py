"""`sim2real export`: a run's arrays for notebooks."""

from pathlib import Path

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal

FORMS = ("parquet", "numpy")


@app.command("export")
def export(
    bag: Path = typer.Argument(..., help="The bag: a directory or an .mcap file."),
    output: Path | None = typer.Option(
        None, help="Folder to write; default: BAG_export beside it."
    ),
    form: str = typer.Option("parquet", "--format", help="parquet or numpy."),
) -> None:
    """Write every topic as a table: one row per message, one column per value."""
    if form not in FORMS:
        raise Refusal(f"--format {form}: it is one of {', '.join(FORMS)}")
    from sim2real_deploy.analysis import export as exporting
    from sim2real_deploy.bags import Bag

    opened = Bag(bag)
    for problem in opened.problems:
        typer.secho(problem, fg="yellow", err=True)
    folder = output or bag.resolve().with_name(bag.resolve().stem + "_export")
    for path in exporting.export(opened, folder, form):
        typer.echo(path)
