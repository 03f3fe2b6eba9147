"""What the robot carries: the weight on its feet, as joint torques show it, against its own.

Over a few strides the feet carry the robot's weight, however it walks, so a mean of the vertical
force tells the mass. One leg per call: that spreads the work over the ticks. The feet that stand
tell the trunk's velocity, too, and the legs that swing their joints' friction.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import part
from sim2real_deploy.control.adaptation.friction import SWINGS, Friction
from sim2real_deploy.control.adaptation.friction import learn as rub
from sim2real_deploy.control.adaptation.leg_loads import (
    DQ,
    LEFT,
    SIZE_OF_FORCE,
    Legs,
    Seen,
    measure,
)
from sim2real_deploy.control.adaptation.reference import Reference
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.odometry import GRAVITY, legs_of

Array = Any  # a numpy array
MEMORY_S = 0.5  # time constant of each of two filters in a row: a gait's bounce does not pass
SETTLED = 6.0  # memories, before the mean is believed
LARGEST_LOAD = 500.0  # N: no foot of a robot that walks carries more
CARRIES_FROM, CARRIES_FULL = 10.0, 40.0  # N: below the first a foot swings, above the second stands
STANDS_FROM, STANDS_FULL = 15.0, 40.0  # N: from the first on a foot tells the trunk's velocity
SLIPPING = 0.1  # m/s off the mean velocity, at which a foot counts for half
USUAL = 0.1  # of each new velocity, in that mean
LEAST_WEIGHT = 0.3  # of the feet seen in a step; below it, what they say is a touchdown or a slip
UNKNOWN_KG = 10.0  # standard error while nothing is known
PAYLOAD, ERROR = range(2)  # places in `believed`
MASS, KEEP = range(2)  # places in `figures`
CYCLES, BELIEVED_FROM = range(2)  # places in `memo`
RIPPLE_KG = 0.2  # how far the mean differs from command to command, and with a leg's friction


class Load(NamedTuple):
    """`learn` from one leg after another, at `rate_hz` each."""

    legs: Legs
    carries: Array  # each foot: 0 it swings, 1 it stands
    loads: Array  # N, on each foot
    means: Array  # of their sum: the two filters
    walked: Array  # vx and vy over standing feet, summed since the last `look`, and their weights
    usual: Array  # their mean over many steps
    velocity: Array  # vx and vy at the last `look`; NaN if no foot stood firmly
    believed: Array  # payload and its standard error, kg
    figures: Array
    memo: Array  # how often it was weighed, and until when that is not believed

    @classmethod
    def of(cls, spec: RobotSpec, reference: Reference, rate_hz: float) -> "Load":
        legs, keep = legs_of(spec), 1.0 - math.exp(-1.0 / (MEMORY_S * rate_hz))
        return cls(
            legs=Legs.of(spec, legs, reference),
            carries=np.zeros(len(legs)),
            loads=np.zeros(len(legs)),
            means=np.full(2, reference.mass_kg * GRAVITY),
            walked=np.zeros(3),
            usual=np.zeros(2),
            velocity=np.full(2, np.nan),
            believed=np.array([0.0, UNKNOWN_KG]),
            figures=np.array([reference.mass_kg, keep]),
            memo=np.array([0, round(SETTLED * MEMORY_S * rate_hz)]),
        )

    @property
    def payload_kg(self) -> float:
        return float(self.believed[PAYLOAD])

    @property
    def error_kg(self) -> float:
        """One standard error."""
        return float(self.believed[ERROR])


@part
def learn(load: Load, leg: int, seen: Seen, friction: Friction, limited: bool) -> None:
    """From one leg; after the last one the mean load is updated. Friction is not learnt while a
    limit acts."""
    legs = load.legs
    force, out = measure(legs, leg, seen, friction.believed), legs.out
    if math.isfinite(force) and out[SIZE_OF_FORCE] < SWINGS and not limited:
        rub(friction, legs.legs[leg, 0], seen.joints[DQ], out[LEFT:])
    if abs(force) < LARGEST_LOAD and math.isfinite(out[0] + out[1]):  # not so for NaN
        load.loads[leg] = force
        carried = (force - CARRIES_FROM) / (CARRIES_FULL - CARRIES_FROM)
        load.carries[leg] = min(max(carried, 0.0), 1.0)
        walk(load, force, out[0], out[1])
    if leg == load.loads.size - 1:
        weigh(load)


@part
def walk(load: Load, force: float, vx: float, vy: float) -> None:
    """A foot counts by its load, and less where it moves unlike the others: it slips, or has just
    touched down."""
    weight = min(max((force - STANDS_FROM) / (STANDS_FULL - STANDS_FROM), 0.0), 1.0)
    slip = math.hypot(vx - load.usual[0], vy - load.usual[1]) / SLIPPING
    weight /= 1.0 + slip * slip
    load.walked[0] += weight * vx
    load.walked[1] += weight * vy
    load.walked[2] += weight


@part
def look(load: Load) -> None:
    """The trunk's mean velocity since the last call."""
    walked, weight = load.walked, load.walked[2]
    for axis in range(2):
        load.velocity[axis] = math.nan
        if weight > 0.0:
            velocity = walked[axis] / weight
            load.usual[axis] += USUAL * (velocity - load.usual[axis])
            if weight >= LEAST_WEIGHT:
                load.velocity[axis] = velocity
    for k in range(walked.size):
        walked[k] = 0.0


@part
def weigh(load: Load) -> None:
    force, means, memo = 0.0, load.means, load.memo
    for leg in range(load.loads.size):
        force += load.loads[leg]
    for stage in range(means.size):
        means[stage] += load.figures[KEEP] * (force - means[stage])
        force = means[stage]
    memo[CYCLES] += 1
    if memo[CYCLES] >= memo[BELIEVED_FROM]:
        load.believed[PAYLOAD] = force / GRAVITY - load.figures[MASS]
        load.believed[ERROR] = RIPPLE_KG
