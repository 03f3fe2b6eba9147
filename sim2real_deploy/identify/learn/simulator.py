"""Many stretches of a recording rolled out at once in the twin's own model, trunk free.

The state that a recording lacks is made up for: the height from the lowest foot, the velocity of
the trunk from the feet that stand. So joints, gyro and gravity are enough.
"""

import copy
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco import rollout

from sim2real_deploy.identify.figures import JointFigures, figures_of
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.identify.smoothing import smooth
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import attitude_of_gravity, gravity_in_body_rows, to_world_rows
from sim2real_deploy.twin.actuator_net import ActuatorNet, load_actuator
from sim2real_deploy.twin.boards import whole_steps
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import KD, KP, set_presliding
from sim2real_deploy.twin.robot import TwinRobot

Array = npt.NDArray[np.float64]

STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
STANDS = 0.02  # m: feet up to this far above the lowest one may be on the ground
SLOW = 75  # rows on either side over which the trunk's speed changes little
HALF = 4  # rows on either side when smoothing initial states
FREE_Q, FREE_V = 7, 6


@dataclass(frozen=True, slots=True)
class Motion:
    """A recording at the wire rate, in the form that windows need."""

    q: Array
    dq: Array
    quaternion: Array
    gyro: Array  # rad/s, in the trunk's axes
    gravity: Array  # direction, in the trunk's axes
    velocity: Array  # m/s, in the trunk's axes
    target: Array
    kp: Array
    kd: Array

    def __len__(self) -> int:
        return len(self.q)


def motion_of(recording: Recording, simulator: "Simulator") -> Motion:
    figures = simulator.figures
    q = smooth(recording["q"], HALF) - figures.offset
    dq = (smooth(recording["dq"], HALF) - figures.speed_offset) / figures.speed_gain
    gyro = smooth(recording["gyroscope"], HALF)
    if "quaternion" in recording:
        quaternion = recording["quaternion"]
    else:
        quaternion = attitude_of_gravity(recording["gravity"])
    gravity = gravity_in_body_rows(quaternion)
    velocity = simulator.leg_velocity(q, dq, gyro, gravity)
    if "velocity" in recording:
        velocity = recording["velocity"]
    target = recording["target_q"] - figures.offset
    return Motion(
        q, dq, quaternion, gyro, gravity, velocity, target, recording["kp"], recording["kd"]
    )


class Simulator:
    """The twin's body and motors with its actuator network; commands have the robot's delay."""

    def __init__(self, robot: RobotSpec, twin: Imperfections, kp: Array, kd: Array) -> None:
        body = TwinRobot(robot, Floor(), twin.without_chance())
        self.robot, self.figures = robot, figures_of(twin, robot)
        self.model: Any = body.model
        self._data = mujoco.MjData(self.model)
        self._rollout = rollout.Rollout(nthread=1)
        self.steps = round(1 / robot.wire.rate_hz / self.model.opt.timestep)
        figures: JointFigures = self.figures
        kp, kd = whole_steps(kp, figures.gain_step), whole_steps(kd, figures.gain_step)
        motors = self.model.actuator_gainprm[: robot.joint_count]
        motors[:, KP] = figures.strength * kp
        motors[:, KD] = figures.strength * kd * figures.speed_gain - figures.speed_feed * (kd > 0)
        self._late = np.rint(figures.delay / self.model.opt.timestep).astype(np.int64)
        self._feet = [self.model.geom(name).id for name in robot.foot_names]
        self._radius = np.array([self.model.geom(name).size[0] for name in robot.foot_names])
        self.size = mujoco.mj_stateSize(self.model, STATE)
        joints, nq = robot.joint_count, self.model.nq
        self.q = slice(1 + FREE_Q, 1 + FREE_Q + joints)
        self.dq = slice(1 + nq + FREE_V, 1 + nq + FREE_V + joints)
        self.turning = slice(1 + nq + 3, 1 + nq + FREE_V)
        self.quaternion = slice(4, 1 + FREE_Q)
        named = twin.learned.actuator
        self._actuator = named and load_actuator(named, robot)
        self._net: ActuatorNet | None = None
        self._models: list[Any] = []

    def close(self) -> None:
        self._rollout.close()

    def start(self, motion: Motion, rows: npt.NDArray[np.int64]) -> Array:
        """The recorded states of these rows, with the lowest foot on the floor."""
        model, data = self.model, self._data
        states = np.zeros((len(rows), self.size))
        nq = model.nq
        if self._actuator:
            self._net = ActuatorNet(self._actuator, 1 / self.robot.wire.rate_hz, len(rows))
            self._models = [copy.copy(model) for _ in rows]
        states[:, self.quaternion] = motion.quaternion[rows]
        states[:, self.q], states[:, self.dq] = motion.q[rows], motion.dq[rows]
        world = to_world_rows(motion.quaternion[rows], motion.velocity[rows])
        states[:, 1 + nq : 4 + nq] = world
        states[:, self.turning] = motion.gyro[rows]
        for state in states:
            data.qpos[:] = state[1 : 1 + nq]
            mujoco.mj_kinematics(model, data)
            state[3] = -float((data.geom_xpos[self._feet, 2] - self._radius).min())
        return states

    def advance(
        self,
        states: Array,
        motion: Motion,
        rows: npt.NDArray[np.int64],
        count: int,
        delta: Array,
        trial: bool = False,
    ) -> Array:
        """The states after `count` rows; targets are the recorded ones plus `delta` (windows x
        joints). A `trial` does not change the network's memory."""
        joints = self.robot.joint_count
        steps = rows[:, None] * self.steps + np.arange(count * self.steps)
        row = np.maximum((steps[..., None] - self._late) // self.steps, 0)
        told = np.zeros((len(rows), count * self.steps, self.model.nu))
        inputs = told.reshape(len(rows), count * self.steps, joints, 3)
        inputs[..., 0] = motion.target[row, np.arange(joints)] + delta[:, None]
        inputs[..., 1] = -self.figures.speed_offset / self.figures.speed_gain
        inputs[..., 2] = self.figures.torque_bias
        if self._net is None:
            after, _ = self._rollout.rollout(self.model, self._data, states, told)
            return np.asarray(after[:, -1])
        before = copy.deepcopy(self._net) if trial else None
        for period in range(count):
            now = slice(period * self.steps, (period + 1) * self.steps)
            self._ask(self._net, states, inputs[:, now])
            after, _ = self._rollout.rollout(self._models, self._data, states, told[:, now])
            states = after[:, -1]
        self._net = before or self._net
        return np.asarray(states)

    def _ask(self, net: ActuatorNet, states: Array, inputs: Array) -> None:
        """Add the actuator network's output for one wire period to the motors' inputs."""
        model, joints = self.model, self.robot.joint_count
        shape = (len(states), 2, joints)
        gains = np.broadcast_to(model.actuator_gainprm[:joints, [KP, KD]].T, shape)
        bounds = np.broadcast_to(model.actuator_forcerange[:joints], (len(states), joints, 2))
        feed_forward = inputs[:, 0, :, 2]
        net.update(
            np.ascontiguousarray(inputs[:, 0]),
            np.ascontiguousarray(gains),
            np.ascontiguousarray(feed_forward),
            states[:, self.q],
            states[:, self.dq],
            np.ascontiguousarray(bounds),
        )
        inputs[..., 2] += net.torque[:, None]
        reach = self.figures.presliding
        friction = np.maximum(self.figures.friction + net.friction, 0.0)
        for one, value in zip(self._models, friction, strict=True):
            one.dof_frictionloss[FREE_V:] = np.where(reach > 0, 0.0, value)
            if reach.any():
                set_presliding(one, value, reach)

    def gravity(self, states: Array) -> Array:
        return gravity_in_body_rows(states[:, self.quaternion])

    def leg_velocity(self, q: Array, dq: Array, gyro: Array, gravity: Array) -> Array:
        """The trunk's velocity in its own axes, from the feet on the ground.

        Which feet are on the ground is unknown. The two lowest give a first estimate; of all feet
        near the floor, the two that agree with it best give the result.
        """
        low, speeds = self._feet_move(q, dq, gyro, gravity)
        deepest = np.argsort(-low, axis=1)[:, :2]
        rows = np.arange(len(q))[:, None]
        about = _running_median(speeds[rows, deepest].mean(axis=1), SLOW)
        odd = np.linalg.norm(speeds - about[:, None], axis=2)
        odd[low < low.max(axis=1, keepdims=True) - STANDS] = np.inf
        chosen = np.argsort(odd, axis=1)[:, :2]
        good = np.isfinite(odd[rows, chosen])[..., None]
        mean = np.where(good, speeds[rows, chosen], 0.0).sum(1) / np.maximum(good.sum(1), 1)
        return smooth(mean, HALF)

    def _feet_move(self, q: Array, dq: Array, gyro: Array, gravity: Array) -> tuple[Array, Array]:
        """How low each foot is (m along gravity), and the trunk's velocity if that foot stands."""
        model, data, feet = self.model, self._data, self._feet
        data.qpos[:] = 0.0
        data.qpos[3] = 1.0
        low = np.zeros((len(q), len(feet)))
        speeds = np.zeros((len(q), len(feet), 3))
        turn, slide = np.zeros((2, 3, model.nv))
        for row in range(len(q)):
            data.qpos[FREE_Q:] = q[row]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            places = data.geom_xpos[feet]
            low[row] = places @ gravity[row] + self._radius
            for number, foot in enumerate(feet):
                mujoco.mj_jac(model, data, slide, turn, places[number], model.geom_bodyid[foot])
                speeds[row, number] = -slide[:, FREE_V:] @ dq[row]
            speeds[row] -= np.cross(gyro[row], places)
        return low, speeds


def _running_median(values: Array, half: int) -> Array:
    padded = np.pad(values, ((half, half), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=0)
    return np.asarray(np.median(windows, axis=-1))
