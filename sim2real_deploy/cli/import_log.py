"""`sim2real import-log`: turns a log recorded elsewhere into a bag."""

from pathlib import Path

import typer

from sim2real_deploy.cli import app


@app.command("import-log")
def import_log(
    log: Path = typer.Argument(..., help="An .npz, a .csv, or a rosbag (folder or .mcap)."),
    mapping: Path = typer.Argument(..., help="A small YAML that names its columns or topics."),
    output: Path = typer.Argument(
        ..., help="Folder of the new bag; an existing one is never overwritten."
    ),
) -> None:
    """Use data recorded without this package: identify, report and replay read the bag."""
    from sim2real_deploy.bags.import_log import import_log as run

    typer.echo(f"{output}: {run(log, mapping, output)} states")
