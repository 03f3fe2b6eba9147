"""`sim2real policy`: import, check, show and compare policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import yaml

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install

if TYPE_CHECKING:
    from sim2real_deploy.checks import Check
    from sim2real_deploy.policy.bundle import Bundle

policy = typer.Typer(help="Import, check, show and compare policies.", no_args_is_help=True)
app.add_typer(policy, name="policy")


def _convert(path: Path, sizes: Sequence[int]) -> bytes:
    try:
        from sim2real_deploy.training import torchscript
    except ImportError:
        raise Refusal(
            f"{path}: TorchScript is converted with torch, which is not installed here: "
            f"{to_install('train')}"
        ) from None
    return torchscript.convert(path, sizes)


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


def _load(folder: Path) -> "Bundle":
    from sim2real_deploy.policy.bundle import load_own_bundle

    return load_own_bundle(folder)


@policy.command("import")
def import_(
    source: Path = typer.Argument(help="A policy's file or folder, as its project exported it."),
    output: Path = typer.Option(help="Folder of the new bundle."),
    robot: str = typer.Option("", help="If the source does not say and several fit."),
    name: str = typer.Option("", help="The policy's name; default: the folder's."),
    network: Path = typer.Option(None, help="The network's file, if it is elsewhere."),
    answers: list[str] = typer.Option([], "--set", help="What the source does not say: key=value."),
) -> None:
    """Turn a policy of another project into a bundle that `sim2real` runs."""
    from sim2real_deploy.policy.importers.assemble import import_policy
    from sim2real_deploy.policy.importers.draft import Answers

    imported = import_policy(
        source, output, Answers(_answers(answers), network, robot), _convert, name=name
    )
    bundle = imported.bundle
    typer.echo(f"{output}: {bundle.contract.name} for {bundle.spec.title}")
    typer.echo(f"  from {imported.form} and {imported.network}")
    for line in imported.assumed:
        typer.echo(f"  not in the file, assumed: {line}")
    typer.echo(f"Now see whether it walks: sim2real policy check {output}")


@policy.command()
def check(
    folder: Path = typer.Argument(help="The bundle's folder, or its name in policies/."),
    json: Path = typer.Option(None, help="Write the figures to this file."),
    paper: bool = typer.Option(False, "--paper", help="Static checks only, without walking."),
) -> None:
    """Check what a policy claims, then see it stand and walk for two seconds each way."""
    from sim2real_deploy import checks
    from sim2real_deploy.policy.check import static_checks

    try:
        bundle = _load(folder)
    except Refusal as refusal:
        if json is not None:
            failed = checks.Check("contract", 0, "", ">= 1", False)
            checks.write_json(json, "policy check", [failed], {"refusal": str(refusal)})
        raise
    rows = static_checks(bundle)
    raw: dict[str, Any] = {"policy": bundle.contract.name, "sha256": bundle.contract.sha256}
    if not paper:
        walked, would_walk = _walk(bundle)
        rows += walked
        raw["would_walk"] = would_walk
    checks.print_table(f"{bundle.contract.name} on {bundle.spec.title}", rows)
    if not paper and checks.exit_code(walked):
        typer.echo("As declared it does not walk. " + _advice(would_walk))
    if json is not None:
        checks.write_json(json, "policy check", rows, raw)
    raise typer.Exit(checks.exit_code(rows))


def _walk(bundle: "Bundle") -> tuple[list["Check"], list[str]]:
    """The checks in the twin and, if they fail, the known joint orders with which it walks."""
    from rich.console import Console

    from sim2real_deploy import checks
    from sim2real_deploy.gate import policy_check

    with Console(stderr=True).status("the twin") as status:
        seen = policy_check.walk(bundle, lambda what: status.update(f"in the twin: {what}"))
        rows = [row for one in seen for row in one.checks()]
        if not checks.exit_code(rows):
            return rows, []
        trying = policy_check.orders_that_walk(bundle, lambda what: status.update(f"try: {what}"))
        return rows, trying


def _advice(would_walk: list[str]) -> str:
    if would_walk:
        return "It would, with " + ", or with ".join(would_walk) + ": was it exported like that?"
    return "Nor does it in any other known order of joints or observations."


@policy.command()
def info(folder: Path = typer.Argument(help="The bundle's folder, or its name.")) -> None:
    """Show a policy: what it expects, what it sends, where it comes from."""
    from sim2real_deploy.policy.card import print_card

    print_card(_load(folder))


@policy.command()
def diff(
    one: Path = typer.Argument(help="A bundle."), other: Path = typer.Argument(help="Another one.")
) -> None:
    """Compare two policies' contracts and outputs; exit code 1 if they differ."""
    from sim2real_deploy.policy.compare import print_differences

    raise typer.Exit(print_differences(_load(one), _load(other)))
