"""`sim2real runs`: list, compare, pin and export recorded runs."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal

runs = typer.Typer(help="Many recorded runs at once.", no_args_is_help=True)
app.add_typer(runs, name="runs")

Runs = Annotated[list[Path], typer.Argument(help="Folders of the runs.")]
Json = Annotated[Path | None, typer.Option(help="Write the rows to this file.")]
COLUMNS = {
    "name": "{}",
    "policy": "{}",
    "stage": "{}",
    "walked_s": "{:.1f}",
    "distance_m": "{:.1f}",
    "speed_error": "{:.2f}",
    "stops": "{}",
    "hottest": "{:.0f}",
    "gap": "{:.2f}",
    "pinned": "{}",
}


def _show(bags: list[Path], wanted: object, json: Path | None, across: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from sim2real_deploy.analysis.run_list import Filter, as_rows, list_runs
    from sim2real_deploy.checks import write_json

    rows, problems = list_runs(bags, wanted if isinstance(wanted, Filter) else None)
    for problem in problems:
        typer.secho(problem, fg="yellow", err=True)
    cells = [
        ["-" if row[name] is None else form.format(row[name]) for name, form in COLUMNS.items()]
        for row in as_rows(rows)
    ]
    lines = [list(COLUMNS), *cells]
    if across:
        lines = [[name, *values] for name, *values in zip(*lines, strict=True)]
        lines[0][0] = ""
    table = Table(*lines[0])
    for line in lines[1:]:
        table.add_row(*line)
    Console(width=None if Console().is_terminal else 200).print(table)
    if json is not None:
        write_json(json, "runs", [], {"runs": as_rows(rows)})


@runs.command("list")
def list_command(
    folder: Annotated[Path, typer.Argument(help="Folder of recorded runs.")] = Path("runs"),
    policy: Annotated[str | None, typer.Option(help="Only runs of this policy.")] = None,
    stage: Annotated[str | None, typer.Option(help="Only runs at this stage.")] = None,
    stopped: Annotated[
        bool | None, typer.Option(help="Only runs that safety stopped, or did not stop.")
    ] = None,
    real: Annotated[bool | None, typer.Option(help="Only runs of a robot, or of a twin.")] = None,
    pinned: Annotated[bool | None, typer.Option(help="Only pinned runs, or only others.")] = None,
    distance: Annotated[
        float | None, typer.Option(help="Only runs of at least this distance, in metres.")
    ] = None,
    gap: Annotated[float | None, typer.Option(help="Only runs with at most this gap.")] = None,
    json: Json = None,
) -> None:
    """One line for each run. The gap is known if gap.json is in the run's folder."""
    from sim2real_deploy.analysis.run_list import Filter, find_runs

    wanted = Filter(policy, stage, stopped, real, pinned, distance, gap)
    _show(find_runs(folder), wanted, json, across=False)


@runs.command("compare")
def compare(bags: Runs, json: Json = None) -> None:
    """Runs side by side."""
    _show(_bags(bags), None, json, across=True)


@runs.command("pin")
def pin(
    bags: Runs,
    reason: Annotated[
        str, typer.Option(help="Reason, shown in the list of runs.")
    ] = "pinned by hand",
) -> None:
    """Protect runs from the recorder's quota."""
    from sim2real_deploy.bags import runs as store

    for bag in _bags(bags):
        store.pin(bag, reason)
        typer.echo(f"pinned: {bag}")


@runs.command("export")
def export(
    bags: Runs,
    output: Annotated[Path, typer.Option(help="New folder for the export.")],
    form: Annotated[str, typer.Option("--format", help="parquet or lerobot.")] = "parquet",
) -> None:
    """A set of runs as tables (runs.parquet, and a folder each), or as a LeRobot dataset."""
    from sim2real_deploy.analysis.run_export import export_lerobot, export_parquet

    exporters = {"parquet": export_parquet, "lerobot": export_lerobot}
    if form not in exporters:
        raise Refusal(f"--format {form}: it is one of {', '.join(exporters)}")
    if output.exists() and any(output.iterdir()):
        raise Refusal(f"{output}: already exists and is not empty; name a new folder")
    written = exporters[form](_bags(bags), output)
    typer.echo(f"{len(written)} files in {output}")


def _bags(bags: list[Path]) -> list[Path]:
    for bag in bags:
        if not bag.is_dir() or not any(bag.glob("*.mcap")):
            raise Refusal(f"{bag}: not a run's folder: it contains no .mcap file")
    return bags
