"""Learns delta actions: changes of the joint targets that make the simulator follow the robot.

In each control step of each window, it searches for the smallest change with which the simulated
joints end where the recorded ones did. An ensemble of networks then learns that change from joint
positions and velocities, the trunk's rates, gravity and targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.console import Progress
from sim2real_deploy.identify.learn.mlp import fit_mlp
from sim2real_deploy.identify.learn.simulator import Motion, Simulator
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.delta_action import DeltaWeights, features

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

CONTROL_S = 0.02  # duration of a change
WINDOW = 15  # control steps of the search from one recorded state
FIRST_ROW = 50  # of the first window: its smoothing and delays need earlier rows
SKIPPED = 1  # first control steps, in which the estimated initial state settles
Q_SIGMA, DQ_SIGMA = 0.01, 0.6  # rad, rad/s: weights of errors at the end of a step,
DELTA_SIGMA = 0.1  # rad: and of the change itself
PROBE = 0.05  # rad, for finite differences
BOUND = 0.25  # rad, largest change
HIDDEN, MEMBERS, STEPS = 64, 3, 1500
INSIDE = 99.0  # percentile of the disagreement on the data up to which members agree


@dataclass(frozen=True, slots=True)
class Deltas:
    """Inputs of the network and the changes found for them."""

    inputs: Array
    deltas: Array


def windows(motion: Motion, rate_hz: float, steps: int) -> Rows:
    """First rows of adjacent windows of `steps` control steps."""
    rows = round(CONTROL_S * rate_hz)
    return np.arange(FIRST_ROW, len(motion) - steps * rows - 1, steps * rows)


def search(simulator: Simulator, motion: Motion, starts: Rows) -> Deltas:
    """The smallest changes that keep the simulator on the recording."""
    rows = round(CONTROL_S * simulator.robot.wire.rate_hz)
    joints = simulator.robot.joint_count
    states, at = simulator.start(motion, starts), starts.copy()
    nothing = np.zeros((len(starts), joints))
    inputs, deltas = [], []
    for step in range(WINDOW):
        seen = simulator_inputs(simulator, states, motion.target[at])
        plain = _landed(simulator, simulator.advance(states, motion, at, rows, nothing, trial=True))
        wanted = np.stack((motion.q[at + rows], motion.dq[at + rows]))
        columns = []
        for kind in range(3):  # the same joint of every leg at once
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
    """Simulated minus recorded joint positions at the end: windows x joints."""
    rows = round(CONTROL_S * simulator.robot.wire.rate_hz)
    states, at = simulator.start(motion, starts), starts.copy()
    for _ in range(round(seconds / CONTROL_S)):
        delta = np.zeros((len(starts), simulator.robot.joint_count))
        if network is not None:
            delta = network.batch(simulator_inputs(simulator, states, motion.target[at]))
        states = simulator.advance(states, motion, at, rows, delta)
        at = at + rows
    return np.asarray(states[:, simulator.q] - motion.q[at])
