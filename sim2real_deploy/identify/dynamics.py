"""Stage B: rotor inertia, damping and friction by linear regression on inverse dynamics.

It is rough, because accelerations are noisy, but needs no initial values and takes a second;
stage C starts from its result. Afterwards the same torque balance shows what the identified model
leaves unexplained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.figures import BOUNDS, JointFigures
from sim2real_deploy.identify.legs import gravity, legs_model
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.identify.smoothing import slope, smooth
from sim2real_deploy.robots import RobotSpec

Array = npt.NDArray[np.float64]

MOVING = 0.15  # rad/s: at lower speeds the direction of dry friction is uncertain
HALF = 6  # rows on either side when smoothing accelerations
EVERY = 4  # rows: neighbours hold no new information
HUBER_ROUNDS = 4
LEG_JOINTS = 3
OFFSET_STEP = 0.01  # rad, for finite differences
OFFSET_RIDGE = 1e-6 * np.eye(4 * LEG_JOINTS)
OFFSET_DRAWS = 50
BLOCK_ROWS = 125  # one second of every fourth row
LEAST_BLOCKS = 8
LEAST_ROWS = 200  # in which a joint moves
CALM = 12.0  # rad/s^2: at higher accelerations smoothing errors outweigh an offset
LEAST_SHARE = 0.08  # of the residual: a term that explains less is not named
RIPPLE = range(4, 25)  # candidate periods of torque ripple per radian of phase


@dataclass(frozen=True, slots=True)
class Balance:
    """Rows of all recordings in which the joints move."""

    q: Array
    dq: Array
    ddq: Array
    torque: Array
    rigid: Array  # torque that moves and holds the legs' own mass
    by_offset: Array  # rows x 3 x joints: its derivative by the offsets of the leg's encoders


def balance(
    robot: RobotSpec, recordings: Sequence[Recording], attitudes: Array, figures: JointFigures
) -> Balance:
    model = legs_model(robot, lags=False)
    model.dof_armature[:] = model.dof_damping[:] = model.dof_frictionloss[:] = 0.0
    data = mujoco.MjData(model)
    parts = []
    for recording, (roll, pitch) in zip(recordings, attitudes, strict=True):
        model.opt.gravity[:] = gravity(roll, pitch)
        q = smooth(recording["q"], HALF) - figures.offset
        speed = (recording["dq"] - figures.speed_offset) / figures.speed_reading
        dq, ddq = smooth(speed, HALF), slope(speed, recording.period, HALF)
        torque = smooth(recording["torque"], HALF)
        rows = np.arange(HALF, len(q) - HALF, EVERY)
        rows = rows[recording.fresh[rows] & (recording["kp"][rows].min(axis=1) > 0)]
        motion = q[rows], dq[rows], ddq[rows]
        rigid = inverse_dynamics(model, data, *motion)
        by_offset = _by_offset(model, data, motion, rigid)
        parts.append((*motion, torque[rows], rigid, by_offset))
    return Balance(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def inverse_dynamics(model: Any, data: Any, q: Array, dq: Array, ddq: Array) -> Array:
    result = np.empty_like(q)
    for row in range(len(q)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[row], dq[row], ddq[row]
        mujoco.mj_inverse(model, data)
        result[row] = data.qfrc_inverse
    return result


def _by_offset(model: Any, data: Any, motion: tuple[Array, ...], rigid: Array) -> Array:
    """The derivative; a positive offset means that the true angle is smaller than the reading."""
    q, dq, ddq = motion
    kind = np.arange(q.shape[1]) % LEG_JOINTS
    moved = [
        inverse_dynamics(model, data, q - OFFSET_STEP * (kind == k), dq, ddq)
        for k in range(LEG_JOINTS)
    ]
    return np.stack([(m - rigid) / OFFSET_STEP for m in moved], axis=1)


def offsets(found: Balance) -> tuple[Array, Array]:
    """Encoder offsets and their standard deviations, from gravity.

    The torque balances of a leg's three joints share its three offsets; each has its own rotor
    inertia, damping and friction. The deviations come from a bootstrap over blocks.
    """
    joints = found.q.shape[1]
    best, sigma = np.zeros(joints), np.full(joints, np.inf)
    for first in range(0, joints, LEG_JOINTS):
        squares, sides = _leg_equations(found, first)
        count = len(squares)
        if count < LEAST_BLOCKS:
            continue

        def solve(weights: Array, squares: Array = squares, sides: Array = sides) -> Array:
            total = np.tensordot(weights, squares, 1)
            return np.asarray(np.linalg.solve(total + OFFSET_RIDGE, weights @ sides)[:LEG_JOINTS])

        leg = slice(first, first + LEG_JOINTS)
        best[leg] = solve(np.ones(count))
        rng = np.random.default_rng(0)
        drawn = rng.multinomial(count, np.full(count, 1 / count), OFFSET_DRAWS).astype(float)
        sigma[leg] = np.std([solve(weights) for weights in drawn], axis=0)
    return best, sigma


def _leg_equations(found: Balance, first: int) -> tuple[Array, Array]:
    """Normal equations of each block: three offsets, then inertia, damping, friction by joint."""
    size = 4 * LEG_JOINTS
    starts = range(0, len(found.q) - BLOCK_ROWS + 1, BLOCK_ROWS)
    squares, sides = np.zeros((len(starts), size, size)), np.zeros((len(starts), size))
    leg = slice(first, first + LEG_JOINTS)
    calm = np.abs(found.ddq[:, leg]).max(axis=1) < CALM
    for k in range(LEG_JOINTS):
        joint = first + k
        own = slice(LEG_JOINTS * (k + 1), LEG_JOINTS * (k + 2))
        dq = found.dq[:, joint]
        terms = np.zeros((len(dq), size))
        terms[:, :LEG_JOINTS] = found.by_offset[:, :, joint]
        terms[:, own] = np.column_stack((found.ddq[:, joint], dq, np.sign(dq)))
        left = found.torque[:, joint] - found.rigid[:, joint]
        moving = (np.abs(dq) > MOVING) & calm
        if moving.sum() < LEAST_ROWS:
            return squares[:0], sides[:0]
        columns = [*range(LEG_JOINTS), *range(own.start, own.stop)]
        solved = _robust(terms[moving][:, columns], left[moving])
        error = np.abs(left - terms[:, columns] @ solved)
        typical = 2 * float(np.median(error[moving]))
        weight = moving * np.minimum(1.0, typical / np.maximum(error, 1e-9)) / typical**2
        for number, start in enumerate(starts):
            rows = slice(start, start + BLOCK_ROWS)
            weighted = terms[rows] * weight[rows, None]
            squares[number] += weighted.T @ terms[rows]
            sides[number] += weighted.T @ left[rows]
    return squares, sides


def first_guess(found: Balance, figures: JointFigures) -> JointFigures:
    """Armature, damping and friction; joints that do not move keep theirs."""
    guessed = {name: getattr(figures, name).copy() for name in ("armature", "damping", "friction")}
    for joint in range(found.q.shape[1]):
        moving = np.abs(found.dq[:, joint]) > MOVING
        if moving.sum() < LEAST_ROWS:
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
    """Torque of one joint that the identified model does not explain, and what it resembles."""

    torque: float  # Nm rms
    share: float  # of the torque
    words: str  # empty if nothing stands out


def unexplained(found: Balance, figures: JointFigures, robot: RobotSpec) -> list[Unexplained]:
    return [_unexplained(found, figures, robot, joint) for joint in range(robot.joint_count)]


def _unexplained(
    found: Balance, figures: JointFigures, robot: RobotSpec, joint: int
) -> Unexplained:
    moving = np.abs(found.dq[:, joint]) > MOVING
    if moving.sum() < LEAST_ROWS:
        return Unexplained(0.0, 0.0, "")
    q, dq, ddq = (part[moving, joint] for part in (found.q, found.dq, found.ddq))
    torque = found.torque[moving, joint]
    own = np.column_stack((ddq, dq, np.sign(dq), np.ones(len(dq))))
    known = (figures.armature[joint], figures.damping[joint], figures.friction[joint], 0.0)
    left = torque - found.rigid[moving, joint] - own @ np.array(known)
    left = left - own @ np.linalg.lstsq(own, left, rcond=None)[0]
    total = float(left @ left)
    fading = np.exp(-((np.abs(dq) - MOVING) / 0.15))
    kinds = {
        "friction that grows with the load": (np.sign(dq) * np.abs(torque))[:, None],
        "friction that fades with speed (Stribeck)": (np.sign(dq) * fading)[:, None],
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
    """Springs that begin near the ends of the motion."""
    low, high = float(np.percentile(q, 5)), float(np.percentile(q, 95))
    return np.column_stack((np.maximum(low - q, 0.0), np.maximum(q - high, 0.0)))
