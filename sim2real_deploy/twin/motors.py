"""The motors and their boards: a PD command becomes the torques that reach the joints.

All joints at once and without allocation: this runs at every physics step. Each imperfection is
its own method; one that is switched off costs nothing.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin import config

Vector = npt.NDArray[np.float64]

FRICTION_SPEED = 0.05  # rad/s at which dry friction has come up to three quarters


class MotorCommand:
    """What the boards hold: targets and gains of the last accepted command, in place."""

    __slots__ = ("dq", "kd", "kp", "q", "torque")

    def __init__(self, joints: int) -> None:
        self.q, self.dq, self.kp, self.kd, self.torque = (np.zeros(joints) for _ in range(5))

    def damp(self, kd: npt.NDArray[np.floating]) -> None:
        for part in (self.q, self.dq, self.kp, self.torque):
            part[:] = 0.0
        self.kd[:] = kd


class Motors:
    """State of the motors between two steps: torque, winding temperature, gear play."""

    def __init__(self, robot: RobotSpec, imperfections: config.Motors, timestep: float) -> None:
        joints = len(robot.joints)
        self._made_of = imperfections
        self._limit = robot.torque_limit.astype(np.float64)
        self._speed = robot.velocity_limit.astype(np.float64)
        self._keep = float(np.exp(-timestep / imperfections.lag)) if imperfections.lag else 0.0
        self.torque = np.zeros(joints)  # delivered to the gear: what the board estimates
        self.joint_torque = np.zeros(joints)  # what is left for the joint after friction
        self.temperature = np.full(joints, imperfections.heat.start)
        self._bounds = np.zeros((2, joints))  # highest and lowest torque at the present speed
        self._bounds_at_rest = np.stack((self._limit, -self._limit))
        self._towards = np.zeros((2, joints))  # how the bounds move with speed
        self._offset = np.zeros(1)
        self._motor_side = np.full(joints, np.nan)  # position behind the gear's play
        self._asked, self._scratch = np.zeros(joints), np.zeros(joints)
        self.distort: Callable[[Vector], None] | None = None  # a motor fault, in place
        self.set_supply(1.0)

    def measured_position(self, q: Vector, out: Vector) -> None:
        """The encoder sits on the motor's side of the gear: it follows once the play is used up."""
        play = self._made_of.backlash / 2
        if not play:
            out[:] = q
            return
        side, edge = self._motor_side, self._scratch
        if np.isnan(side[0]):
            side[:] = q
        np.subtract(q, play, edge)
        np.maximum(side, edge, out=side)
        np.add(q, play, edge)
        np.minimum(side, edge, out=side)
        out[:] = side

    def step(self, command: MotorCommand, q: Vector, dq: Vector) -> Vector:
        """Torques for the joints, from the command and the boards' own measurements."""
        asked, scratch = self._asked, self._scratch
        np.subtract(command.q, q, asked)
        np.multiply(asked, command.kp, asked)
        np.subtract(command.dq, dq, scratch)
        np.multiply(scratch, command.kd, scratch)
        np.add(asked, scratch, asked)
        np.add(asked, command.torque, asked)
        if self._made_of.strength != 1.0:
            np.multiply(asked, self._made_of.strength, asked)
        self._bound(asked, dq)
        self._lag(asked)
        if self.distort is not None:
            self.distort(self.torque)
        if not self._made_of.friction:
            return self.torque
        return self._friction(dq)

    def _bound(self, torque: Vector, dq: Vector) -> None:
        """The torque-speed curve and derating. Braking torque is not reduced by speed."""
        bounds = self._bounds_at_rest
        if self._made_of.torque_speed:
            bounds = self._bounds
            np.multiply(self._towards, dq, bounds)
            np.add(bounds, self._offset, bounds)
            np.minimum(bounds, 1.0, out=bounds)
            np.maximum(bounds, 0.0, out=bounds)
            np.multiply(bounds, self._bounds_at_rest, bounds)
        np.minimum(torque, bounds[0], out=torque)
        np.maximum(torque, bounds[1], out=torque)

    def _lag(self, asked: Vector) -> None:
        if not self._keep:
            self.torque[:] = asked
            return
        np.subtract(self.torque, asked, self.torque)
        np.multiply(self.torque, self._keep, self.torque)
        np.add(self.torque, asked, self.torque)

    def _friction(self, dq: Vector) -> Vector:
        np.multiply(dq, 1.0 / FRICTION_SPEED, self._scratch)
        np.tanh(self._scratch, self._scratch)
        np.multiply(self._scratch, self._made_of.friction, self._scratch)
        return np.subtract(self.torque, self._scratch, self.joint_torque)

    def warm(self, seconds: float) -> None:
        """Let windings heat and cool for a while, then derate what has become too hot."""
        heat = self._made_of.heat
        if not heat.rate:
            return
        load = self.torque / self._limit
        fall = (self.temperature - heat.ambient) / heat.cooling
        self.temperature += (heat.rate * load * load - fall) * seconds
        left = (heat.derate_to - self.temperature) / (heat.derate_to - heat.derate_from)
        self._bounds_at_rest[0] = self._limit * np.clip(left, 0.0, 1.0)
        self._bounds_at_rest[1] = -self._bounds_at_rest[0]

    def set_supply(self, fraction: float) -> None:
        """A sagging battery takes speed from the motors: the curve shrinks with the voltage."""
        if self._made_of.torque_speed:
            full, none = self._made_of.torque_speed
            slope = 1.0 / ((none - full) * fraction * self._speed)
            self._towards[0], self._towards[1] = -slope, slope
            self._offset[0] = none / (none - full)
