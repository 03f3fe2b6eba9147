"""A network without a description: which robot it moves, and as which stock task it walks."""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.importers.assemble import Imported, import_policy
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.policy.importers.network import Converter
from sim2real_deploy.policy.importers.robots import all_robots, robot_of_folder
from sim2real_deploy.policy.skeleton import Shape, presets, write_skeleton
from sim2real_deploy.policy.skeleton import shape_of as shape_of_onnx
from sim2real_deploy.robots import RobotSpec, load_robot

if TYPE_CHECKING:
    from sim2real_deploy.gate.stock_tasks import Tried


def robots_for(network: Path, named: str, shape: Shape) -> list[RobotSpec]:
    """The robot that was named, or that of the folder, or each that has a stock task with as many
    actions; those that only walk in their twin last."""
    if named:
        return [load_robot(named)]
    actions = shape.actions
    fitting = [
        spec
        for spec in sorted(all_robots(), key=lambda spec: bool(spec.twin_only))
        if any(task.count == actions for task in presets(spec.name).values())
    ]
    home = robot_of_folder(network)
    at_home = [spec for spec in fitting if spec.name == home]
    real = [spec for spec in fitting if not spec.twin_only]
    return at_home or real or fitting


def tried_as_stock_tasks(
    network: Path, robots: Sequence[RobotSpec], shape: Shape, convert: Converter
) -> "list[tuple[RobotSpec, Tried]]":
    """The network as every stock task that it fits, walked in the twin; the best first."""
    from rich.console import Console

    from sim2real_deploy.gate.stock_tasks import try_tasks

    tried: list[tuple[RobotSpec, Tried]] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        Console(stderr=True).status("the twin") as status,
    ):
        for spec in robots:

            def bring_in(task: str, spec: RobotSpec = spec) -> Bundle:
                written = Path(scratch) / f"{spec.name}_{task}"
                write_skeleton(network, spec, written, task, shape)
                return import_policy(written, written / "out", Answers(), convert).bundle

            found = try_tasks(
                presets(spec.name), bring_in, lambda what: status.update(f"in the twin: {what}")
            )
            tried += zip(itertools.repeat(spec), found, strict=False)
    return sorted(tried, key=lambda one: (-one[1].moves / one[1].of, one[1].error))


def in_words(tried: "Sequence[tuple[RobotSpec, Tried]]") -> str:
    """How many moves each task does; those that do none together."""
    names = {spec.name for spec, _ in tried}

    def name(spec: RobotSpec, one: "Tried") -> str:
        return one.task if len(names) == 1 else f"{one.task}'s {spec.name}"

    some = [f"{name(spec, one)} {one.moves} of {one.of}" for spec, one in tried if one.moves]
    none = [name(spec, one) for spec, one in tried if not one.moves]
    if none:
        some.append(f"{', '.join(none)} none")
    return "; ".join(some)


def import_as_stock_task(
    network: Path, robot: str, output: Path, name: str, shape: Shape, convert: Converter
) -> Imported:
    """Import it as the stock task with which it does most of its moves; refuse it if none does."""
    robots = robots_for(network, robot, shape)
    describe = (
        f"Describe what it sees and sends: sim2real policy new {network} --robot ROBOT --output "
        "FOLDER"
    )
    if not robots:
        raise Refusal(
            f"{network}: a network without a description, with {shape.actions} actions: no robot "
            f"with a known stock task has so many. {describe}"
        )
    tried = tried_as_stock_tasks(network, robots, shape, convert)
    if not tried:
        names = ", ".join(spec.name for spec in robots)
        raise Refusal(
            f"{network}: a network without a description, with {shape.told} for {shape.actions} "
            f"actions: no known stock task of {names} is like that. {describe}"
        )
    spec, best = tried[0]
    if not best.walks:
        raise Refusal(
            f"{network}: a network without a description. As the known stock tasks it does not "
            f"walk in the twin (moves that work: {in_words(tried)}). {describe}"
        )
    with tempfile.TemporaryDirectory() as scratch:
        written = Path(scratch) / "in"
        write_skeleton(network, spec, written, best.task, shape)
        imported = import_policy(written, output, Answers(), convert, name=name)
    assumed = (
        f"everything but the network: taken as {best.task}'s stock task of {spec.name}, with which "
        f"it does {best.moves} of {best.of} moves in the twin"
        + (f" (others: {in_words(tried[1:])})" if tried[1:] else ""),
        *imported.assumed,
    )
    return Imported(imported.bundle, "a stock task", network, assumed, {})


def shape_of(network: Path) -> Shape:
    """What goes in and out; TorchScript tells it only with torch."""
    if network.suffix == ".onnx":
        return shape_of_onnx(network)
    try:
        from sim2real_deploy.training import torchscript
    except ImportError:
        return shape_of_onnx(network)
    return Shape(*torchscript.shape(network))


def stock_task_that_walks(
    network: Path, robots: Sequence[RobotSpec], shape: Shape, convert: Converter
) -> tuple[RobotSpec, str]:
    """For `policy new`: the robot and the project that fill the description in, or no project."""
    try:
        tried = tried_as_stock_tasks(network, robots, shape, convert)
    except ImportError:  # no twin is installed
        tried = []
    if not tried:
        return robots[0], ""
    typer.echo(f"  moves that work in the twin, as the stock task of {in_words(tried)}")
    spec, best = tried[0]
    if not best.walks:
        typer.echo("  it walks as none of them: the description is left for you to fill in")
        return spec, ""
    typer.echo(f"  filled in as {best.task}'s of {spec.name}")
    return spec, best.task
