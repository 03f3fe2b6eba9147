"""A network without a description: which robot it moves, and as which stock task it walks.

Each known task that fits the network's input is tried in the twin with every move. The best is used
only if most moves work, and the user is told how many.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate import policy_check
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.importers.assemble import Imported, import_policy
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.policy.importers.network import Converter
from sim2real_deploy.policy.importers.robots import all_robots, robot_of_folder
from sim2real_deploy.policy.skeleton import Shape, presets, write_skeleton
from sim2real_deploy.robots import RobotSpec, load_robot


@dataclass(frozen=True, slots=True)
class Tried:
    task: str
    moves: int  # that work
    of: int
    error: float  # m/s and rad/s, summed over the moves: decides between equals

    @property
    def walks(self) -> bool:
        return self.moves > self.of / 2


def try_tasks(
    tasks: Iterable[str], bring_in: Callable[[str], Bundle], step: Callable[[str], None]
) -> list[Tried]:
    """Every task that fits, the best first. `bring_in` imports the network as one of them."""
    tried = []
    for task in tasks:
        try:
            bundle = bring_in(task)
        except Refusal:
            continue
        seen = policy_check.walk(bundle, lambda move, task=task: step(f"{task}: {move}"))  # type: ignore[misc]
        tried.append(Tried(task, sum(one.ok for one in seen), len(seen), sum(map(_error, seen))))
    return sorted(tried, key=lambda one: (-one.moves, one.error))


def _error(seen: policy_check.CommandOutcome) -> float:
    return sum(abs(a - b) for a, b in zip(seen.command, seen.velocity, strict=True))


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
    network: Path,
    robots: Sequence[RobotSpec],
    shape: Shape,
    convert: Converter,
    step: Callable[[str], None],
) -> list[tuple[RobotSpec, Tried]]:
    """The network as every stock task that it fits, walked in the twin; the best first."""
    tried: list[tuple[RobotSpec, Tried]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for spec in robots:

            def bring_in(task: str, spec: RobotSpec = spec) -> Bundle:
                written = Path(scratch) / f"{spec.name}_{task}"
                write_skeleton(network, spec, written, task, shape)
                return import_policy(written, written / "out", Answers(), convert).bundle

            found = try_tasks(presets(spec.name), bring_in, step)
            tried += zip(itertools.repeat(spec), found, strict=False)
    return sorted(tried, key=lambda one: (-one[1].moves / one[1].of, one[1].error))


def in_words(tried: Sequence[tuple[RobotSpec, Tried]]) -> str:
    """How many moves each task does; those that do none together."""
    names = {spec.name for spec, _ in tried}

    def name(spec: RobotSpec, one: Tried) -> str:
        return one.task if len(names) == 1 else f"{one.task}'s {spec.name}"

    some = [f"{name(spec, one)} {one.moves} of {one.of}" for spec, one in tried if one.moves]
    none = [name(spec, one) for spec, one in tried if not one.moves]
    if none:
        some.append(f"{', '.join(none)} none")
    return "; ".join(some)


def import_as_stock_task(
    network: Path,
    robot: str,
    output: Path,
    name: str,
    shape: Shape,
    convert: Converter,
    step: Callable[[str], None],
) -> Imported:
    """Import it as the stock task with which it does most of its moves; refuse it if none does."""
    robots = robots_for(network, robot, shape)

    def refusal(why: str) -> Refusal:
        return Refusal(
            f"{network}: a network without a description{why}. Describe what it sees and sends: "
            f"sim2real policy new {network} --robot ROBOT --output FOLDER"
        )

    if not shape.actions:
        raise refusal("; how many numbers go into each of its inputs cannot be found by trying")
    if not robots:
        raise refusal(
            f", with {shape.actions} actions: no robot with a known stock task has so many"
        )
    tried = tried_as_stock_tasks(network, robots, shape, convert, step)
    if not tried:
        names = ", ".join(spec.name for spec in robots)
        raise refusal(
            f", with {shape.told} for {shape.actions} actions: no known stock task of {names} is "
            "like that"
        )
    spec, best = tried[0]
    if not best.walks:
        raise refusal(
            ". As the known stock tasks it does not walk in the twin (moves that work: "
            f"{in_words(tried)})"
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
