"""The twin's networks in training's batch: delta actions on the targets of each control step, the
actuator network every 10 ms. No torch: the twin's own compiled code."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import gravity_in_body_rows
from sim2real_deploy.training.config import Control
from sim2real_deploy.training.nominal import Nominal
from sim2real_deploy.training.randomisation import Drawn
from sim2real_deploy.twin.actuator_net import ActuatorNet, ActuatorWeights, load_actuator
from sim2real_deploy.twin.delta_action import DeltaWeights, features, load_delta

Array = npt.NDArray[np.float64]

FREE = 6  # degrees of freedom of the trunk
PERIOD_S = 0.01  # how long the actuator network's answer holds


class LearnedDelta:
    def __init__(self, weights: DeltaWeights) -> None:
        self._weights = weights

    def shift(
        self, targets: Array, q: Array, dq: Array, turning: Array, quaternion: Array
    ) -> Array:
        """Targets of one control step (robots x physics steps x joints), changed."""
        gravity = gravity_in_body_rows(quaternion)
        inputs = features(q, dq, turning, gravity, targets[:, 0])
        return np.asarray(targets + self._weights.batch(inputs)[:, None])


class LearnedActuator:
    """Its torque goes in as a change of the target, its friction into each robot's own model."""

    def __init__(
        self,
        weights: ActuatorWeights,
        robot: RobotSpec,
        control: Control,
        nominal: Nominal,
        drawn: Drawn,
    ) -> None:
        steps = max(1, round(PERIOD_S / control.timestep))
        self.steps = steps if control.substeps % steps == 0 else 1
        self._net = ActuatorNet(weights, self.steps * control.timestep, len(drawn.strength))
        self._control, self._nominal, self._drawn = control, nominal, drawn
        count, joints = len(drawn.strength), robot.joint_count
        self._limit = robot.torque_limit.astype(np.float64)
        self._told = np.zeros((count, joints, 3))
        self._gains = np.zeros((count, 2, joints))
        self._bounds = np.zeros((count, joints, 2))
        self._none = np.zeros((count, joints))
        self._rest = np.zeros((count, joints))
        self._rubs: list[Any] = [None] * count

    def rebuilt(self, env: int, model: Any) -> None:
        """A robot begins anew, with values drawn anew."""
        drawn, control = self._drawn, self._control
        strength = drawn.strength[env]
        self._gains[env, 0] = control.kp * drawn.gain * drawn["kp"][env] * strength
        self._gains[env, 1] = control.kd * drawn.gain * drawn["kd"][env] * strength
        self._bounds[env, :, 1] = self._limit * strength
        self._bounds[env, :, 0] = -self._bounds[env, :, 1]
        self._rest[env] = self._nominal.friction * drawn["joint_friction"][env]
        self._rubs[env] = model.dof_frictionloss[FREE:]
        self._net.forget(env)

    def shift(self, targets: Array, q: Array, dq: Array) -> Array:
        """Targets of a period (robots x physics steps x joints), changed; friction is set."""
        net = self._net
        self._told[:, :, 0] = targets[:, 0]
        net.update(self._told, self._gains, self._none, q, dq, self._bounds)
        friction = np.maximum(self._rest + net.friction, 0.0)
        for rub, value in zip(self._rubs, friction, strict=True):
            rub[:] = value
        return np.asarray(targets + (net.torque / self._gains[:, 0])[:, None])


def open_actuator(
    robot: RobotSpec, control: Control, nominal: Nominal, drawn: Drawn
) -> LearnedActuator | None:
    named = nominal.learned.actuator
    if named is None:
        return None
    return LearnedActuator(load_actuator(named, robot), robot, control, nominal, drawn)


def open_delta(robot: RobotSpec, nominal: Nominal) -> LearnedDelta | None:
    named = nominal.learned.action
    return None if named is None else LearnedDelta(load_delta(named, robot))
