"""`sim2real bench train`: training speed beside the bare physics, in one run."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import bench

COLLECTING = 0.6  # of the bare physics rate
LEARNING = 0.3


@bench.command("train")
def bench_train(
    config: Annotated[str, typer.Argument(help="A name in config/training.")] = "go2_walk",
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 20.0,
    json: Annotated[Path | None, typer.Option(help="Write figures and checks here.")] = None,
) -> None:
    """Control steps a second: physics alone, with collection, with learning; one worker."""
    from sim2real_deploy import checks
    from sim2real_deploy.bench.train import measure
    from sim2real_deploy.training.config import load_training

    rate = measure(load_training(config), seconds)
    judged = [
        checks.Check.at_least("collecting / bare physics", rate.collecting / rate.bare, COLLECTING),
        checks.Check.at_least("learning / bare physics", rate.learning / rate.bare, LEARNING),
    ]
    title = (
        f"control steps/s of one worker: physics {rate.bare:.0f}, "
        f"collecting {rate.collecting:.0f}, learning {rate.learning:.0f}"
    )
    checks.print_table(title, judged)
    if json:
        checks.write_json(json, "bench train", judged, {"steps_per_second": asdict(rate)})
    raise typer.Exit(checks.exit_code(judged))
