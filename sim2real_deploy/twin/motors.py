"""The motors and their boards: a PD command becomes the torques that reach the joints.

This runs at every physics step, for all joints at once and without allocation. What MuJoCo can do
itself it does: the lag is its actuators' first-order filter, the torque limit of the moment is
their control range, dry friction is that of its joints.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin import config

Vector = npt.NDArray[np.float64]


class MotorCommand:
    """What the boards hold: targets and gains of the last accepted command, in place."""

    def __init__(self, joints: int) -> None:
        self.block = np.zeros((5, joints))  # one row each, in this order:
        self.q, self.dq, self.kp, self.kd, self.torque = self.block
        self.targets, self.gains = self.block[:2], self.block[2:4]

    def damp(self, kd: npt.NDArray[np.floating]) -> None:
        self.block[:] = 0.0
        self.kd[:] = kd


class Motors:
    """State of the motors between two steps: winding temperature, gear play, torque bounds."""

    def __init__(
        self, robot: RobotSpec, imperfections: config.Motors, model: Any, data: Any
    ) -> None:
        joints = robot.joint_count
        self._made_of = imperfections
        self._limit = robot.torque_limit.astype(np.float64)
        self._speed = robot.velocity_limit.astype(np.float64)
        self._delivered = data.actuator_force
        self.truth = np.zeros((3, joints))  # what there is to measure, one row each:
        self.position, self.velocity, self.torque = self.truth  # torque is before friction
        self.temperature = np.full(joints, imperfections.heat.start)
        self._bounds = model.actuator_ctrlrange.T  # lowest and highest torque now
        self._most = np.stack((-self._limit, self._limit))  # and at any speed
        self._lowest, self._highest = self._most
        self._slope, self._at_rest = np.zeros(joints), np.zeros((2, joints))  # of the speed curve
        self._play = np.array([[-0.5], [0.5]]) * imperfections.backlash
        self._edges = np.zeros((2, joints))
        self._near, self._far = self._edges
        self._errors = np.zeros((2, joints))
        self._position_error, self._velocity_error = self._errors
        self._scratch = np.zeros(joints)
        model.dof_frictionloss[-joints:] = imperfections.friction
        self.set_supply(1.0)

    def follow(self, q: Vector, dq: Vector) -> None:
        """Move the motor's side of the gear with the joint: only once the play is used up."""
        self.velocity[:], self.torque[:] = dq, self._delivered
        if not self._made_of.backlash:
            self.position[:] = q
            return
        np.add(q, self._play, self._edges)
        np.maximum(self.position, self._near, out=self.position)
        np.minimum(self.position, self._far, out=self.position)

    def ask(self, command: MotorCommand, readings: Vector, torque: Vector) -> None:
        """The PD law: the torque asked for, from the boards' own readings of q and dq (rows)."""
        np.subtract(command.targets, readings, self._errors)
        np.multiply(self._errors, command.gains, self._errors)
        np.add(self._position_error, self._velocity_error, torque)
        np.add(torque, command.torque, torque)

    def weaken(self, command: MotorCommand) -> None:
        """A new command, as these motors will carry it out."""
        if self._made_of.strength != 1.0:
            np.multiply(command.block[2:], self._made_of.strength, command.block[2:])

    def bound(self) -> None:
        """Bound the torque by the present speed and temperature.

        Beyond the speed where none is left a motor brakes, as its back-EMF makes it.
        """
        if not self._made_of.torque_speed:
            self._bounds[:] = self._most
            return
        np.multiply(self.velocity, self._slope, self._scratch)
        np.subtract(self._at_rest, self._scratch, self._edges)
        np.maximum(self._edges, self._lowest, out=self._edges)
        np.minimum(self._edges, self._highest, out=self._bounds)

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
        """A sagging battery takes speed from the motors: the curve shrinks with the voltage."""
        if self._made_of.torque_speed:
            full, none = self._made_of.torque_speed
            self._slope[:] = self._limit / ((none - full) * fraction * self._speed)
            self._at_rest[1] = self._limit * none / (none - full)
            self._at_rest[0] = -self._at_rest[1]
