"""Rows to learn from: commanded torque, reported torque, and the torque that moves the leg.

Two differences show where the identified model falls short. Reported torque minus the identified
motor law is what the motor does differently. Reported torque minus the torque that moves a hung leg
(inverse dynamics) is friction behind the motor, which no board can measure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.board_gains import obeyed
from sim2real_deploy.identify.dynamics import inverse_dynamics
from sim2real_deploy.identify.figures import JointFigures
from sim2real_deploy.identify.legs import GRAVITY, legs_model
from sim2real_deploy.identify.motor_law import speed_reading
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.identify.smoothing import slope, smooth
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.actuator_net import FORMATS

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

HALF = 3  # rows on either side when smoothing the inputs of the law,
WIDE = 6  # and accelerations
AGES = (0.0, 0.5, 1.0)  # rows by which a torque may belong to an older state than its row's
MOVING = 0.06  # rad/s: at lower speeds the direction of dry friction is uncertain
CREEPING = 1.2  # times the speed at which MuJoCo's dry friction reaches its full value
ONE_WAY = 0.95  # least share of one direction among the rows of a smoothed reading
BLOCK_S = 1.0  # data are split by blocks of time
STEADY = 60  # rows of unchanged gains before a usable row


@dataclass(frozen=True, slots=True)
class Samples:
    """One recording; columns are joints."""

    name: str
    period: float
    torque: Array  # reported
    carried: Array  # reported, smoothed like the leg's motion
    ideal: Array  # of a perfect motor: the PD law without delay
    law: Array  # of the identified motor
    channels: dict[str, Array]  # every input of FORMATS, by name
    needed: Array | None  # joint torque that moves the leg; None unless the robot hangs
    rubbing: Array  # identified friction and damping
    dq: Array
    one_way: Flags  # whether a joint moves and is not near a reversal
    usable: Flags
    gains: npt.NDArray[np.int64]  # number of each row's set of gains
    block: npt.NDArray[np.int64]  # number of each row's block of time

    def inputs(self, form: str, lags: Rows, rows: Rows, joint: int) -> Array:
        """Rows x inputs, the newest first, in the order of the twin's network."""
        names = FORMATS[form]
        columns = [self.channels[name][rows - lag, joint] for lag in lags for name in names]
        return np.stack(columns, axis=1)


def make_samples(
    recordings: Sequence[Recording], figures: JointFigures, sets: "GainSets"
) -> list[Samples]:
    joints = figures.strength.size
    gains = [sets.number(recording["kp"], recording["kd"]) for recording in recordings]  # as sent
    recordings = [obeyed(recording, figures.gain_step) for recording in recordings]
    reading = np.array([speed_reading(recordings, joint) for joint in range(joints)])
    figures = figures.with_(speed_reading=reading)
    age = _best_age(recordings, figures)
    return [
        _of_recording(recording, figures, age, number)
        for recording, number in zip(recordings, gains, strict=True)
    ]


class GainSets:
    """Numbers pairs of gains in the order in which they appear."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def number(self, kp: Array, kd: Array) -> npt.NDArray[np.int64]:
        """For each row, by the mean of all joints' gains."""
        pairs = np.round(np.stack((kp.mean(1), kd.mean(1)), axis=1), 3)
        found, which = np.unique(pairs, axis=0, return_inverse=True)
        names = [f"kp {p:g} kd {d:g}" for p, d in found]
        self.names += [name for name in names if name not in self.names]
        return np.array([self.names.index(name) for name in names])[which.ravel()]


def _of_recording(
    recording: Recording,
    figures: JointFigures,
    age: float,
    numbers: npt.NDArray[np.int64],
) -> Samples:
    q, dq = _read(recording, "q"), _read(recording, "dq")
    speed = (dq - figures.speed_offset) / figures.speed_reading
    kp, kd = recording["kp"], recording["kd"]
    target, target_dq = recording["target_q"], recording["target_dq"]
    late = figures.delay / recording.period + 1  # rows: a torque belongs to the period before
    asked = _asked(recording, figures, q, dq, late, age)
    ideal = kp * (target - q) + kd * (target_dq - dq) + recording["feed_forward"]
    delayed = _delayed(target, late)
    gains = np.concatenate((kp, kd), axis=1)
    changed = np.concatenate(([True], np.abs(np.diff(gains, axis=0)).max(axis=1) > 1e-6))
    since = np.arange(len(q)) - np.maximum.accumulate(np.where(changed, np.arange(len(q)), 0))
    usable = recording.fresh & (kp.min(axis=1) > 0) & (since > STEADY)
    usable[-WIDE:] = False
    creep = creeping(recording.robot, figures)
    # Smoothed like the readings it is compared with.
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
            "speed": speed,
            "position error": delayed - q,
            "target": delayed - figures.offset,
        },
        needed=_needed(recording, figures) if recording.hangs else None,
        rubbing=figures.friction * way + figures.damping * speed,
        dq=speed,
        one_way=(np.abs(way) > ONE_WAY) & (np.abs(dq) > CREEPING * creep),
        usable=usable,
        gains=numbers,
        block=(np.arange(len(q)) * recording.period / BLOCK_S).astype(np.int64),
    )


def creeping(robot: RobotSpec, figures: JointFigures) -> Array:
    """Speed of each joint (rad/s) below which MuJoCo's dry friction, a soft constraint, acts like a
    damper: a higher friction would change nothing there."""
    model = legs_model(robot, lags=False)
    model.dof_armature[:] = figures.armature
    mujoco.mj_setConst(model, mujoco.MjData(model))
    time_constant = np.maximum(model.dof_solref[:, 0], 2 * model.opt.timestep)
    pull = model.dof_solimp[:, 0] * 2 / (model.dof_solimp[:, 1] * time_constant)
    return np.asarray(np.maximum(figures.friction * model.dof_invweight0 / pull, MOVING))


def _read(recording: Recording, name: str) -> Array:
    """Smoothed, with repeated rows interpolated."""
    rows = np.arange(len(recording))
    known = rows[recording.fresh]
    filled = np.stack([np.interp(rows, known, c[known]) for c in recording[name].T], axis=1)
    return smooth(filled, HALF)


def _best_age(recordings: Sequence[Recording], figures: JointFigures) -> float:
    """The age that fits best: a reported torque may be up to a row older than its state."""
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
    """Torque of the identified motor before its lag, within its limits."""
    seen_q = (1 - age) * q + age * np.roll(q, 1, axis=0)
    seen_dq = (1 - age) * dq + age * np.roll(dq, 1, axis=0)
    kp, kd = _delayed(recording["kp"], late), _delayed(recording["kd"], late)
    pull = kp * (_delayed(recording["target_q"], late) - seen_q)
    speed = (seen_dq - figures.speed_offset) / figures.speed_reading
    board = figures.speed_gain * speed + figures.speed_offset
    brake = kd * (_delayed(recording["target_dq"], late) - board)
    torque = figures.strength * (pull + brake + _delayed(recording["feed_forward"], late))
    fed = np.where(kd > 0, figures.speed_feed * speed, 0.0)
    torque = torque + fed + np.where((kp > 0) | (kd > 0), figures.torque_bias, 0.0)
    limit = recording.robot.torque_limit.astype(np.float64)
    return np.clip(torque, -limit, limit)


def _delayed(values: Array, late: Array) -> Array:
    """Each column delayed by its own number of rows, interpolated."""
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
    """The torque that moves the legs, by inverse dynamics on a fixed trunk, rotors included."""
    model = legs_model(recording.robot, lags=False)
    model.dof_damping[:] = model.dof_frictionloss[:] = 0.0
    model.dof_armature[:] = figures.armature
    data = mujoco.MjData(model)
    speed = (recording["dq"] - figures.speed_offset) / figures.speed_reading
    q = smooth(recording["q"], WIDE) - figures.offset
    dq, ddq = smooth(speed, WIDE), slope(speed, recording.period, WIDE)
    model.opt.gravity[:] = 0.0
    moved = inverse_dynamics(model, data, q, dq, ddq)
    still, weights = np.zeros_like(dq), []
    for axis in np.eye(3):
        model.opt.gravity[:] = axis
        weights.append(inverse_dynamics(model, data, q, still, still))
    weight = np.stack(weights, axis=-1)
    return np.asarray(moved + weight @ _gravity(recording, figures, moved, weight, dq))


def _gravity(
    recording: Recording, figures: JointFigures, moved: Array, weight: Array, dq: Array
) -> Array:
    """In the trunk's axes: from the IMU or, without one, the best fit to the torques."""
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
