"""What the identified motor leaves over, as a network learnt it: a torque, and dry friction.

One network for each kind of joint (hip, thigh, calf). It sees the PD torque and the speed of its
joint now and a little earlier, in seconds and not in rows: neither the rate nor the gains are an
input. What it gives is bounded, and fades to nothing outside the data it was fitted to. Extra
friction goes through the physics engine's own dry friction, which is stable at standstill.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import NetworkFile
from sim2real_deploy.twin.kernels import Array, compiled
from sim2real_deploy.twin.networks import Stored, check_joints, fading, layer, read_network, squash

Vector = npt.NDArray[np.float64]

TORQUE, FRICTION = 0, 1  # the network's outputs
WEIGHTS = ("w0", "b0", "w1", "b1", "w2", "b2", "spread", "mean")
FORMATS = {
    "torque": ("PD torque", "speed"),
    "history": ("position error", "speed", "target"),
}


@dataclass(frozen=True, slots=True)
class ActuatorWeights:
    """Of all kinds of joints, which are the first axis. Inputs are centred by `mean`; their scale
    is within `w0` and `spread`, that of the outputs within `w2`."""

    inputs: str  # one of FORMATS
    ages: tuple[float, ...]  # s before now, the newest first
    kind: npt.NDArray[np.int64]  # of each joint
    on: Vector  # joints x outputs: 1 where held-out data says that it helps, else 0
    bound: Vector  # kinds x outputs, Nm
    reach: Vector  # kinds
    w0: npt.NDArray[np.float32]
    b0: npt.NDArray[np.float32]
    w1: npt.NDArray[np.float32]
    b1: npt.NDArray[np.float32]
    w2: npt.NDArray[np.float32]
    b2: npt.NDArray[np.float32]
    spread: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32]

    def rows(self, period: float) -> npt.NDArray[np.int64]:
        return np.rint(np.array(self.ages) / period).astype(np.int64)

    def stored(self, card: dict[str, object]) -> Stored:
        arrays = {name: getattr(self, name) for name in (*WEIGHTS, "kind", "on", "bound", "reach")}
        arrays["ages"] = np.array(self.ages)
        return Stored(arrays, card | {"inputs": self.inputs})

    def batch(self, kind: int, inputs: Vector) -> Vector:
        """Outputs for rows of inputs to one kind's network, faded and bounded: rows x outputs."""
        values = (inputs - self.mean[kind]).astype(np.float32)
        hidden = _softsign(values @ self.w0[kind] + self.b0[kind])
        hidden = _softsign(hidden @ self.w1[kind] + self.b1[kind])
        out = hidden @ self.w2[kind] + self.b2[kind]
        along = values @ self.spread[kind].T
        fade = np.clip(2 - np.sqrt((along * along).sum(1)) / self.reach[kind], 0, 1)
        bounded = np.clip(out, -self.bound[kind], self.bound[kind])
        return np.asarray(bounded * fade[:, None], np.float64)


def load_actuator(named: NetworkFile, robot: RobotSpec) -> ActuatorWeights:
    stored = read_network(named)
    check_joints(stored, robot.joint_names, named.file)
    rest = {name: stored[name] for name in (*WEIGHTS, "kind", "on", "bound", "reach")}
    ages = tuple(stored["ages"].tolist())
    return ActuatorWeights(inputs=str(stored.card["inputs"]), ages=ages, **rest)


def kinds_of(robot: RobotSpec) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Joints that differ in their leg alone are of one kind: FR_calf_joint, RL_calf_joint ..."""
    names = [name.partition("_")[2] for name in robot.joint_names]
    kinds = tuple(dict.fromkeys(names))
    return kinds, np.array([kinds.index(name) for name in names], np.int64)


class ActuatorNet:
    """In one twin: its memory of the last periods, and what it gives in this one."""

    def __init__(self, weights: ActuatorWeights, period: float) -> None:
        joints, hidden = len(weights.kind), weights.b1.shape[1]
        self._weights = weights
        self._rows = weights.rows(period)
        channels = len(FORMATS[weights.inputs])
        self._ring = np.zeros((int(self._rows.max()) + 1, channels, joints))
        self._newest = -1  # nothing seen yet
        self._space = np.zeros((3, max(hidden, self._rows.size * channels)), np.float32)
        self.torque = np.zeros(joints)
        self.friction = np.zeros(joints)

    def update(
        self, told: Array, gains: Array, feed_forward: Array, q: Array, dq: Array, bounds: Array
    ) -> None:
        """Once in a wire period. `told` and `gains` are what the motors follow in it."""
        w = self._weights
        if self._newest < 0:  # as if the joint had been like this before
            _see(told, gains, feed_forward, q, dq, bounds, self._ring[0])
            self._ring[:] = self._ring[0]
        self._newest = (self._newest + 1) % len(self._ring)
        _see(told, gains, feed_forward, q, dq, bounds, self._ring[self._newest])
        _infer(
            self._ring,
            self._newest,
            self._rows,
            w.kind,
            (w.w0, w.b0, w.w1, w.b1, w.w2, w.b2),
            (w.mean, w.spread, w.reach),
            w.bound,
            w.on,
            self._space,
            self.torque,
            self.friction,
        )


@compiled
def _see(
    told: Array, gains: Array, feed_forward: Array, q: Array, dq: Array, bounds: Array, to: Array
) -> None:
    """This period's inputs: two channels are PD torque and speed, three are the history's."""
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
    weights: Array,
    domain: Array,
    bound: Array,
    on: Array,
    space: Array,
    torque: Array,
    friction: Array,
) -> None:
    w0, b0, w1, b1, w2, b2 = weights
    mean, spread, reach = domain
    channels, hidden = ring.shape[1], b1.shape[1]
    size = rows.size * channels
    for j in range(kind.size):
        torque[j] = friction[j] = 0.0
        if on[j, 0] == 0.0 and on[j, 1] == 0.0:
            continue
        k = kind[j]
        inputs, first, second = space[0, :size], space[1, :hidden], space[2, :hidden]
        for r in range(rows.size):
            at = (newest - rows[r]) % ring.shape[0]
            for c in range(channels):
                inputs[r * channels + c] = ring[at, c, j] - mean[k, r * channels + c]
        fade = fading(inputs, spread[k], reach[k])
        if fade == 0.0:
            continue
        layer(inputs, w0[k], b0[k], first)
        squash(first)
        layer(first, w1[k], b1[k], second)
        squash(second)
        for out in range(2):
            total = b2[k, out]
            for h in range(hidden):
                total += second[h] * w2[k, h, out]
            value = min(max(total, -bound[k, out]), bound[k, out]) * fade * on[j, out]
            if out == 0:
                torque[j] = value
            else:
                friction[j] = value


def _softsign(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.asarray(values / (1 + np.abs(values)), np.float32)
