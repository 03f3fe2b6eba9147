"""Motor heat: how long until a limit, and how much torque a hot motor may still give.

A winding under a steady load warms towards an equilibrium, dT/dt = a + b*T with b < 0. The robot
reports whole degrees, so only the moments at which a reading rises are exact. The fit uses the
integral of that equation, which does not amplify their jitter as a derivative would.
"""

import math
from collections import deque
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots.spec import RobotSpec
from sim2real_deploy.safety.inputs import Inputs, Reading, Readings

STEPS_REMEMBERED = 16
STEPS_NEEDED = 4  # rises needed before anything is predicted
COOLED_BY = 3  # degrees below the peak: the load has changed, so start again
LEAST_FRACTION = 0.5  # of full torque, left at the temperature at which the robot sits down
STRAIGHT = -1e-6  # 1/s: a slope above this (time constant of days) counts as a straight line
PERIOD_NS = 100_000_000


def torque_fraction(temperature: float, derate: float, sit: float) -> float:
    """Full torque up to `derate`, then falling linearly to LEAST_FRACTION at `sit`; a file may set
    the two to one temperature."""
    if temperature <= derate:
        return 1.0
    if temperature >= sit:
        return LEAST_FRACTION
    return 1.0 - (1.0 - LEAST_FRACTION) * (temperature - derate) / (sit - derate)


class HeatPredictor:
    """Predicts when one motor will reach a temperature limit."""

    def __init__(self) -> None:
        self._rises: deque[tuple[float, float]] = deque(maxlen=STEPS_REMEMBERED)

    def update(self, temperature: float, now_s: float) -> None:
        if self._rises and temperature <= self._rises[-1][1] - COOLED_BY:
            self._rises.clear()
        if not self._rises or temperature > self._rises[-1][1]:
            self._rises.append((now_s, temperature))

    def time_left_s(self, limit: float, now_s: float) -> float:
        """Seconds until `limit` under the recent load; infinite if it will not be reached."""
        if len(self._rises) <= STEPS_NEEDED:
            return math.inf
        times, temperatures = np.array(self._rises).T[:, 1:]  # the first reading is not a rise
        since_s = now_s - float(times[-1])
        if since_s > 2.0 * (times[-1] - times[-2]) + PERIOD_NS / 1e9:
            return math.inf  # the temperature has settled
        warmth = temperatures - temperatures[0]
        heat = np.concatenate(([0.0], np.cumsum((warmth[1:] + warmth[:-1]) / 2 * np.diff(times))))
        elapsed = times - times[0]
        start, slope = np.linalg.lstsq(np.stack([elapsed, heat], axis=1), warmth, rcond=None)[0]
        if slope > STRAIGHT:  # no equilibrium in sight
            start, slope = warmth[-1] / elapsed[-1], 0.0
        left_s = _time_to(limit - temperatures[0], float(warmth[-1]), float(start), float(slope))
        return max(0.0, left_s - since_s)


def _time_to(limit: float, temperature: float, start: float, slope: float) -> float:
    """Integral of dT / (start + slope*T) from the temperature to the limit."""
    if limit <= temperature:
        return 0.0
    now, then = start + slope * temperature, start + slope * limit
    if then <= 0:
        return math.inf
    if slope == 0:
        return (limit - temperature) / now
    return math.log(then / now) / slope


class HeatMonitor:
    """The hottest motor, and the one that will be too hot first."""

    MEASURES: ClassVar = frozenset({"motor_temperature", "motor_time_left_s"})

    def __init__(self, robot: RobotSpec, limit: float) -> None:
        self._names = robot.joint_names
        self._limit = math.floor(limit) + 1.0  # the first whole-degree reading above it
        self._motors = [HeatPredictor() for _ in self._names]
        self._looked_ns: int | None = None
        self._readings: Readings = {}

    def measure(self, inputs: Inputs, now_ns: int) -> Readings:
        due = self._looked_ns is None or now_ns - self._looked_ns >= PERIOD_NS
        if inputs.state is not None and due:
            self._looked_ns = now_ns
            self._readings = self._see(inputs.state.whole().temperature, now_ns / 1e9)
        return self._readings

    def _see(self, temperatures: npt.NDArray[np.integer], now_s: float) -> Readings:
        left = []
        for motor, temperature in zip(self._motors, temperatures.tolist(), strict=True):
            motor.update(temperature, now_s)
            left.append(motor.time_left_s(self._limit, now_s))
        hottest = int(temperatures.argmax())
        first = int(np.argmin(left))
        return {
            "motor_temperature": Reading(float(temperatures[hottest]), self._names[hottest]),
            "motor_time_left_s": Reading(left[first], self._names[first]),
        }
