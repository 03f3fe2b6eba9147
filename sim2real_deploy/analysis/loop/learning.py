"""The loop's learning step: learned residuals go into the twin if they help on held-out data.

An actuator network needs torque and two sets of gains, a delta action half a minute of walking.
Bags that hold neither leave the twin as it was identified, and the result says so.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.figures import figures_of
from sim2real_deploy.identify.learn import store, summary
from sim2real_deploy.identify.learn.actuator import learn_actuator
from sim2real_deploy.identify.learn.delta import learn_action
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.files import TwinFile, load_twin_file, write_twin_file


def learn(
    place: Path,
    name: str,
    file: TwinFile,
    spec: RobotSpec,
    recordings: Sequence[Recording],
    progress: Progress,
) -> dict[str, Any]:
    """Write the twin as `place`/`name`, with the networks that help; what was learnt, in words."""
    file, actuator = _with_actuator(place, file, spec, recordings, progress)
    walks = [one for one in recordings if "foot_force" not in one or not one.hangs]
    action = _with_action(place / name, file, spec, walks, progress)
    return {"actuator": actuator, "action": action}


def _with_actuator(
    place: Path,
    file: TwinFile,
    spec: RobotSpec,
    recordings: Sequence[Recording],
    progress: Progress,
) -> tuple[TwinFile, str]:
    try:
        found = learn_actuator(spec, recordings, figures_of(file.twin, spec), "torque", progress)
    except Refusal as refusal:
        return file, f"not learnt: {refusal}"
    if not found.weights.on.any():
        return file, "does not help in held-out blocks: left out"
    words = summary.source(found, recordings)
    network = found.weights.stored(summary.card(found, file.robot, recordings))
    path = store.store(str(place / "actuated.yaml"), file, "actuator", network, words)
    return load_twin_file(str(path), spec.name), words


def _with_action(
    path: Path, file: TwinFile, spec: RobotSpec, walks: Sequence[Recording], progress: Progress
) -> str:
    try:
        if not walks:
            raise Refusal("every bag is of a hung robot")
        found = learn_action(spec, walks, file.twin, progress)
    except Refusal as refusal:
        write_twin_file(path, file)
        return f"not learnt: {refusal}"
    if found.network is None:
        write_twin_file(path, file)
        return found.verdict
    words = found.source(walks)
    network = found.network.stored(found.card(file.robot, walks))
    store.store(str(path), file, "action", network, words)
    return words
