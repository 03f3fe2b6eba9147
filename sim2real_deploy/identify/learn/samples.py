"""Rows to learn from: what the motors were asked, what they gave, and what the joints made of it.

Two torques say where the identified model falls short. The one that the boards report, against the
identified motor law: what the motor itself does differently. The one that moves the leg, by inverse
dynamics of a hung robot, against the first: what rubs behind the motor, which no board can feel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.dynamics import inverse_dynamics
from sim2real_deploy.identify.figures import JointFigures
from sim2real_deploy.identify.legs import GRAVITY, legs_model
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.identify.smoothing import slope, smooth
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.actuator_net import FORMATS

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

HALF = 3  # rows either side in the smoothing of what the law is evaluated on,
WIDE = 6  # and of accelerations
AGES = (0.0, 0.5, 1.0)  # rows by which the state in a torque may be older than the one beside it
MOVING = 0.06  # rad/s: slower, and dry friction points anywhere
CREEPING = 1.2  # times the speed below which the engine's dry friction is not full
ONE_WAY = 0.95  # of the rows that a smoothed reading is made of: near a reversal it mixes both ways
AIRBORNE = 5.0  # N: no foot feels more while the robot hangs
BLOCK_S = 1.0  # what is kept apart is kept apart in blocks of time
STEADY = 60  # rows before this one in which gains may not have changed


@dataclass(frozen=True, slots=True)
class Samples:
    """One recording, joint by joint (columns)."""

    name: str
    period: float
    torque: Array  # reported
    carried: Array  # the same, as smooth as what is known of the leg's motion
    ideal: Array  # of a perfect motor: the PD law, at once
    law: Array  # of the identified one
    channels: dict[str, Array]  # every input of FORMATS, by name
    needed: Array | None  # torque that moves the leg, on the joint; None: it does not hang
    rubbing: Array  # identified friction and damping
    dq: Array
    one_way: Flags  # joint by joint: it moves, and not near a reversal
    usable: Flags
    gains: npt.NDArray[np.int64]  # of each row: a number for its set of gains
    block: npt.NDArray[np.int64]  # of each row: a number for its block of time

    def inputs(self, form: str, lags: Rows, rows: Rows, joint: int) -> Array:
        """Rows x inputs, the newest first, in the order of the twin's network."""
        names = FORMATS[form]
        columns = [self.channels[name][rows - lag, joint] for lag in lags for name in names]
        return np.stack(columns, axis=1)


def make_samples(
    recordings: Sequence[Recording], figures: JointFigures, sets: "GainSets"
) -> list[Samples]:
    age = _best_age(recordings, figures)
    return [_of_recording(recording, figures, age, sets) for recording in recordings]


class GainSets:
    """Numbers for pairs of gains, in the order in which they appear."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def number(self, kp: Array, kd: Array) -> npt.NDArray[np.int64]:
        """Of each row, by the mean of all joints' gains."""
        pairs = np.round(np.stack((kp.mean(1), kd.mean(1)), axis=1), 3)
        found, which = np.unique(pairs, axis=0, return_inverse=True)
        names = [f"kp {p:g} kd {d:g}" for p, d in found]
        self.names += [name for name in names if name not in self.names]
        return np.array([self.names.index(name) for name in names])[which.ravel()]


def _of_recording(
    recording: Recording, figures: JointFigures, age: float, sets: GainSets
) -> Samples:
    q, dq = _read(recording, "q"), _read(recording, "dq")
    kp, kd = recording["kp"], recording["kd"]
    target, target_dq = recording["target_q"], recording["target_dq"]
    late = figures.delay / recording.period + 1  # rows: a torque is of the period before its row
    asked = _asked(recording, figures, q, dq, late, age)
    ideal = kp * (target - q) + kd * (target_dq - dq) + recording["feed_forward"]
    delayed = _delayed(target, late)
    gains = np.concatenate((kp, kd), axis=1)
    changed = np.concatenate(([True], np.abs(np.diff(gains, axis=0)).max(axis=1) > 1e-6))
    since = np.arange(len(q)) - np.maximum.accumulate(np.where(changed, np.arange(len(q)), 0))
    usable = recording.fresh & (kp.min(axis=1) > 0) & (since > STEADY)
    usable[-WIDE:] = False
    creep = creeping(recording.robot, figures)
    # As smooth as the readings that it is held against.
    way = smooth(np.clip(dq / creep, -1.0, 1.0), WIDE)
    return Samples(
        name=recording.name,
        period=recording.period,
        torque=recording["torque"],
        carried=smooth(recording["torque"], WIDE),
        ideal=ideal,
        law=_lagged(asked, figures.lag / recording.period),
        channels={
            "PD torque": asked,
            "speed": dq / figures.speed_gain,
            "position error": delayed - q,
            "target": delayed - figures.offset,
        },
        needed=_needed(recording, figures) if hangs(recording) else None,
        rubbing=figures.friction * way + figures.damping * dq / figures.speed_gain,
        dq=dq / figures.speed_gain,
        one_way=(np.abs(way) > ONE_WAY) & (np.abs(dq) > CREEPING * creep),
        usable=usable,
        gains=sets.number(kp, kd),
        block=(np.arange(len(q)) * recording.period / BLOCK_S).astype(np.int64),
    )


def creeping(robot: RobotSpec, figures: JointFigures) -> Array:
    """rad/s of each joint below which MuJoCo's dry friction, a soft constraint, is not full: there
    it brakes like a damper, and a higher friction would change nothing."""
    model = legs_model(robot, lags=False)
    model.dof_armature[:] = figures.armature
    mujoco.mj_setConst(model, mujoco.MjData(model))
    time_constant = np.maximum(model.dof_solref[:, 0], 2 * model.opt.timestep)
    pull = model.dof_solimp[:, 0] * 2 / (model.dof_solimp[:, 1] * time_constant)
    return np.asarray(np.maximum(figures.friction * model.dof_invweight0 / pull, MOVING))


def hangs(recording: Recording) -> bool:
    """Feet that feel nothing; a log without them is taken to hang."""
    if "foot_force" not in recording:
        return True
    return bool(np.percentile(recording["foot_force"].max(axis=1), 90) < AIRBORNE)


def _read(recording: Recording, name: str) -> Array:
    """Smoothed, repeated rows filled in: noise in a reading is not in the torque."""
    rows = np.arange(len(recording))
    known = rows[recording.fresh]
    filled = np.stack([np.interp(rows, known, c[known]) for c in recording[name].T], axis=1)
    return smooth(filled, HALF)


def _best_age(recordings: Sequence[Recording], figures: JointFigures) -> float:
    """Boards report a torque that may be up to a row older than the state beside it."""
    left = np.zeros(len(AGES))
    for recording in recordings:
        q, dq = _read(recording, "q"), _read(recording, "dq")
        late = figures.delay / recording.period + 1
        rows = recording.fresh.copy()
        rows[:STEADY] = False
        for k, age in enumerate(AGES):
            law = _lagged(
                _asked(recording, figures, q, dq, late, age), figures.lag / recording.period
            )
            left[k] += float(np.sum((recording["torque"] - law)[rows] ** 2))
    return AGES[int(np.argmin(left))]


def _asked(
    recording: Recording, figures: JointFigures, q: Array, dq: Array, late: Array, age: float
) -> Array:
    """The identified motor's torque before it lags, bounded as the motor is."""
    seen_q = (1 - age) * q + age * np.roll(q, 1, axis=0)
    seen_dq = (1 - age) * dq + age * np.roll(dq, 1, axis=0)
    kp, kd = _delayed(recording["kp"], late), _delayed(recording["kd"], late)
    pull = kp * (_delayed(recording["target_q"], late) - seen_q)
    brake = kd * (_delayed(recording["target_dq"], late) - seen_dq)
    torque = figures.strength * (pull + brake + _delayed(recording["feed_forward"], late))
    fed = np.where(kd > 0, figures.speed_feed * seen_dq / figures.speed_gain, 0.0)
    torque = torque + fed + np.where((kp > 0) | (kd > 0), figures.torque_bias, 0.0)
    limit = recording.robot.torque_limit.astype(np.float64)
    return np.clip(torque, -limit, limit)


def _delayed(values: Array, late: Array) -> Array:
    """Each column its own number of rows late, between two rows a mixture."""
    rows = np.arange(len(values))
    return np.stack(
        [np.interp(rows - wait, rows, column) for wait, column in zip(late, values.T, strict=True)],
        axis=1,
    )


def _lagged(values: Array, rows: Array) -> Array:
    if not rows.any():
        return values
    keep: Array = np.exp(-1 / np.maximum(rows, 1e-3))
    out: Array = values.copy()
    for row in range(1, len(out)):
        out[row] = keep * out[row - 1] + (1 - keep) * values[row]
    return out


def _needed(recording: Recording, figures: JointFigures) -> Array:
    """By inverse dynamics of the legs on a trunk that stands still, motors' rotors included."""
    model = legs_model(recording.robot, lags=False)
    model.dof_damping[:] = model.dof_frictionloss[:] = 0.0
    model.dof_armature[:] = figures.armature
    data = mujoco.MjData(model)
    speed = (recording["dq"] - figures.speed_offset) / figures.speed_gain
    q = smooth(recording["q"], WIDE) - figures.offset
    dq, ddq = smooth(speed, WIDE), slope(speed, recording.period, WIDE)
    model.opt.gravity[:] = 0.0
    moved = inverse_dynamics(model, data, q, dq, ddq)
    still = np.zeros_like(dq)
    weights = []
    for axis in range(3):
        model.opt.gravity[:] = np.eye(3)[axis]
        weights.append(inverse_dynamics(model, data, q, still, still))
    weight = np.stack(weights, axis=-1)
    return np.asarray(moved + weight @ _gravity(recording, figures, moved, weight, dq))


def _gravity(
    recording: Recording, figures: JointFigures, moved: Array, weight: Array, dq: Array
) -> Array:
    """In the trunk's axes: from the IMU, or, without one, what balances the torques best."""
    if "quaternion" in recording:
        w, x, y, z = np.median(recording["quaternion"], axis=0)
        if 0.9 < w * w + x * x + y * y + z * z < 1.1:
            up = (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y))
            return np.asarray(-GRAVITY * np.array(up))
    rubbing = figures.damping * dq + figures.friction * np.tanh(dq / MOVING)
    left = smooth(recording["torque"], WIDE) - moved - rubbing
    rows = recording.fresh
    found = np.linalg.lstsq(weight[rows].reshape(-1, 3), left[rows].ravel(), rcond=None)[0]
    return np.asarray(GRAVITY * found / max(float(np.linalg.norm(found)), 1e-6))


def joints_of_kind(robot: RobotSpec, kind: npt.NDArray[np.int64], number: int) -> list[int]:
    return [joint for joint in range(robot.joint_count) if kind[joint] == number]
