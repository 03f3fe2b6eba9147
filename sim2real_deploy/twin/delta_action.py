"""Delta actions: a learned change of the joint targets with which the simulator reproduces
recordings of the robot. It is part of the simulator and never sent to a robot.

It is an ensemble: where its members disagree, the change fades to zero.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.compiled import compiled
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import NetworkFile
from sim2real_deploy.twin.networks import (
    Stored,
    Weights,
    check_joints,
    layer,
    read_network,
    softsign,
    squash,
)

Array = npt.NDArray[np.float64]

NAMES = ("w0", "b0", "w1", "b1", "w2", "b2", "mean")


@dataclass(frozen=True, slots=True)
class DeltaWeights:
    """The first axis is the ensemble member."""

    every: float  # s between two updates
    bound: float  # rad
    agreed: float  # rad rms of disagreement: full trust up to here, none at twice this
    w0: Weights
    b0: Weights
    w1: Weights
    b1: Weights
    w2: Weights
    b2: Weights
    mean: Weights

    def batch(self, inputs: Array) -> Array:
        """Changes of the targets for rows of inputs."""
        given = np.stack([self._member(number, inputs) for number in range(len(self.w0))])
        apart = np.sqrt(given.var(axis=0).mean(axis=1))
        fade = np.clip(2 - apart / self.agreed, 0, 1)
        return np.asarray(np.clip(given.mean(axis=0), -self.bound, self.bound) * fade[:, None])

    def _member(self, number: int, inputs: Array) -> Array:
        values = (inputs - self.mean[number]).astype(np.float32)
        hidden = softsign(values @ self.w0[number] + self.b0[number])
        hidden = softsign(hidden @ self.w1[number] + self.b1[number])
        return np.asarray(hidden @ self.w2[number] + self.b2[number], np.float64)

    def stored(self, card: dict[str, object]) -> Stored:
        arrays = {name: getattr(self, name) for name in NAMES}
        arrays["figures"] = np.array((self.every, self.bound, self.agreed))
        return Stored(arrays, card)


def load_delta(named: NetworkFile, robot: RobotSpec) -> DeltaWeights:
    stored = read_network(named)
    check_joints(stored, robot.joint_names, named.file)
    every, bound, agreed = stored["figures"].tolist()
    return DeltaWeights(every, bound, agreed, **{name: stored[name] for name in NAMES})


def features(q: Array, dq: Array, gyro: Array, gravity: Array, target: Array) -> Array:
    """Inputs of the network, one row per robot: only what every recording contains."""
    return np.concatenate((q, dq, gyro, gravity, target - q), axis=1)


class DeltaAction:
    """The ensemble in one twin, updated at the rate it was trained at."""

    def __init__(self, weights: DeltaWeights, period: float, offset: Array) -> None:
        """`offset` is the joints' encoder offset."""
        self._weights, self._offset = weights, offset
        self._periods = max(1, round(weights.every / period))
        self._age = 0
        hidden, joints = weights.b1.shape[1], weights.b2.shape[1]
        self._inputs = np.zeros(weights.w0.shape[1])
        self._space = np.zeros((3, max(hidden, len(self._inputs))), np.float32)
        self._given = np.zeros((len(weights.w0), joints), np.float32)
        self.delta = np.zeros(joints)

    def update(self, q: Any, dq: Any, gyro: Any, quaternion: Any, target: Any) -> None:
        """Call once per wire period."""
        if self._age == 0:
            w = self._weights
            _look(q, dq, gyro, quaternion, target, self._offset, self._inputs)
            net = (w.w0, w.b0, w.w1, w.b1, w.w2, w.b2, w.mean)
            _decide(self._inputs, net, w.bound, w.agreed, self._space, self._given, self.delta)
        self._age = (self._age + 1) % self._periods


@compiled
def _look(q: Any, dq: Any, gyro: Any, quaternion: Any, target: Any, offset: Any, to: Any) -> None:
    """Like `features`, for one robot with its attitude as a quaternion."""
    n = q.size
    w, x, y, z = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    for j in range(n):
        to[j], to[n + j], to[2 * n + 6 + j] = q[j], dq[j], target[j] - offset[j] - q[j]
    for i in range(3):
        to[2 * n + i] = gyro[i]
    to[2 * n + 3] = -2 * (x * z - w * y)
    to[2 * n + 4] = -2 * (y * z + w * x)
    to[2 * n + 5] = -(1 - 2 * (x * x + y * y))


@compiled
def _decide(
    inputs: Any, net: Any, bound: float, agreed: float, space: Any, given: Any, delta: Any
) -> None:
    w0, b0, w1, b1, w2, b2, mean = net
    members, joints = given.shape
    values = space[0, : inputs.size]
    first, second = space[1, : b0.shape[1]], space[2, : b1.shape[1]]
    for m in range(members):
        for i in range(inputs.size):
            values[i] = inputs[i] - mean[m, i]
        layer(values, w0[m], b0[m], first)
        squash(first)
        layer(first, w1[m], b1[m], second)
        squash(second)
        layer(second, w2[m], b2[m], given[m])
    apart = 0.0
    for j in range(joints):
        total = 0.0
        for m in range(members):
            total += given[m, j]
        delta[j] = total / members
        for m in range(members):
            apart += (given[m, j] - delta[j]) ** 2
    apart = np.sqrt(apart / (members * joints))
    fade = min(max(2.0 - apart / agreed, 0.0), 1.0)
    for j in range(joints):
        delta[j] = min(max(delta[j], -bound), bound) * fade
