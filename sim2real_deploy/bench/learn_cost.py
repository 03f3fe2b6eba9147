"""CPU cost of learned networks: in a twin, and in training."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.bench.twin import trot
from sim2real_deploy.checks import Check
from sim2real_deploy.identify.learn.store import store
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import load_training
from sim2real_deploy.training.environment import Environment
from sim2real_deploy.twin import delta_action
from sim2real_deploy.twin.actuator_net import ActuatorWeights, kinds_of
from sim2real_deploy.twin.files import load_imperfections, load_twin_file
from sim2real_deploy.twin.robot import TwinRobot

BLOCK, BLOCKS, WARM = 50, 60, 300  # wire periods
STEPS, ROUNDS = 20, 8  # control steps of training, in turn
TWIN, TRAINING = 1.3, 1.5
SMALL = 1e-3  # scale of the last layer: outputs hardly move the robot


def measure(robot: RobotSpec) -> tuple[list[Check], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        with_nets = write_random_twin(robot, Path(folder))
        twin, same = _twin(robot, with_nets)
        training = _training(robot, with_nets)
    checks = [
        Check.at_most("twin with networks, by plain", twin, TWIN),
        Check.at_most("training with networks, by plain", training, TRAINING),
        Check.at_least("two runs of the twin with networks, bit for bit", float(same), 1.0),
    ]
    return checks, {"twin": twin, "training": training, "bit_identical": same}


def write_random_twin(robot: RobotSpec, folder: Path) -> str:
    """Write a twin with two networks of full size and random weights; returns its path."""
    card: dict[str, object] = {"robot": robot.name, "joints": list(robot.joint_names)}
    first, both = str(folder / "first.yaml"), str(folder / "both.yaml")
    actuator, delta = random_actuator(robot).stored(card), _delta(robot).stored(card)
    store(first, load_twin_file("default", robot.name), "actuator", actuator, "random weights")
    store(both, load_twin_file(first, robot.name), "action", delta, "random weights")
    return both


def random_actuator(robot: RobotSpec) -> ActuatorWeights:
    rng = np.random.default_rng(0)
    kinds, kind = kinds_of(robot)
    count, inputs = len(kinds), 6
    return ActuatorWeights(
        inputs="torque",
        ages=(0.0, 0.010, 0.020),
        kind=kind,
        on=np.ones((robot.joint_count, 2)),
        bound=np.full((count, 2), 1.0),
        reach=np.full(count, 1e6),
        spread=_drawn(rng, count, 6, inputs),
        **_layers(rng, count, inputs, 32, 2),
    )


def _delta(robot: RobotSpec) -> delta_action.DeltaWeights:
    layers = _layers(np.random.default_rng(1), 3, 3 * robot.joint_count + 6, 64, robot.joint_count)
    return delta_action.DeltaWeights(every=0.02, bound=0.25, agreed=1e6, **layers)


def _layers(
    rng: np.random.Generator, count: int, inputs: int, hidden: int, outputs: int
) -> dict[str, Any]:
    """`count` networks of two hidden layers, with the mean of their inputs."""
    arrays = (
        _drawn(rng, count, inputs, hidden),
        _drawn(rng, count, hidden),
        _drawn(rng, count, hidden, hidden),
        _drawn(rng, count, hidden),
        SMALL * _drawn(rng, count, hidden, outputs),
        SMALL * _drawn(rng, count, outputs),
        _drawn(rng, count, inputs),
    )
    return dict(zip(delta_action.NAMES, arrays, strict=True))


def _drawn(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def _twin(robot: RobotSpec, with_nets: str) -> tuple[float, bool]:
    """Median cost of a wire period by that of the plain twin, in alternating blocks."""
    twins = [
        TwinRobot(robot, imperfections=load_imperfections(name, robot.name))
        for name in ("default", with_nets, with_nets)
    ]
    samples = trot(robot)
    for twin in twins:
        for k in range(WARM):
            twin.advance(samples[k % len(samples)])
    times = np.zeros((BLOCKS, 3))
    for block in range(BLOCKS):
        for number, twin in enumerate(twins):
            start = time.thread_time_ns()
            for k in range(BLOCK):
                twin.advance(samples[(block * BLOCK + k) % len(samples)])
            times[block, number] = time.thread_time_ns() - start
    plain, learned, _ = np.median(times, axis=0).tolist()
    same = bool((twins[1].data.qpos == twins[2].data.qpos).all())
    return learned / plain, same


def _training(robot: RobotSpec, with_nets: str) -> float:
    """Cost of environment steps, with observations and rewards, by that of the plain twin, measured
    alternately. Physics has its own thread, so the time of the process counts."""
    config = load_training("go2_walk")
    environments = [
        Environment(config.model_copy(update={"twin": name}), robot, 64, seed=0)
        for name in ("default", with_nets)
    ]
    action = np.zeros((64, robot.joint_count), np.float32)
    times = np.zeros((ROUNDS, 2))
    for turn in range(ROUNDS):
        for number, environment in enumerate(environments):
            start = time.process_time_ns()
            for _ in range(STEPS):
                environment.step(action)
            times[turn, number] = time.process_time_ns() - start
    plain, learned = np.median(times, axis=0).tolist()
    return float(learned / plain)
