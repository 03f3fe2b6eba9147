"""The motors and their boards: a PD command becomes the torques that reach the joints.

All joints at once and without allocation: this runs at every physics step. An imperfection that
is switched off costs nothing. (Dry friction is MuJoCo's own: see TwinRobot.)
"""

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
    """State of the motors between two steps: torque, winding temperature, gear play."""

    def __init__(self, robot: RobotSpec, imperfections: config.Motors, timestep: float) -> None:
        joints = robot.joint_count
        self._made_of = imperfections
        self._limit = robot.torque_limit.astype(np.float64)
        self._speed = robot.velocity_limit.astype(np.float64)
        self._given = 1 - float(np.exp(-timestep / imperfections.lag)) if imperfections.lag else 1.0
        self.truth = np.zeros((3, joints))  # what there is to measure, one row each:
        self.position, self.velocity, self.torque = self.truth  # torque is before friction
        self.temperature = np.full(joints, imperfections.heat.start)
        self._most = np.stack((self._limit, -self._limit))  # highest and lowest torque at all,
        self._bounds = self._most.copy()  # and at the present speed
        self._highest, self._lowest = self._bounds
        self._slope, self._at_rest = np.zeros(joints), np.zeros((2, joints))  # of the speed curve
        self._play = np.array([[-0.5], [0.5]]) * imperfections.backlash
        self._edges = np.zeros((2, joints))
        self._near, self._far = self._edges
        self._errors = np.zeros((2, joints))
        self._position_error, self._velocity_error = self._errors
        self._asked, self._scratch = np.zeros(joints), np.zeros(joints)
        self.set_supply(1.0)

    def follow(self, q: Vector, dq: Vector) -> None:
        """Move the motor's side of the gear with the joint: only once the play is used up."""
        self.velocity[:] = dq
        if not self._made_of.backlash:
            self.position[:] = q
            return
        np.add(q, self._play, self._edges)
        np.maximum(self.position, self._near, out=self.position)
        np.minimum(self.position, self._far, out=self.position)

    def step(self, command: MotorCommand, readings: Vector) -> Vector:
        """Torques for the joints, from the command and the boards' own q and dq (rows)."""
        asked = self._asked
        np.subtract(command.targets, readings, self._errors)
        np.multiply(self._errors, command.gains, self._errors)
        np.add(self._position_error, self._velocity_error, asked)
        np.add(asked, command.torque, asked)
        if self._made_of.strength != 1.0:
            np.multiply(asked, self._made_of.strength, asked)
        np.minimum(asked, self._highest, out=asked)
        np.maximum(asked, self._lowest, out=asked)
        return self._lag(asked)

    def _lag(self, asked: Vector) -> Vector:
        if self._given == 1.0:
            self.torque[:] = asked
            return self.torque
        np.subtract(asked, self.torque, self._scratch)
        np.multiply(self._scratch, self._given, self._scratch)
        return np.add(self.torque, self._scratch, self.torque)

    def bound(self) -> None:
        """Set the bounds of torque for the present speed: derating and the torque-speed curve.

        Beyond the speed where none is left a motor brakes, as its back-EMF makes it.
        """
        if not self._made_of.torque_speed:
            self._bounds[:] = self._most
            return
        np.multiply(self.velocity, self._slope, self._scratch)
        np.subtract(self._at_rest, self._scratch, self._bounds)
        np.minimum(self._bounds, self._most[0], out=self._bounds)
        np.maximum(self._bounds, self._most[1], out=self._bounds)

    def warm(self, seconds: float) -> None:
        """Let windings heat and cool for a while, then derate what has become too hot."""
        heat = self._made_of.heat
        if not heat.rate:
            return
        load = self.torque / self._limit
        fall = (self.temperature - heat.ambient) / heat.cooling
        self.temperature += (heat.rate * load * load - fall) * seconds
        left = (heat.derate_to - self.temperature) / (heat.derate_to - heat.derate_from)
        self._most[0] = self._limit * np.minimum(np.maximum(left, 0.0), 1.0)
        self._most[1] = -self._most[0]

    def set_supply(self, fraction: float) -> None:
        """A sagging battery takes speed from the motors: the curve shrinks with the voltage."""
        if self._made_of.torque_speed:
            full, none = self._made_of.torque_speed
            self._slope[:] = self._limit / ((none - full) * fraction * self._speed)
            self._at_rest[0] = self._limit * none / (none - full)
            self._at_rest[1] = -self._at_rest[0]
