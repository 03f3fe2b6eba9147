"""What the robot carries: the weight on its feet, as joint torques show it, against its own.

Over a few strides the feet carry the robot's weight, however it walks, so a mean of the vertical
force tells the mass. One leg per call: that spreads the work over the ticks. The feet that stand
tell the trunk's velocity, too, and the legs that swing their joints' friction.
"""

import math

import numpy as np

from sim2real_deploy.control.adaptation.friction import SWINGS, FrictionEstimator
from sim2real_deploy.control.adaptation.leg_loads import LegMeter
from sim2real_deploy.control.adaptation.reference import Reference
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.odometry import GRAVITY, legs_of

MEMORY_S = 0.5  # time constant of each of two filters in a row: a gait's bounce does not pass
SETTLED = 6.0  # memories, before the mean is believed
LARGEST_LOAD = 500.0  # N: no foot of a robot that walks carries more
CARRIES_FROM, CARRIES_FULL = 10.0, 40.0  # N: below the first a foot swings, above the second stands
STANDS_FROM, STANDS_FULL = 15.0, 40.0  # N: from the first on a foot tells the trunk's velocity
SLIPPING = 0.1  # m/s off the mean velocity, at which a foot counts for half
USUAL = 0.1  # of each new velocity, in that mean
LEAST_WEIGHT = 0.3  # of the feet seen in a step; below it, what they say is a touchdown or a slip
UNKNOWN_KG = 10.0  # standard error while nothing is known
RIPPLE_KG = 0.2  # how far the mean differs from command to command, and with a leg's friction


class PayloadEstimator:
    """`learn` from one leg after another, at `rate_hz` each."""

    def __init__(
        self, spec: RobotSpec, reference: Reference, friction: FrictionEstimator, rate_hz: float
    ) -> None:
        self.legs = legs_of(spec)
        self._friction = friction
        self._joints = [np.array(leg.joints, np.int64) for leg in self.legs]
        self.carries = [0.0] * len(self.legs)  # each foot: 0 it swings, 1 it stands
        self.payload_kg = 0.0
        self.error_kg = UNKNOWN_KG  # one standard error
        self._mass_kg = reference.mass_kg
        self._meter = LegMeter(spec, self.legs, reference)
        self._walked = [0.0, 0.0, 0.0]  # vx and vy over standing feet, summed, and their weights
        self._mean_walked = (0.0, 0.0)
        self._loads = [0.0] * len(self.legs)
        self._keep = 1.0 - math.exp(-1.0 / (MEMORY_S * rate_hz))
        self._means = [reference.mass_kg * GRAVITY] * 2
        self._cycles = 0
        self._settled = round(SETTLED * MEMORY_S * rate_hz)

    def prepare(self, state: RobotState) -> None:
        """Call in the tick before the first leg."""
        self._meter.prepare(state)

    def learn(self, leg: int, state: RobotState, limited: bool) -> None:
        """From one leg; after the last one the mean load is updated. Friction is not learnt while a
        limit acts."""
        load = self._meter.measure(leg, state, self._friction.believed)
        vx, vy, _ = self._meter.velocity.tolist()
        if math.isfinite(load) and self._meter.force < SWINGS and not limited:
            self._friction.learn(self._joints[leg], state.dq, self._meter.left)
        if abs(load) < LARGEST_LOAD and math.isfinite(vx + vy):  # not so for NaN
            self._loads[leg] = load
            carried = (load - CARRIES_FROM) / (CARRIES_FULL - CARRIES_FROM)
            self.carries[leg] = min(max(carried, 0.0), 1.0)
            self._walk(load, vx, vy)
        if leg == len(self.legs) - 1:
            self._weigh(sum(self._loads))

    def trunk_velocity(self) -> tuple[float, float] | None:
        """The trunk's mean vx and vy since the last call; None if no foot stood firmly."""
        vx, vy, weight = self._walked
        self._walked = [0.0, 0.0, 0.0]
        if not weight:
            return None
        vx, vy = vx / weight, vy / weight
        was_vx, was_vy = self._mean_walked
        self._mean_walked = was_vx + USUAL * (vx - was_vx), was_vy + USUAL * (vy - was_vy)
        return (vx, vy) if weight >= LEAST_WEIGHT else None

    def _walk(self, load: float, vx: float, vy: float) -> None:
        """A foot counts by its load, and less where it moves unlike the others: it slips, or has
        just touched down."""
        weight = min(max((load - STANDS_FROM) / (STANDS_FULL - STANDS_FROM), 0.0), 1.0)
        slip = math.dist((vx, vy), self._mean_walked) / SLIPPING
        weight /= 1.0 + slip * slip
        sums = self._walked
        self._walked = [sums[0] + weight * vx, sums[1] + weight * vy, sums[2] + weight]

    def _weigh(self, load: float) -> None:
        means = self._means
        for stage in range(len(means)):
            means[stage] += self._keep * (load - means[stage])
            load = means[stage]
        self._cycles += 1
        if self._cycles >= self._settled:
            self.payload_kg = load / GRAVITY - self._mass_kg
            self.error_kg = RIPPLE_KG
