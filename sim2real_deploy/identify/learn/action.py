"""Learns delta actions: the change of the joint targets that lets the simulator do what the robot
did.

Along each window of a recording, and control step by control step, the smallest change is sought
with which the simulated joints land where the recorded ones did; then an ensemble of networks
learns that change from what a simulator knows: joints, speeds, rates, gravity, targets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.learn.mlp import fit_mlp
from sim2real_deploy.identify.learn.simulator import Motion, Simulator
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.delta_action import DeltaWeights, features

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Progress = Callable[[str, float], None]

CONTROL_S = 0.02  # how long a change holds
WINDOW = 15  # control steps that the search goes on from a recorded state
SKIPPED = 1  # first ones: a state that is made up settles
Q_SIGMA, DQ_SIGMA = 0.01, 0.6  # rad, rad/s: how well the simulator should land,
DELTA_SIGMA = 0.1  # rad: and how small a change should be
PROBE = 0.05  # rad, of the finite differences
BOUND = 0.25  # rad that any change may have
HIDDEN, MEMBERS, STEPS = 64, 3, 1500
INSIDE = 99.0  # percentile of the members' disagreement on the data that still counts as agreement


@dataclass(frozen=True, slots=True)
class Deltas:
    """Inputs of the network, and the change that was found for them."""

    inputs: Array
    deltas: Array


def windows(motion: Motion, rate_hz: float, steps: int, first: int = 0) -> Rows:
    """Rows in which windows of so many control steps begin, one after the other."""
    rows = round(CONTROL_S * rate_hz)
    return np.arange(max(first, 50), len(motion) - steps * rows - 1, steps * rows)


def search(simulator: Simulator, motion: Motion, starts: Rows, steps: int = WINDOW) -> Deltas:
    """The smallest changes that keep the simulator on the recording."""
    rows = round(CONTROL_S * simulator.robot.wire.rate_hz)
    joints = simulator.robot.joint_count
    states, at = simulator.start(motion, starts), starts.copy()
    nothing = np.zeros((len(starts), joints))
    inputs, deltas = [], []
    for step in range(steps):
        seen = simulator_inputs(simulator, states, motion.target[at])
        plain = _landed(simulator, simulator.advance(states, motion, at, rows, nothing, trial=True))
        wanted = np.stack((motion.q[at + rows], motion.dq[at + rows]))
        columns = []
        for kind in range(3):  # the same joint of every leg at a time
            probe = nothing.copy()
            probe[:, kind::3] = PROBE
            moved = _landed(
                simulator, simulator.advance(states, motion, at, rows, probe, trial=True)
            )
            columns.append((moved - plain) / PROBE)
        delta = _smallest(np.stack(columns, -1), wanted - plain)
        states = simulator.advance(states, motion, at, rows, delta)
        at = at + rows
        if step >= SKIPPED:
            inputs.append(seen)
            deltas.append(delta)
    return Deltas(np.concatenate(inputs), np.concatenate(deltas))


def simulator_inputs(simulator: Simulator, states: Array, target: Array) -> Array:
    return features(
        states[:, simulator.q],
        states[:, simulator.dq],
        states[:, simulator.turning],
        simulator.gravity(states),
        target,
    )


def _landed(simulator: Simulator, states: Array) -> Array:
    return np.stack((states[:, simulator.q], states[:, simulator.dq]))


def _smallest(slopes: Array, missing: Array) -> Array:
    """Ridge regression, leg by leg: slopes is (q, dq) x windows x joints x 3."""
    sigma = np.array((Q_SIGMA, DQ_SIGMA))[:, None, None]
    _, count, joints, _ = slopes.shape
    legs = joints // 3
    a = (slopes / sigma[..., None]).reshape(2, count, legs, 3, 3)
    b = (missing / sigma).reshape(2, count, legs, 3)
    a = a.transpose(1, 2, 0, 3, 4).reshape(count, legs, 6, 3)
    b = b.transpose(1, 2, 0, 3).reshape(count, legs, 6, 1)
    square = a.swapaxes(-1, -2) @ a + np.eye(3) / DELTA_SIGMA**2
    found = np.linalg.solve(square, a.swapaxes(-1, -2) @ b)[..., 0]
    return np.clip(found.reshape(count, joints), -BOUND, BOUND)


def fit_deltas(robot: RobotSpec, parts: Sequence[Deltas], progress: Progress) -> DeltaWeights:
    inputs = np.concatenate([part.inputs for part in parts])
    deltas = np.concatenate([part.deltas for part in parts])
    members = []
    for member in range(MEMBERS):
        progress("fitting", member / MEMBERS)
        drawn = np.random.default_rng(100 + member).integers(0, len(inputs), len(inputs))
        weights = np.ones_like(deltas)
        members.append(
            fit_mlp(inputs[drawn], deltas[drawn], weights, hidden=HIDDEN, steps=STEPS, seed=member)
        )
    names = ("w0", "b0", "w1", "b1", "w2", "b2")
    stacked = {name: np.stack([net.layers[k] for net in members]) for k, name in enumerate(names)}
    mean = np.stack([net.mean for net in members])
    given = np.stack([net(inputs) for net in members])
    apart = np.sqrt(given.var(axis=0).mean(axis=1))
    return DeltaWeights(
        every=CONTROL_S,
        bound=BOUND,
        agreed=float(np.percentile(apart, INSIDE)),
        mean=mean,
        **stacked,
    )


def replay_error(
    simulator: Simulator,
    motion: Motion,
    starts: Rows,
    seconds: float,
    network: DeltaWeights | None,
) -> Array:
    """Joints of the simulator less the recorded ones at the end: windows x joints."""
    rows = round(CONTROL_S * simulator.robot.wire.rate_hz)
    states, at = simulator.start(motion, starts), starts.copy()
    for _ in range(round(seconds / CONTROL_S)):
        delta = np.zeros((len(starts), simulator.robot.joint_count))
        if network is not None:
            delta = network.batch(simulator_inputs(simulator, states, motion.target[at]))
        states = simulator.advance(states, motion, at, rows, delta)
        at = at + rows
    return np.asarray(states[:, simulator.q] - motion.q[at])
