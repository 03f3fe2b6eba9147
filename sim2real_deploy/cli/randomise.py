"""`sim2real randomise`: training ranges from what was identified."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal


@app.command("randomise")
def randomise(
    twins: Annotated[
        list[str],
        typer.Option(
            "--from",
            help="An identified twin: its name in config/twins, or a file. Give more than once to "
            "add twins of the same robot from single bags: the ranges cover their spread.",
        ),
    ],
    config: Annotated[
        str, typer.Option(help="Training config to start from: config/training, or a file.")
    ] = "go2_walk",
    gap: Annotated[
        list[Path] | None,
        typer.Option(help="JSON of `sim2real gap`, for the floors on which the robot slipped."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the new config to this file; default: only show the ranges."),
    ] = None,
) -> None:
    """Centre training on a robot: ranges as wide as its figures are uncertain, with reasons."""
    import json

    from sim2real_deploy.console import print_rows
    from sim2real_deploy.training.config import load_training
    from sim2real_deploy.training.evidence import as_yaml, ranges_from, with_ranges
    from sim2real_deploy.twin.files import known_twin, load_twin_file

    if output is not None and output.exists():
        raise Refusal(f"{output}: already exists; choose another name or remove it first")
    base = load_training(config)
    first, *rest = [load_twin_file(name, base.robot) for name in twins]
    gaps: list[dict[str, Any]] = []
    for path in gap or ():
        try:
            gaps += json.loads(path.read_text(encoding="utf-8"))["runs"]
        except (OSError, ValueError, KeyError, TypeError):
            raise Refusal(f"{path}: not the JSON of `sim2real gap --json`") from None
    lines = ranges_from(base, first, rest, gaps)
    rows = []
    for line in lines:
        was, now = (f"{low:g} to {high:g}" for low, high in (line.before, line.range))
        rows.append((line.name, was, "" if now == was else now, line.reason))
    print_rows(("range", "was", "now", "why"), rows)
    if output is not None:
        name = twins[0] if not twins[0].endswith(".yaml") else str(known_twin(twins[0]).resolve())
        about = f"{config} randomised around the twin {twins[0]} by `sim2real randomise`."
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(as_yaml(with_ranges(base, name, lines), lines, about), encoding="utf-8")
        typer.echo(f"config: {output}; train with `sim2real train {output}`")
