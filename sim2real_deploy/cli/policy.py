"""`sim2real policy`: bring a policy in, check it, read it, compare it."""

from pathlib import Path
from typing import Any

import typer
import yaml

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal

policy = typer.Typer(help="Bring policies in, and check what they claim.", no_args_is_help=True)
app.add_typer(policy, name="policy")


def _convert(path: Path, observation_size: int) -> bytes:
    try:
        from sim2real_deploy.training import torchscript
    except ImportError:
        raise Refusal(
            f"{path}: TorchScript is converted with torch, which is not installed here: "
            "pip install 'sim2real_deploy[train]'"
        ) from None
    return torchscript.convert(path, observation_size)


def _answers(pairs: list[str]) -> dict[str, Any]:
    given = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator:
            raise Refusal(f"--set {pair}: must be key=value")
        try:
            given[key] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise Refusal(f"--set {key}: '{text}' is not a value") from None
    return given


@policy.command("import")
def import_(
    source: Path = typer.Argument(help="A policy's file or folder, as its project exported it."),
    output: Path = typer.Option(help="The bundle's folder, to be made."),
    robot: str = typer.Option("", help="Where the source does not say it and several fit."),
    name: str = typer.Option("", help="The policy's name; else that of the folder."),
    network: Path = typer.Option(None, help="The network, where it does not lie beside."),
    answers: list[str] = typer.Option([], "--set", help="What the source leaves open: key=value."),
) -> None:
    """Turn a policy of another project into a bundle that `sim2real` runs."""
    from sim2real_deploy.policy.importers.assemble import import_policy
    from sim2real_deploy.policy.importers.draft import Answers

    bundle = import_policy(
        source, output, Answers(_answers(answers), network), _convert, name=name, robot=robot
    )
    typer.echo(f"{output}: {bundle.contract.name} for {bundle.spec.title}")
    typer.echo(f"Now see whether it walks: sim2real policy check {output}")
