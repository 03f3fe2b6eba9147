"""How fast the robot really moves, by the supervisor's own odometry, not by control's report.

A stage bounds the commanded velocity; this measures what the policy makes of it.
"""

import math
from typing import ClassVar

from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.robots.spec import RobotSpec
from sim2real_deploy.robots.state import RobotState
from sim2real_deploy.safety.inputs import Inputs, Reading, Readings

FILTER_S = 0.12  # averages out the sway of the trunk within a step
CARRIED_N = 40.0  # load on all feet; below it the robot hangs and leg odometry is meaningless
HANGING_S = 0.1


class MotionMonitor:
    """Horizontal speed and turning rate; no reading while the robot hangs or is not driven."""

    MEASURES: ClassVar = frozenset({"speed", "turning_rate"})

    def __init__(self, robot: RobotSpec) -> None:
        self._robot = robot
        self._legs: LegOdometry | None = None
        self._last_ns: int | None = None
        self._unloaded_s = 0.0
        self._vx = self._vy = self._wz = 0.0
        self._possible = LegOdometry.possible(robot)

    def measure(self, inputs: Inputs, _now_ns: int) -> Readings:
        if not inputs.driving:
            self._legs = self._last_ns = None
            self._vx = self._vy = self._wz = 0.0
            return {}
        if inputs.state is not None:
            self._follow(inputs.state)
        if self._last_ns is None:
            return {}
        turning: Readings = {"turning_rate": Reading(abs(self._wz))}
        if self._legs is None or self._unloaded_s > HANGING_S:
            return turning
        return {**turning, "speed": Reading(math.hypot(self._vx, self._vy))}

    def _follow(self, state: RobotState) -> None:
        elapsed_s = 0.0 if self._last_ns is None else (state.received_ns - self._last_ns) / 1e9
        self._last_ns = state.received_ns
        weight = 1.0 - math.exp(-max(elapsed_s, 0.0) / FILTER_S)
        self._wz += weight * (float(state.rates()[2]) - self._wz)
        if not self._possible:
            return
        if self._legs is None:
            self._legs, self._unloaded_s = LegOdometry(self._robot), 0.0
        self._legs.update(state)
        if sum(max(load, 0.0) for load in self._legs.loads) < CARRIED_N:
            self._unloaded_s += elapsed_s
            return
        if self._unloaded_s > HANGING_S:  # what was integrated in the air is only drift
            self._legs = LegOdometry(self._robot)
            self._vx = self._vy = 0.0
        self._unloaded_s = 0.0
        vx, vy, _ = self._legs.velocity
        self._vx += weight * (vx - self._vx)
        self._vy += weight * (vy - self._vy)
