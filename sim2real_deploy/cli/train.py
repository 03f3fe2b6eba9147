"""`sim2real train`: from a config to a policy bundle."""

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install


@app.command("train")
def train_command(
    config: Annotated[
        str, typer.Argument(help="A name in config/training, or the path of such a file.")
    ],
    minutes: Annotated[
        float | None, typer.Option(help="Stop after this long; else after the config's steps.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Two runs with the same seed learn the same.")
    ] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on, even with another config.")
    ] = False,
    twin: Annotated[
        str | None, typer.Option(help="Of the robot to train for: config/twins, or a file.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the run is kept; else runs/NAME/seed_SEED.")
    ] = None,
) -> None:
    """Train a policy, show how it goes, and export it. Ctrl-C exports what there is by then.

    A run that was cut off, by a crash or otherwise, goes on when the same command is given again.
    """
    try:
        from sim2real_deploy.training import progress
        from sim2real_deploy.training.config import load_training
        from sim2real_deploy.training.export import export
        from sim2real_deploy.training.judge import Judge
        from sim2real_deploy.training.trainer import Run, train
    except ModuleNotFoundError as error:
        raise Refusal(f"training needs {error.name}: {to_install('sim', 'train')}") from None
    from rich.console import Console

    console = Console()
    settings = load_training(config)
    if twin is not None:
        settings = settings.model_copy(update={"twin": twin})
    where = folder or Path("runs") / settings.name / f"seed_{seed}"
    run = Run(settings, where, seed, minutes, resume)
    judge = Judge(where, settings.judging) if settings.judging else None
    with progress.reporting(console, where) as report:

        def look(figures: dict[str, Any]) -> None:
            report(figures)
            if judge:
                judge.look()

        checkpoint = train(run, look, judge.enough if judge else lambda: False)
    if judge:
        checkpoint = judge.finish()
        best = judge.best
        assert best is not None
        console.print(f"best of {len(judge.judgements)} judged: {best.score:.0%} succeed")
    shutil.rmtree(where / "bundle", ignore_errors=True)  # of the run that was resumed
    contract = export(checkpoint, where / "bundle")
    progress.plot(where, where / "training.png")
    console.print(f"policy {contract.name}, {contract.provenance['steps']:,} steps, seed {seed}")
    console.print(f"bundle:  {where / 'bundle'}\npicture: {where / 'training.png'}")
