"""`sim2real identify`: what this robot is, from its own recordings."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import app


@app.command("identify")
def identify(
    bags: Annotated[list[Path], typer.Argument(help="Bags of one robot, hung or on the ground.")],
    robot: Annotated[str, typer.Option(help="Robot: a name in config/robots.")] = "go2",
    start: Annotated[str, typer.Option(help="Twin to start from.")] = "default",
    output: Annotated[
        str, typer.Option(help="Write config/twins/NAME.yaml, or a path that ends in .yaml.")
    ] = "",
    html: Annotated[Path | None, typer.Option(help="Write a report with plots here.")] = None,
) -> None:
    """Motor laws from any bag, joints from hung ones, the trunk from ones on the ground."""
    from sim2real_deploy.analysis.identify_report import write_identify_report
    from sim2real_deploy.bags.recorded import Recorded
    from sim2real_deploy.console import print_rows, shown_progress
    from sim2real_deploy.errors import Refusal
    from sim2real_deploy.identify.pipeline import identify as run
    from sim2real_deploy.identify.recording import from_bag
    from sim2real_deploy.identify.verdicts import summary, twin_file
    from sim2real_deploy.robots import load_robot
    from sim2real_deploy.twin.files import load_imperfections, twin_path, write_twin_file

    path = twin_path(output) if output else None
    if path is not None and path.exists():
        raise Refusal(f"{path}: already exists; choose another name or remove it first")
    spec, begun = load_robot(robot), load_imperfections(start, robot)
    recordings = [from_bag(Recorded.open(bag)) for bag in bags]
    with shown_progress() as progress:
        found = run(spec, recordings, begun, progress)
    names = ", ".join(recording.name for recording in recordings)
    file = twin_file(found, begun, f"Identified from {names}.")
    print_rows(("figure", "joint", "before", "found", "95 %", "verdict"), summary(found, file))
    assert file.identified is not None
    for joint, words in file.identified.residual.items():
        typer.secho(f"{joint}: the model falls short: {words}", fg="yellow")
    if path is not None:
        write_twin_file(path, file)
        typer.echo(f"twin: {path}; open it anywhere as preset:={output}")
    if html is not None:
        write_identify_report(html, found, file)
        typer.echo(f"report: {html}")
