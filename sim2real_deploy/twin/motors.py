"""The motors and their boards: a PD command becomes the torques that reach the joints.

MuJoCo's own motors evaluate the PD law at every physics step, and have the torque lag behind and
fall with speed. Here is what they are told once in a wire period: targets, gains, and by how much
their boards misread the joints.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin import config
from sim2real_deploy.twin.model import KD, KP, MOTOR_INPUTS, RESISTANCE, SUPPLY

Vector = npt.NDArray[np.float64]


class MotorCommand:
    """What the boards hold: targets and gains of the last accepted command, in place.

    Who writes into it says so by `anew`.
    """

    def __init__(self, joints: int) -> None:
        self.anew = True
        self.block = np.zeros((5, joints))  # one row each, in this order:
        self.q, self.dq, self.torque, self.kp, self.kd = self.block
        self.targets, self.efforts, self.gains = self.block[:2], self.block[2:], self.block[3:]

    def damp(self, kd: npt.NDArray[np.floating]) -> None:
        self.block[:] = 0.0
        self.kd[:] = kd
        self.anew = True


class Motors:
    """State of the motors between two periods: winding temperature, gear play, torque bounds."""

    def __init__(
        self, robot: RobotSpec, imperfections: config.Motors, model: Any, data: Any
    ) -> None:
        joints = robot.joint_count
        self._made_of = imperfections
        self._limit = robot.torque_limit.astype(np.float64)
        self._speed = robot.velocity_limit.astype(np.float64)
        self._q, self._dq, self._ddq = (x[-joints:] for x in (data.qpos, data.qvel, data.qacc))
        self._delivered, self._current = data.actuator_force, data.act
        told = data.ctrl.reshape(joints, MOTOR_INPUTS).T
        self._targets, self._target_q, self._torque = told[:2], told[0], told[2]
        parameters = model.actuator_gainprm
        self._gains = parameters[:, KP : KD + 1 : KD - KP].T
        self._gains[:] = 0.0
        self._supply = parameters[:, SUPPLY]
        self._lowest, self._highest = model.actuator_forcerange.T
        self._lowest[:], self._highest[:] = -self._limit, self._limit
        self.truth = np.zeros((4, joints))  # what there is to measure, one row each:
        self.position, self.velocity, self.acceleration, self.torque = self.truth
        self._twist = np.zeros(joints)  # of the gear: motor's side less joint's side
        self._most_twist = np.full(joints, imperfections.backlash / 2)
        self._least_twist = -self._most_twist
        self.temperature = np.full(joints, imperfections.heat.start)
        self._driven_by: MotorCommand | None = None
        model.dof_frictionloss[-joints:] = imperfections.friction
        if imperfections.torque_speed:
            full, none = imperfections.torque_speed
            parameters[:, RESISTANCE] = (none - full) * self._speed / self._limit
        self.set_supply(1.0)

    def engage(self) -> None:
        """Put the motor's side of each gear in the middle of its play."""
        self.position[:] = self._q

    def follow(self) -> None:
        """Note how the joints move. The motor's side of a gear, where the encoder sits, moves
        only once the play is used up."""
        self.velocity[:], self.acceleration[:] = self._dq, self._ddq
        self.torque[:] = self._delivered  # before friction
        np.subtract(self.position, self._q, self._twist)
        np.maximum(self._twist, self._least_twist, out=self._twist)
        np.minimum(self._twist, self._most_twist, out=self._twist)
        np.add(self._q, self._twist, self.position)

    def drive(self, command: MotorCommand, misread: Vector) -> None:
        """Hand a command over for the steps to come; `misread` is the error of the boards' own
        readings of position and velocity (rows), the gear's twist not counted."""
        if command.anew or command is not self._driven_by:
            self._gains[:], self._torque[:] = command.gains, command.torque
            self._driven_by, command.anew = command, False
        np.subtract(command.targets, misread, self._targets)
        np.subtract(self._target_q, self._twist, self._target_q)
        if self._made_of.lag:  # a current that would be beyond the bounds is not there either
            np.maximum(self._current, self._lowest, out=self._current)
            np.minimum(self._current, self._highest, out=self._current)

    def drive_at(self, torque: Vector) -> None:
        """Ask for torques as they are: for boards whose PD law no longer is one."""
        self._gains[:], self._torque[:] = 0.0, torque
        self._driven_by = None

    def ask(self, command: MotorCommand, readings: npt.NDArray[np.floating]) -> Vector:
        """What a board's PD law makes of its readings of position and velocity (rows)."""
        position, velocity = command.gains * (command.targets - readings)
        return np.asarray(position + velocity + command.torque)

    def warm(self, seconds: float) -> None:
        """Let windings heat and cool for a while, then derate what has become too hot."""
        heat = self._made_of.heat
        if not heat.rate:
            return
        load = self.torque / self._limit
        fall = (self.temperature - heat.ambient) / heat.cooling
        self.temperature += (heat.rate * load * load - fall) * seconds
        left = (heat.derate_to - self.temperature) / (heat.derate_to - heat.derate_from)
        self._highest[:] = self._limit * np.minimum(np.maximum(left, 0.0), 1.0)
        self._lowest[:] = -self._highest

    def set_supply(self, fraction: float) -> None:
        """A sagging battery takes speed from the motors. Beyond the speed where no torque is left
        a motor brakes, as its back-EMF makes it."""
        if self._made_of.torque_speed:
            self._supply[:] = self._made_of.torque_speed[1] * fraction * self._speed
