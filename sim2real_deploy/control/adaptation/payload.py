"""What the robot carries: the weight on its feet, as joint torques show it, against the expected.

Over a few strides the feet carry the robot's weight, however it walks, so a mean of the vertical
force tells the mass. Plain numbers throughout, and one leg per call: that spreads the work of the
legs' kinematics over the ticks.
"""

import math

from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.geometry import gravity_in_body
from sim2real_deploy.robots.legs import foot_force
from sim2real_deploy.robots.odometry import GRAVITY, legs_of

MEMORY_S = 0.5  # time constant of each of two filters in a row: a gait's bounce does not pass
SETTLED = 6.0  # memories, before the mean is believed
LARGEST_LOAD = 500.0  # N: no foot of a robot that walks carries more
CARRIES_FROM, CARRIES_FULL = 10.0, 40.0  # N: below the first a foot swings, above the second stands
UNKNOWN_KG = 10.0  # standard error while nothing is known
RIPPLE_KG = 0.3  # how far the healthy robot's mean differs from command to command


class PayloadEstimator:
    """`look` at one leg after another, at `rate_hz` each."""

    def __init__(self, spec: RobotSpec, supported_kg: float, rate_hz: float) -> None:
        self.legs = legs_of(spec)
        self.carries = [0.0] * len(self.legs)  # each foot: 0 it swings, 1 it stands
        self.payload_kg = 0.0
        self.error_kg = UNKNOWN_KG  # one standard error
        self._supported_kg = supported_kg
        self._loads = [0.0] * len(self.legs)
        self._keep = 1.0 - math.exp(-1.0 / (MEMORY_S * rate_hz))
        self._means = [supported_kg * GRAVITY] * 2
        self._looks = 0
        self._settled = round(SETTLED * MEMORY_S * rate_hz)

    def look(self, leg: int, state: RobotState) -> None:
        """At the load of one leg; after the last one the mean is brought up to date."""
        q, torque = state.q.tolist(), state.torque.tolist()
        if not math.isfinite(sum(q)):
            return
        down = gravity_in_body(state.attitude())
        columns = self.legs[leg].pose(q).columns
        push = foot_force(columns, [torque[joint] for joint in self.legs[leg].joints])
        load = push[0] * down[0] + push[1] * down[1] + push[2] * down[2]
        if abs(load) < LARGEST_LOAD:  # not so for NaN
            self._loads[leg] = load
            carried = (load - CARRIES_FROM) / (CARRIES_FULL - CARRIES_FROM)
            self.carries[leg] = min(max(carried, 0.0), 1.0)
        if leg == len(self.legs) - 1:
            self._weigh(sum(self._loads))

    def _weigh(self, load: float) -> None:
        means = self._means
        for stage in range(len(means)):
            means[stage] += self._keep * (load - means[stage])
            load = means[stage]
        self._looks += 1
        if self._looks >= self._settled:
            self.payload_kg = load / GRAVITY - self._supported_kg
            self.error_kg = RIPPLE_KG
