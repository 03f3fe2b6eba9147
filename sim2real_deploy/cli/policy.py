"""`sim2real policy`: import, check, show and compare policies."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install

if TYPE_CHECKING:
    from sim2real_deploy.checks import Check
    from sim2real_deploy.policy.bundle import Bundle
    from sim2real_deploy.policy.importers import LoneNetwork
    from sim2real_deploy.policy.importers.assemble import Imported
    from sim2real_deploy.policy.skeleton import Shape
    from sim2real_deploy.robots import RobotSpec

policy = typer.Typer(help="Import, check, describe and compare policies.", no_args_is_help=True)
app.add_typer(policy, name="policy")


@contextmanager
def _twin_at_work() -> Iterator[Callable[[str], None]]:
    """A spinner; call what it yields with what the twin is trying."""
    from rich.console import Console

    with Console(stderr=True).status("the twin") as status:
        yield lambda what: status.update(f"in the twin: {what}")


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
    import yaml

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
    robot: str = typer.Option("", help="Robot, if the source does not name it and several fit."),
    name: str = typer.Option("", help="The policy's name; default: the folder's."),
    network: Path = typer.Option(None, help="Network file, if it is elsewhere."),
    answers: list[str] = typer.Option(
        [], "--set", help="Answer to what the source leaves open: key=value."
    ),
    walk: bool = typer.Option(
        True, help="Where an order is left open, find the one that walks, in the twin."
    ),
) -> None:
    """Turn a policy of another project into a bundle that `sim2real` runs.

    What a source leaves open and `--set` answers:

    unitree_rl_lab, unitree_rl_mjlab (deploy.yaml), Isaac Lab (params/env.yaml): nothing; where
    deploy.yaml and the network's metadata differ, trust (network unless given, or file).

    Isaac Lab (IO_descriptors.yaml): kp, kd of explicit actuators; command_ranges, the usual ones
    unless given.

    mjlab (ONNX metadata): rate_hz, scales, command_ranges, gait_period; mjlab's own unless given.

    rl_sar: command_ranges (its sticks, -1 to 1, unless given); older files also newest (first,
    last), joints, default_position, rate_hz.

    legged_gym and forks: terms (unitree, himloco, genesis, mjlab or a list), newest (first, last),
    frames (of the history), layout (by_frame, by_term), joints (sdk, gym, isaac or names),
    rate_hz, gait_period, command_ranges.

    A policy that follows a recorded motion: motion (its CSV or NPZ file, where it is not beside the
    description), motion_fps, motion_start, motion_end (s), anchor (the body that is compared).

    holosoma: default_position, for a robot whose file has no such pose.

    A network alone is taken as the stock task of a known project with which it walks in the twin;
    where it walks as none, write a policy.yaml: `sim2real policy new`.
    """
    from sim2real_deploy.policy.importers import LoneNetwork
    from sim2real_deploy.policy.importers.assemble import import_policy
    from sim2real_deploy.policy.importers.draft import Answers

    given = _answers(answers)

    def bring_in(more: dict[str, Any], folder: Path) -> "Imported":
        told = Answers({**given, **more}, network, robot, lambda file: _shape_of(file).inputs)
        return import_policy(source, folder, told, _convert, name=name or _name_of(output))

    try:
        imported = bring_in({}, output)
    except LoneNetwork as alone:
        if not walk or given:
            raise
        imported = _as_a_stock_task(alone, robot, output, name)
    if walk and imported.open_orders:
        imported = _with_the_order_that_walks(imported, bring_in, output)
    bundle = imported.bundle
    typer.echo(f"{output}: {bundle.contract.name} for {bundle.spec.title}")
    typer.echo(f"  from {imported.form} and {imported.network}")
    motion = bundle.contract.motion
    if motion is not None:
        length = motion.frames / bundle.contract.rate_hz
        typer.echo(f"  follows {motion.source}, {length:.1f} s, compared by {motion.anchor}")
    for line in imported.assumed:
        typer.echo(f"  not from the file: {line}")
    typer.echo(f"Now see whether it walks: sim2real policy check {output}")


def _as_a_stock_task(alone: "LoneNetwork", robot: str, output: Path, name: str) -> "Imported":
    try:
        from sim2real_deploy.gate.lone_network import import_as_stock_task
    except ImportError:  # no twin is installed
        raise alone from None
    typer.echo("  no description: the stock tasks of the known projects are tried in the twin")
    network, name = alone.network, name or _name_of(output)
    with _twin_at_work() as step:
        shape = _shape_of(network)
        return import_as_stock_task(network, robot, output, name, shape, _convert, step)


def _shape_of(network: Path) -> "Shape":
    """Its inputs and outputs; those of TorchScript are known only with torch."""
    from sim2real_deploy.policy import skeleton

    if network.suffix == ".onnx":
        return skeleton.shape_of(network)
    try:
        from sim2real_deploy.training import torchscript
    except ImportError:
        return skeleton.shape_of(network)
    return skeleton.Shape(*torchscript.shape(network))


def _name_of(folder: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", folder.resolve().name)


def _with_the_order_that_walks(
    imported: "Imported", bring_in: Callable[[dict[str, Any], Path], "Imported"], output: Path
) -> "Imported":
    """Orders that the file leaves open: the assumed ones if it walks, else those that do."""
    import shutil
    import tempfile

    try:
        from sim2real_deploy.gate.policy_check import find_order
    except ImportError:
        typer.echo("  the twin is not installed: whether the assumed orders are right is not known")
        return imported
    with tempfile.TemporaryDirectory() as scratch, _twin_at_work() as step:
        places = (Path(scratch) / str(i) for i in itertools.count())

        def candidate(answers: dict[str, Any]) -> "Bundle":
            return bring_in(answers, next(places)).bundle

        found = find_order(imported.open_orders, candidate, step)
    if found is None:
        typer.echo("  it walks in the twin with none of the known orders: see `policy check`")
    if not found:
        return imported
    shutil.rmtree(output)
    better = bring_in(found, output)
    words = ", ".join(f"{key}={value}" for key, value in found.items())
    typer.echo(f"  as assumed it does not walk in the twin; with --set {words} it does every move")
    return better


@policy.command()
def new(
    network: Path = typer.Argument(help="An ONNX or TorchScript file without a description."),
    output: Path = typer.Option(help="New folder for the network and a policy.yaml to fill in."),
    robot: str = typer.Option(
        "", help="Robot that it was trained for. Default: the one with as many actions."
    ),
    like: str = typer.Option(
        "",
        help="The project with whose stock task it was trained, to fill the rest in: legged_gym, "
        "himloco, isaac_lab, unitree_rl_lab, robot_lab, unitree_rl_mjlab. Default: the one with "
        "which it walks in the twin.",
    ),
    walk: bool = typer.Option(True, help="Without --like: try the stock tasks in the twin."),
) -> None:
    """Write a policy.yaml to fill in; `policy import` then reads it."""
    from sim2real_deploy.policy.importers import places
    from sim2real_deploy.policy.skeleton import write_skeleton
    from sim2real_deploy.robots import load_robot

    shape = _shape_of(places.the_network(network))
    spec = load_robot(robot or "go2")
    if not output.exists():
        spec, like = _stock_task(network, robot, like, shape, walk)
    file = write_skeleton(network, spec, output, like, shape)
    left = file.read_text(encoding="utf-8").count(": ???")
    todo = f"replace every ??? ({left})" if left else "check it"
    typer.echo(f"{file}: {todo}, then: sim2real policy import {output} --output NAME")


def _stock_task(
    network: Path, robot: str, like: str, shape: "Shape", walk: bool
) -> tuple["RobotSpec", str]:
    """The robot, and the project whose stock task it walks as; "" if there is none."""
    from sim2real_deploy.robots import load_robot

    usual = load_robot(robot or "go2")
    try:
        from sim2real_deploy.gate import lone_network
    except ImportError:  # no twin is installed
        return usual, like
    robots = lone_network.robots_for(network, robot, shape)
    fitting = min(robots, key=lambda spec: spec.name != usual.name, default=usual)
    if like or not walk:
        return fitting, like
    with _twin_at_work() as step:
        tried = lone_network.tried_as_stock_tasks(network, robots, shape, _convert, step)
    if not tried:
        return fitting, ""
    typer.echo(f"  moves that work in the twin, by stock task: {lone_network.in_words(tried)}")
    spec, best = tried[0]
    if not best.walks:
        typer.echo("  it walks as none of them: the description is left for you to fill in")
        return fitting, ""
    typer.echo(f"  filled in as {best.task}'s")
    return spec, best.task


@policy.command()
def pull(
    address: str = typer.Argument(
        help="hf://OWNER/REPOSITORY[/FOLDER][@REVISION], wandb://ENTITY/PROJECT/RUN, or "
        "wandb://ENTITY/PROJECT/ARTIFACT:VERSION."
    ),
    output: Path = typer.Option(help="New folder for the fetched files."),
) -> None:
    """Fetch a policy's files from Hugging Face or Weights & Biases; `policy import` reads them."""
    from sim2real_deploy.policy.pull import pull as fetch

    for path in fetch(address, output):
        typer.echo(f"  {path}")
    typer.echo(f"Now: sim2real policy import {output} --output policies/NAME")


@policy.command()
def check(
    folder: Path = typer.Argument(help="The bundle's folder, or its name in policies/."),
    json: Path = typer.Option(None, help="Write the figures to this file."),
    paper: bool = typer.Option(False, "--paper", help="Static checks only, without walking."),
) -> None:
    """Check what a policy claims, then see it stand and walk for two seconds each way, or follow
    its motion to the end."""
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
        walked, advice = _walk(bundle)
        rows += walked
        raw["advice"] = advice
    checks.print_table(f"{bundle.contract.name} on {bundle.spec.title}", rows)
    if not paper and advice:
        typer.echo("\n".join(advice))
    if json is not None:
        checks.write_json(json, "policy check", rows, raw)
    raise typer.Exit(checks.exit_code(rows))


def _walk(bundle: "Bundle") -> tuple[list["Check"], list[str]]:
    """The checks in the twin; if some fail, which, and with which known order all would pass."""
    from sim2real_deploy.gate import motion_check, policy_check

    with _twin_at_work() as step:
        if bundle.contract.motion is not None:
            return motion_check.follow(bundle, step).checks(), []
        seen = policy_check.walk(bundle, step)
        rows = [row for one in seen for row in one.checks()]
        failed = [one for one in seen if not one.ok]
        if not failed:
            return rows, []
        lines = [f"{len(failed)} of {len(seen)} moves fail:"]
        lines += [f"  {one.failure()}" for one in failed]
        if policy_check.walks_in_part(seen):
            return rows, [*lines, "The rest works: its joints and observations are in order."]
        found = policy_check.orders_that_walk(bundle, step)
        if found:
            orders = ", or with ".join(found)
            lines.append(f"It does every move with {orders}: was it exported like that?")
        else:
            lines.append("No other known order of joints or observations does every move.")
        return rows, lines


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
