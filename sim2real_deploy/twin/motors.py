"""The motors and their boards: from a PD command to the torques at the joints.

MuJoCo's motors evaluate the PD law at every physics step, with lag and with torque falling with
speed. This module sets their inputs once per wire period: targets, gains, and the boards' reading
errors.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.twin import config
from sim2real_deploy.twin.actuator_net import ActuatorNet
from sim2real_deploy.twin.kernels import follow_joints, heat, stick, tell_motors
from sim2real_deploy.twin.model import KD, KP, MOTOR_INPUTS, RESISTANCE, SUPPLY, set_presliding
from sim2real_deploy.twin.per_joint import per_joint

Vector = npt.NDArray[np.float64]


class MotorCommand:
    """Targets and gains of the last accepted command. Set `anew` (it has changed) after writing."""

    def __init__(self, joints: int) -> None:
        self.anew = True
        self.block = np.zeros((5, joints))  # one row each, in this order:
        self.q, self.dq, self.torque, self.kp, self.kd = self.block
        self.targets, self.efforts, self.gains = self.block[:2], self.block[2:], self.block[3:]

    def damp(self, kd: npt.NDArray[np.floating]) -> None:
        self.block[:] = 0.0
        self.kd[:] = kd
        self.anew = True


class MotorModel:
    """The motors' state between two periods: winding temperature, backlash, torque bounds."""

    def __init__(
        self, robot: RobotSpec, imperfections: config.Motors, model: Any, data: Any
    ) -> None:
        joints = robot.joint_count
        self._made_of = imperfections
        self._limit = robot.torque_limit.astype(np.float64)
        self._speed = robot.velocity_limit.astype(np.float64)
        self._q, self._dq, self._ddq = (x[-joints:] for x in (data.qpos, data.qvel, data.qacc))
        self._presliding = per_joint(imperfections.presliding, robot, "motors.presliding")
        self._slides = bool(self._presliding.any())
        self.delivered = data.actuator_force[:joints]
        self.current = data.act[: len(data.act) - joints * self._slides]  # of motors that lag
        self._told = data.ctrl.reshape(joints, MOTOR_INPUTS)
        self._torque = self._told[:, 2]
        parameters = model.actuator_gainprm[:joints]
        self._gains = parameters[:, KP : KD + 1 : KD - KP].T
        self._gains[:] = 0.0
        self._supply = parameters[:, SUPPLY]
        self._bounds = model.actuator_forcerange[:joints]
        self._bounds[:, 0], self._bounds[:, 1] = -self._limit, self._limit
        self.truth = np.zeros((4, joints))  # one row each:
        self.position, _, _, self.torque = self.truth
        self._speed_feed = per_joint(imperfections.speed_feed, robot, "motors.speed_feed")
        self._feeds = bool(self._speed_feed.any())
        self._bias = per_joint(imperfections.torque_bias, robot, "motors.torque_bias")
        self._biased = bool(self._bias.any())
        self._play = per_joint(imperfections.backlash, robot, "motors.backlash")
        self._twist = np.zeros(joints)  # of the gear: motor side minus joint side
        self.temperature = np.full(joints, imperfections.heat.start)
        self._driven_by: MotorCommand | None = None
        self._learned: ActuatorNet | None = None
        self._shift: Vector | None = None
        self._model = model
        self._friction = model.dof_frictionloss[-joints:]
        if self._slides:  # friction goes through the bristles, see `_rub_bristles`
            self._frictionloss, self._friction = self._friction, np.zeros(joints)
        self._sliding = per_joint(imperfections.friction, robot, "motors.friction")
        self._extra_at_rest = per_joint(imperfections.stribeck, robot, "motors.stribeck")
        self._sticks = bool(self._extra_at_rest.any())
        self._friction[:] = self._sliding + self._extra_at_rest
        self._rub_bristles()
        if imperfections.torque_speed:
            full, none = imperfections.torque_speed
            parameters[:, RESISTANCE] = (none - full) * self._speed / self._limit
        self.set_supply(1.0)

    def rub(self, joints: list[int], times: float) -> None:
        """Multiply the dry friction of these joints."""
        self._sliding[joints] *= times
        self._friction[:] = self._sliding + self._extra_at_rest
        self._rub_bristles()

    def _rub_bristles(self) -> None:
        """Pass a change of friction on to the bristles, where friction builds up over a distance;
        elsewhere `_friction` is the model's own array."""
        if self._slides:
            set_presliding(self._model, self._friction, self._presliding)
            self._frictionloss[:] = np.where(self._presliding > 0, 0.0, self._friction)

    def learn(self, network: ActuatorNet) -> None:
        """Add a learned residual."""
        self._learned = network
        self._feed_forward = np.zeros_like(self._torque)
        arrays = (self._told, self._gains, self._feed_forward, self._q, self._dq, self._bounds)
        self._one_robot = tuple(array[None] for array in arrays)

    def shift(self, targets: Vector) -> None:
        """Offset the motors' targets by this array, which may change."""
        self._shift = targets

    def engage(self) -> None:
        """Put the motor side of each gear in the middle of its backlash."""
        self.position[:] = self._q

    def follow(self, noise: Vector, gains: Vector, readings: Floats) -> None:
        """Update the joints' motion on the motor side, where the encoder sits, and its readings;
        torque is the delivered one, before friction."""
        follow_joints(
            self._q,
            self._dq,
            self._ddq,
            self.delivered,
            self._twist,
            self._play,
            self.truth,
            noise,
            gains,
            readings,
        )
        if self._sticks:
            speed = self._made_of.stribeck_speed
            stick(self._friction, self._sliding, self._extra_at_rest, self._dq, speed)
            self._rub_bristles()

    def drive(
        self, command: MotorCommand, misread: Vector, speed_gain: Vector, begins: bool = True
    ) -> None:
        """Set the command for the next steps. The boards' readings of position and velocity have
        the errors `misread` (its first rows), besides the gear's twist, and their velocity is
        `speed_gain` times the joint's. The learned residual is updated when a wire period `begins`
        and holds until the next one."""
        if command.anew or command is not self._driven_by:
            self._gains[:], self._torque[:] = command.gains, command.torque
            self._gains[1] *= speed_gain
            if self._feeds:
                self._gains[1] -= np.where(command.kd > 0, self._speed_feed, 0.0)
            self._add_bias(self._torque, command)
            self._driven_by, command.anew = command, False
        tell_motors(
            self._told,
            command.targets,
            misread,
            speed_gain,
            self._twist,
            self.current,
            self._bounds,
        )
        if self._shift is not None:
            self._told[:, 0] += self._shift
        if self._learned is not None:
            self._add_learned(self._learned, command, begins)

    def _add_learned(self, network: ActuatorNet, command: MotorCommand, begins: bool) -> None:
        if begins:
            self._feed_forward[:] = command.torque
            self._add_bias(self._feed_forward, command)
            network.update(*self._one_robot)
            rest = self._friction if self._sticks else self._sliding
            np.maximum(rest + network.friction[0], 0.0, out=self._friction)
            self._rub_bristles()
        np.add(command.torque, network.torque[0], out=self._torque)
        self._add_bias(self._torque, command)

    def _add_bias(self, torque: Vector, command: MotorCommand) -> None:
        """Add the boards' own torque at joints that are driven."""
        if self._biased:
            torque += np.where(command.gains.any(axis=0), self._bias, 0.0)

    def drive_at(self, torque: Vector) -> None:
        """Set torques directly, for boards with a faulty PD law."""
        self._gains[:], self._torque[:] = 0.0, torque
        self._driven_by = None

    def ask(self, command: MotorCommand, readings: npt.NDArray[np.floating]) -> Vector:
        """The torque of a board's PD law for its readings of position and velocity (rows)."""
        position, velocity = command.gains * (command.targets - readings)
        return np.asarray(position + velocity + command.torque)

    def warm(self, seconds: float) -> None:
        """Heat and cool the windings for a time, then derate those that are too hot."""
        law = self._made_of.heat
        if not law.rate:
            return
        rise, cooling = law.rate * seconds, seconds / law.cooling
        winding = (rise, cooling, law.ambient, law.derate_from, law.derate_to)
        heat(self.temperature, self.torque, self._limit, winding, self._bounds)

    def set_supply(self, fraction: float) -> None:
        """A sagging battery lowers the motors' speed limit. Above the speed at which no torque is
        left, the back-EMF brakes."""
        if self._made_of.torque_speed:
            self._supply[:] = self._made_of.torque_speed[1] * fraction * self._speed
