"""`sim2real loop`: from the bags of a robot to a policy for it."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install


@app.command("loop")
def loop(
    bags: Annotated[
        list[Path],
        typer.Argument(help="Bags of one robot: walks and, if there are any, hung excitations."),
    ],
    name: Annotated[str, typer.Option(help="Name of the new policy.")] = "retrained",
    policy: Annotated[
        str, typer.Option(help="Policy that walked; default: the one in the first bag.")
    ] = "",
    start: Annotated[str, typer.Option(help="Twin to start from.")] = "default",
    config: Annotated[
        str,
        typer.Option(help="Training config of the policy: a name in config/training, or a file."),
    ] = "go2_walk",
    steps: Annotated[int, typer.Option(min=1, help="Steps of fine-tuning.")] = 1_500_000,
    minutes: Annotated[
        float | None, typer.Option(help="Time limit for fine-tuning; makes a resumed run differ.")
    ] = None,
    scenarios: Annotated[str, typer.Option("--set", help="Set of gate scenarios.")] = "walk",
    trials: Annotated[int, typer.Option(min=1, help="Runs of each scenario.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of fine-tuning.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder for the results of each step; default: runs/loop/NAME."),
    ] = None,
    ray: Annotated[
        str, typer.Option(help="Run the gate on a Ray cluster: its address, or `local`.")
    ] = "",
    html: Annotated[Path | None, typer.Option(help="Write the before/after page here.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Identify, compare, learn, randomise, fine-tune, judge and compare again. Interrupt it at any
    time: the same command goes on where it was, and computes nothing twice."""
    try:
        import_module("sim2real_deploy.training.trainer")
    except ModuleNotFoundError as error:
        raise Refusal(f"fine-tuning needs {error.name}: {to_install('sim', 'train')}") from None
    from sim2real_deploy.analysis.loop.loop import Settings, run_loop
    from sim2real_deploy.analysis.loop.page import headline, write_loop_page
    from sim2real_deploy.checks import write_json

    settings = Settings(
        tuple(bags), policy, name, start, config, steps, minutes, scenarios, trials, seed, ray
    )
    where = folder or Path("runs") / "loop" / name
    done = run_loop(settings, where, typer.echo)
    typer.echo(headline(done))
    page = html or where / "loop.html"
    write_loop_page(page, done)
    typer.echo(f"bundle: {done.bundle}\npage: {page}")
    if json is not None:
        write_json(json, "loop", [], done.raw())
