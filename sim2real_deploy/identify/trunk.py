"""Stage D: mass and centre of mass of the trunk, from a robot that stands or walks.

A leg's torques give the force of its foot on the ground, whatever the trunk is; all feet together
carry the trunk at its centre of mass. Mass and first moments are linear in that balance. The IMU
gives attitude and specific force. Every signal is smoothed in the same way, and accelerations are
slopes of smoothed velocities; otherwise smoothing would look like a lower centre of mass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.figures import JointFigures
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.identify.smoothing import smooth
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import BASE, IMU_SITE, build_spec

Array = npt.NDArray[np.float64]

EVERY = 5
HALF = 8
BLOCK_S = 1.0
DRAWS = 200
SLIDING = 0.05  # rad/s over which dry friction changes sign
UNKNOWNS = 7  # mass, three first moments, and a friction error for each kind of joint
LEAST_S = 4.0  # of standing or walking that is needed


@dataclass(frozen=True, slots=True)
class TrunkFinding:
    mass: float  # kg more than the model's
    mass_interval: tuple[float, float]
    com: Array  # m, shift from the model's
    com_interval: Array  # 3 x 2


def identify_trunk(
    robot: RobotSpec, recordings: Sequence[Recording], figures: JointFigures
) -> TrunkFinding | None:
    """None if no recording is on the ground for long enough."""
    spec = build_spec(robot, Floor())
    model = spec.compile()
    joints = robot.joint_count
    model.dof_armature[-joints:] = figures.armature
    model.dof_damping[-joints:] = figures.damping
    model.dof_frictionloss[:] = 0.0
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    blocks = [block for r in recordings for block in _blocks(model, robot, r, figures)]
    if len(blocks) * BLOCK_S < LEAST_S:
        return None
    squares, sides = (np.array(part) for part in zip(*blocks, strict=True))
    base = model.body(BASE).id
    mass, ipos = float(model.body_mass[base]), model.body_ipos[base].copy()

    def solve(weights: Array) -> Array:
        found = np.linalg.solve(
            np.tensordot(weights, squares, 1) + 1e-9 * np.eye(UNKNOWNS), weights @ sides
        )
        total = mass + found[0]
        return np.array((found[0], *((mass * ipos + found[1:4]) / total - ipos)))

    count = len(blocks)
    best = solve(np.ones(count))
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), DRAWS)
    low, high = np.percentile([solve(w.astype(float)) for w in drawn], (2.5, 97.5), axis=0)
    return TrunkFinding(
        float(best[0]), (float(low[0]), float(high[0])), best[1:], np.stack((low[1:], high[1:]), 1)
    )


def _blocks(
    model: Any, robot: RobotSpec, recording: Recording, figures: JointFigures
) -> list[tuple[Array, Array]]:
    """Normal equations of each second on the ground."""
    if "accelerometer" not in recording or "torque" not in recording:
        return []
    data, joints = mujoco.MjData(model), robot.joint_count
    q = smooth(recording["q"], 2) - figures.offset
    dq = smooth((recording["dq"] - figures.speed_offset) / figures.speed_reading, HALF)
    ddq = np.gradient(dq, recording.period, axis=0)
    rate = smooth(recording["gyroscope"], HALF)
    turning = np.gradient(rate, recording.period, axis=0)
    force = smooth(recording["accelerometer"], HALF)
    torque = smooth(recording["torque"], HALF)
    torque = torque - figures.friction * np.tanh(dq / SLIDING)
    quaternion = recording["quaternion"]
    size = round(BLOCK_S / recording.period)
    found = []
    for start in range(HALF, len(q) - size - HALF, size):
        rows = np.arange(start, start + size, EVERY)
        on = recording["foot_force"][rows].sum(axis=1) > 20.0
        if recording["kp"][rows].min() <= 0 or not on.all():
            continue
        square, side = np.zeros((UNKNOWNS, UNKNOWNS)), np.zeros(UNKNOWNS)
        for row in rows:
            state = (q[row], dq[row], ddq[row], quaternion[row], rate[row], turning[row])
            terms, left = _row(model, data, robot, joints, state, force[row], torque[row])
            square += terms.T @ terms
            side += terms.T @ left
        found.append((square, side))
    return found


_ROW_SCALE = np.array((1.0, 1.0, 1.0, 5.0, 5.0, 5.0))[:, None]  # N and Nm alike


def _row(
    model: Any,
    data: Any,
    robot: RobotSpec,
    joints: int,
    state: tuple[Array, ...],
    force: Array,
    torque: Array,
) -> tuple[Array, Array]:
    """Six equations of the trunk: forces of the feet minus those that the model needs."""
    q, dq, ddq, quaternion, rate, turning = state
    data.qpos[:3], data.qpos[3:7] = 0.0, quaternion / np.linalg.norm(quaternion)
    data.qpos[7:], data.qvel[:3] = q, 0.0
    data.qvel[3:6], data.qvel[6:] = rate, dq
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    turn = data.body(BASE).xmat.reshape(3, 3)
    arm = model.site(IMU_SITE).pos
    carried = np.cross(turning, arm) + np.cross(rate, np.cross(rate, arm))
    specific = force - carried  # of the trunk's origin, in its own axes
    data.qacc[:3] = turn @ specific + model.opt.gravity
    data.qacc[3:6], data.qacc[6:] = turning, ddq
    mujoco.mj_inverse(model, data)
    asked = data.qfrc_inverse.copy()
    given, rubbed = np.zeros(6), np.zeros((6, 3))
    jacobian = np.zeros((3, model.nv))
    for number, leg in enumerate(robot.legs.values()):
        foot = model.geom(leg.foot).id
        sole = data.geom_xpos[foot] - (0.0, 0.0, model.geom_size[foot, 0])  # where it touches
        mujoco.mj_jac(model, data, jacobian, None, sole, model.geom_bodyid[foot])
        own = slice(6 + 3 * number, 9 + 3 * number)
        pressed = np.linalg.solve(
            jacobian[:, own].T, asked[own] - torque[own.start - 6 : own.stop - 6]
        )
        given += jacobian[:, :6].T @ pressed
        rubs = np.diag(np.tanh(dq[own.start - 6 : own.stop - 6] / SLIDING))
        rubbed += jacobian[:, :6].T @ np.linalg.solve(jacobian[:, own].T, rubs)
    left = given - asked[:6]
    left[:3] = turn.T @ left[:3]  # forces in the trunk's axes, as moments are
    rubbed[:3] = turn.T @ rubbed[:3]
    spin = _cross(turning) + _cross(rate) @ _cross(rate)
    terms = np.zeros((6, UNKNOWNS))
    terms[:3, 0], terms[:3, 1:4] = specific, spin
    terms[3:, 1:4] = -_cross(specific)
    terms[:, 4:] = -rubbed
    return terms * _ROW_SCALE, left * _ROW_SCALE[:, 0]


def _cross(v: Array) -> Array:
    return np.array(((0, -v[2], v[1]), (v[2], 0, -v[0]), (-v[1], v[0], 0)))
