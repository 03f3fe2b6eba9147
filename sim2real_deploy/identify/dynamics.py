"""Stage B: rotor, bearing and friction by linear regression on inverse dynamics.

Rough, since accelerations are noisy, but it needs no start and takes a second: where stage C
begins. Afterwards the same balance of torques says what the identified model leaves unexplained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.figures import BOUNDS, Figures
from sim2real_deploy.identify.legs import gravity, legs_model
from sim2real_deploy.identify.recording import Recording, slope, smooth
from sim2real_deploy.robots import RobotSpec

Array = npt.NDArray[np.float64]

MOVING = 0.15  # rad/s: slower, and dry friction points anywhere
HALF = 6  # rows either side in the smoothing of accelerations
EVERY = 4  # rows: neighbours say the same
HUBER_ROUNDS = 4
LEAST_SHARE = 0.08  # of the residual that a term must explain to be named
RIPPLE = range(4, 25)  # periods in a turn of the joint that torque ripple is looked for


@dataclass(frozen=True, slots=True)
class Balance:
    """Rows of all recordings in which the joints move."""

    q: Array
    dq: Array
    ddq: Array
    torque: Array
    rigid: Array  # torque that the legs' own mass asks for


def balance(
    robot: RobotSpec, recordings: Sequence[Recording], attitudes: Array, figures: Figures
) -> Balance:
    model = legs_model(robot, lags=False)
    model.dof_armature[:] = model.dof_damping[:] = model.dof_frictionloss[:] = 0.0
    data = mujoco.MjData(model)
    parts = []
    for recording, (roll, pitch) in zip(recordings, attitudes, strict=True):
        model.opt.gravity[:] = gravity(roll, pitch)
        q = smooth(recording["q"], HALF) - figures.offset
        speed = recording["dq"] / figures.speed_gain
        dq, ddq = smooth(speed, HALF), slope(speed, recording.period, HALF)
        torque = smooth(recording["torque"], HALF)
        rows = np.arange(HALF, len(q) - HALF, EVERY)
        rows = rows[recording.fresh[rows] & (recording["kp"][rows].min(axis=1) > 0)]
        rigid = _rigid(model, data, q[rows], dq[rows], ddq[rows])
        parts.append((q[rows], dq[rows], ddq[rows], torque[rows], rigid))
    return Balance(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _rigid(model: Any, data: Any, q: Array, dq: Array, ddq: Array) -> Array:
    result = np.empty_like(q)
    for row in range(len(q)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[row], dq[row], ddq[row]
        mujoco.mj_inverse(model, data)
        result[row] = data.qfrc_inverse
    return result


def first_guess(found: Balance, figures: Figures) -> Figures:
    """Armature, damping and friction; joints that do not move keep theirs."""
    guessed = {name: getattr(figures, name).copy() for name in ("armature", "damping", "friction")}
    for joint in range(found.q.shape[1]):
        moving = np.abs(found.dq[:, joint]) > MOVING
        if moving.sum() < 200:
            continue
        dq, ddq = found.dq[moving, joint], found.ddq[moving, joint]
        terms = np.column_stack((ddq, dq, np.sign(dq), np.ones(len(dq))))
        left = found.torque[moving, joint] - found.rigid[moving, joint]
        solved = _robust(terms, left)
        for value, name in zip(solved[:3], guessed, strict=True):
            guessed[name][joint] = np.clip(value, *BOUNDS[name])
    return figures.with_(**guessed)


def _robust(terms: Array, left: Array) -> Array:
    weight = np.ones(len(left))
    for _ in range(HUBER_ROUNDS):
        root = np.sqrt(weight)[:, None]
        solved = np.linalg.lstsq(terms * root, left * root[:, 0], rcond=None)[0]
        error = np.abs(left - terms @ solved)
        weight = np.minimum(1.0, 2 * np.median(error) / np.maximum(error, 1e-9))
    return np.asarray(solved)


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Of one joint: torque that the identified model leaves over, and what it goes along with."""

    torque: float  # Nm rms
    share: float  # of the torque
    words: str  # "" where nothing stands out


def unexplained(found: Balance, figures: Figures, robot: RobotSpec) -> list[Unexplained]:
    return [_unexplained(found, figures, robot, joint) for joint in range(robot.joint_count)]


def _unexplained(found: Balance, figures: Figures, robot: RobotSpec, joint: int) -> Unexplained:
    moving = np.abs(found.dq[:, joint]) > MOVING
    if moving.sum() < 200:
        return Unexplained(0.0, 0.0, "")
    q, dq, ddq = (part[moving, joint] for part in (found.q, found.dq, found.ddq))
    torque = found.torque[moving, joint]
    own = np.column_stack((ddq, dq, np.sign(dq), np.ones(len(dq))))
    left = torque - found.rigid[moving, joint]
    left = left - own @ np.array(
        (figures.armature[joint], figures.damping[joint], figures.friction[joint], 0.0)
    )
    left = left - own @ np.linalg.lstsq(own, left, rcond=None)[0]
    total = float(left @ left)
    kinds = {
        "friction that grows with the load": np.sign(dq)[:, None] * np.abs(torque)[:, None],
        "friction that fades with speed (Stribeck)": (
            np.sign(dq) * np.exp(-((np.abs(dq) - MOVING) / 0.15))
        )[:, None],
        "a stop that is softer or nearer than the model's": _near_stops(q, robot, joint),
    }
    for periods in RIPPLE:
        phase = periods * q
        key = f"torque ripple, {periods} times a turn"
        kinds[key] = np.column_stack((np.sin(phase), np.cos(phase)))
    shares = {}
    for words, terms in kinds.items():
        new = terms - own @ np.linalg.lstsq(own, terms, rcond=None)[0]
        solved = np.linalg.lstsq(new, left, rcond=None)[0]
        shares[words] = float(left @ (new @ solved)) / max(total, 1e-12)
    best = max(shares, key=lambda words: shares[words])
    rms = float(np.sqrt(total / len(left)))
    share = rms / max(float(torque.std()), 1e-9)
    told = f"{best} ({100 * shares[best]:.0f} % of it)" if shares[best] > LEAST_SHARE else ""
    return Unexplained(rms, share, told)


def _near_stops(q: Array, robot: RobotSpec, joint: int) -> Array:
    """Springs that begin somewhere inside the joint's range."""
    low, high = float(np.percentile(q, 5)), float(np.percentile(q, 95))
    return np.column_stack((np.maximum(low - q, 0.0), np.maximum(q - high, 0.0)))
