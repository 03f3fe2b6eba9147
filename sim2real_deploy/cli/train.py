"""`sim2real train`: from a config to a policy bundle."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install

if TYPE_CHECKING:
    from sim2real_deploy.dashboard.training_page import TrainingPage


@app.command("train")
def train_command(
    config: Annotated[
        str, typer.Argument(help="A name in config/training, or the path of such a file.")
    ],
    minutes: Annotated[
        float | None,
        typer.Option(help="Stop after this many minutes; default: after the config's steps."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; two runs with the same seed learn the same.")
    ] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run even if its config has changed.")
    ] = False,
    twin: Annotated[
        str | None,
        typer.Option(help="Twin of the robot to train for: a name in config/twins, or a file."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the run; default: runs/NAME/seed_SEED.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show a robot in the browser while it learns.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the --watch page.")] = 8080,
    ray: Annotated[
        str, typer.Option(help="Spread workers over a Ray cluster: its address, or `local`.")
    ] = "",
) -> None:
    """Train a policy, show how it goes, and export it. Ctrl-C exports what there is by then.

    A run that was cut off, by a crash or otherwise, goes on when the same command is given again.
    """
    try:
        from sim2real_deploy.training import progress
        from sim2real_deploy.training.config import load_training
        from sim2real_deploy.training.crew import LocalCrew, RayCrew
        from sim2real_deploy.training.export import export
        from sim2real_deploy.training.judge import Judge
        from sim2real_deploy.training.trainer import Hooks, Run, train
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
    page = _open_page(settings.robot, settings.control.rate_hz, port) if watch else None
    if page:
        console.print(f"the robot as it learns: {page.address}")
    with progress.reporting(console, where) as report:

        def look(figures: dict[str, Any]) -> None:
            report(figures)
            if judge:
                judge.look()
            if page:
                page.tell(figures)

        hooks = Hooks(
            report=look,
            enough=judge.enough if judge else lambda: False,
            say=console.print,
            watch=page.show if page else None,
        )
        checkpoint = train(run, hooks, RayCrew(ray) if ray else LocalCrew())
    if page:
        page.close()
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


def _open_page(robot: str, rate_hz: float, port: int) -> "TrainingPage":
    try:
        from sim2real_deploy.dashboard.training_page import TrainingPage
    except ModuleNotFoundError as error:
        raise Refusal(f"--watch needs {error.name}: {to_install('dashboard')}") from None
    from sim2real_deploy.robots import load_robot

    return TrainingPage(load_robot(robot), rate_hz, port)


@app.command("seeds")
def seeds_command(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of runs of one config with different seeds.")
    ],
) -> None:
    """Compare training runs: the gate's best judgement of each, and how it went."""
    from rich.console import Console
    from rich.table import Table

    try:
        from sim2real_deploy.training.seeds import compare
    except ModuleNotFoundError as error:
        raise Refusal(f"this needs {error.name}: {to_install('sim', 'train')}") from None

    table = Table(box=None)
    for column in ("run", "seed", "steps, M", "minutes", "gate", "reward", "error, m/s", "fails"):
        table.add_column(column)
    for one in compare(folders):
        table.add_row(
            str(one.folder),
            str(one.seed),
            f"{one.steps / 1e6:.2f}",
            f"{one.minutes:.0f}",
            "-" if one.score is None else f"{one.score:.0%}",
            f"{one.reward:.2f}",
            f"{one.error:.3f}",
            ", ".join(one.fails) or "-",
        )
    Console().print(table)
