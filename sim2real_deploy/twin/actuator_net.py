"""A learned residual of the identified motor model: additional torque and dry friction.

One network per kind of joint (hip, thigh, calf). Its inputs are the joint's PD torque and velocity
now and at fixed earlier times (s), so it depends neither on the rate nor on the gains. Its outputs
are bounded and fade to zero outside the training data. Extra friction uses the physics engine's own
dry friction, which is stable at standstill.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.compiled import compiled
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import NetworkFile
from sim2real_deploy.twin.kernels import Array
from sim2real_deploy.twin.networks import (
    Stored,
    Weights,
    check_joints,
    fading,
    layer,
    read_network,
    softsign,
    squash,
)

Vector = npt.NDArray[np.float64]

TORQUE, FRICTION = 0, 1  # the network's outputs
ARRAYS = (
    *("w0", "b0", "w1", "b1", "w2", "b2", "spread", "mean"),
    *("kind", "on", "bound", "reach"),
)
FORMATS = {
    "torque": ("PD torque", "speed"),
    "history": ("position error", "speed", "target"),
}


@dataclass(frozen=True, slots=True)
class ActuatorWeights:
    """Weights of all networks, one per kind of joint (the first axis). Inputs are centred by
    `mean`; `w0` and `spread` include the scale of the inputs, `w2` that of the outputs."""

    inputs: str  # one of FORMATS
    ages: tuple[float, ...]  # s before now, newest first
    kind: npt.NDArray[np.int64]  # of each joint
    on: Vector  # joints x outputs: 1 where it helps on held-out data, else 0
    bound: Vector  # kinds x outputs, Nm
    reach: Vector  # kinds
    w0: Weights
    b0: Weights
    w1: Weights
    b1: Weights
    w2: Weights
    b2: Weights
    spread: Weights
    mean: Weights

    def rows(self, period: float) -> npt.NDArray[np.int64]:
        return np.rint(np.array(self.ages) / period).astype(np.int64)

    def packed(self) -> npt.NDArray[np.float32]:
        """The kernel's parameters, one row per kind: passing many arrays would cost time."""
        rows = []
        for k in range(len(self.reach)):
            parts = [getattr(self, name)[k] for name in ("w0", "b0", "w1", "b1")]
            parts += [self.w2[k].T, self.b2[k], self.mean[k], self.reach[k : k + 1], self.spread[k]]
            rows.append(np.concatenate([np.ravel(part) for part in parts]))
        return np.ascontiguousarray(rows, np.float32)

    def stored(self, card: dict[str, object]) -> Stored:
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays["ages"] = np.array(self.ages)
        return Stored(arrays, card | {"inputs": self.inputs})

    def batch(self, kind: int, inputs: Vector) -> Vector:
        """Outputs of one kind's network for rows of inputs, faded and bounded: rows x outputs."""
        values = (inputs - self.mean[kind]).astype(np.float32)
        hidden = softsign(values @ self.w0[kind] + self.b0[kind])
        hidden = softsign(hidden @ self.w1[kind] + self.b1[kind])
        out = hidden @ self.w2[kind] + self.b2[kind]
        along = values @ self.spread[kind].T
        fade = np.clip(3 - 2 * np.sqrt((along * along).sum(1)) / self.reach[kind], 0, 1)
        bounded = np.clip(out, -self.bound[kind], self.bound[kind])
        return np.asarray(bounded * fade[:, None], np.float64)


def load_actuator(named: NetworkFile, robot: RobotSpec) -> ActuatorWeights:
    stored = read_network(named)
    check_joints(stored, robot.joint_names, named.file)
    rest = {name: stored[name] for name in ARRAYS}
    ages = tuple(stored["ages"].tolist())
    return ActuatorWeights(inputs=str(stored.card["inputs"]), ages=ages, **rest)


def kinds_of(robot: RobotSpec) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Joints that differ only in their leg are of one kind: FR_calf_joint, RL_calf_joint ..."""
    names = [name.partition("_")[2] for name in robot.joint_names]
    kinds = tuple(dict.fromkeys(names))
    return kinds, np.array([kinds.index(name) for name in names], np.int64)


class ActuatorNet:
    """The networks for several robots at once (in a twin: one), with each one's history and present
    outputs."""

    def __init__(self, weights: ActuatorWeights, period: float, robots: int = 1) -> None:
        joints = len(weights.kind)
        rows = weights.rows(period)
        most = weights.on * weights.bound[weights.kind]  # zero where it is not on
        channels, hidden = len(FORMATS[weights.inputs]), weights.b1.shape[1]
        self._ring = np.zeros((robots, int(rows.max()) + 1, channels, joints))
        self._newest = 0
        self._fresh = np.ones(robots, np.bool_)  # history is empty
        space = np.zeros((3, max(hidden, rows.size * channels)), np.float32)
        self._network = (rows, weights.kind, weights.packed(), hidden, most, space)
        self.given = np.zeros((robots, 2, joints))
        self.torque, self.friction = self.given[:, TORQUE], self.given[:, FRICTION]

    def forget(self, robot: int) -> None:
        """Clear a robot's history, after it was reset."""
        self._fresh[robot] = True

    def update(
        self, told: Array, gains: Array, feed_forward: Array, q: Array, dq: Array, bounds: Array
    ) -> None:
        """Call once per period; the first axis is the robot. `told` and `gains` are the motors'
        targets and gains in this period."""
        self._newest = (self._newest + 1) % self._ring.shape[1]
        now = (told, gains, feed_forward, q, dq, bounds)
        _update(*now, self._ring, self._fresh, self._newest, *self._network, self.given)


@compiled
def _update(
    told: Array,
    gains: Array,
    feed_forward: Array,
    q: Array,
    dq: Array,
    bounds: Array,
    ring: Array,
    fresh: Array,
    newest: int,
    rows: Array,
    kind: Array,
    packed: Array,
    hidden: int,
    most: Array,
    space: Array,
    given: Array,
) -> None:
    for r in range(fresh.size):
        now = ring[r, newest]
        _see(told[r], gains[r], feed_forward[r], q[r], dq[r], bounds[r], now)
        if fresh[r]:  # fill the history with the present
            ring[r, :] = now
            fresh[r] = False
        _infer(ring[r], newest, rows, kind, packed, hidden, most, space, given[r])


@compiled
def _see(
    told: Array, gains: Array, feed_forward: Array, q: Array, dq: Array, bounds: Array, to: Array
) -> None:
    """Write this period's channels: PD torque and velocity; or error, velocity and target."""
    for j in range(q.size):
        error = told[j, 0] - q[j]
        if to.shape[0] == 2:
            asked = gains[0, j] * error + gains[1, j] * (told[j, 1] - dq[j]) + feed_forward[j]
            to[0, j] = min(max(asked, bounds[j, 0]), bounds[j, 1])
            to[1, j] = dq[j]
        else:
            to[0, j], to[1, j], to[2, j] = error, dq[j], told[j, 0]


@compiled
def _infer(
    ring: Array,
    newest: int,
    rows: Array,
    kind: Array,
    packed: Array,
    hidden: int,
    most: Array,
    space: Array,
    given: Array,
) -> None:
    """Run one robot's joints through their networks; `packed` is `ActuatorWeights.packed`."""
    channels = ring.shape[1]
    size = rows.size * channels
    inputs, first, second = space[0, :size], space[1, :hidden], space[2, :hidden]
    for j in range(kind.size):
        given[0, j] = given[1, j] = 0.0
        if most[j, 0] == 0.0 and most[j, 1] == 0.0:
            continue
        own, at = packed[kind[j]], 0
        w0 = own[at : at + size * hidden].reshape((size, hidden))
        at += size * hidden
        b0 = own[at : at + hidden]
        at += hidden
        w1 = own[at : at + hidden * hidden].reshape((hidden, hidden))
        at += hidden * hidden
        b1 = own[at : at + hidden]
        at += hidden
        w2 = own[at : at + 2 * hidden].reshape((2, hidden))
        at += 2 * hidden
        b2, at = own[at : at + 2], at + 2
        mean, at = own[at : at + size], at + size
        reach = own[at]
        spread = own[at + 1 :].reshape((-1, size))
        for r in range(rows.size):
            row = (newest - rows[r]) % ring.shape[0]
            for c in range(channels):
                inputs[r * channels + c] = ring[row, c, j] - mean[r * channels + c]
        fade = fading(inputs, spread, reach)
        if fade == 0.0:
            continue
        layer(inputs, w0, b0, first)
        squash(first)
        layer(first, w1, b1, second)
        squash(second)
        for out in range(2):
            total = b2[out]
            for h in range(hidden):
                total += second[h] * w2[out, h]
            given[out, j] = min(max(total, -most[j, out]), most[j, out]) * fade
