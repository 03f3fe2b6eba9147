"""Dry friction of each joint beyond the reference model's, learnt while its leg swings.

A leg in the air carries nothing: a torque that the reference model cannot explain, and that turns
round with the joint's direction, is friction. The two directions have means of their own, so an
offset (of a sensor, of a link's weight) does no harm, and a joint that turns one way only teaches
nothing.

What is believed, and made up for, follows by an adaptive law: a dead zone, a rate, projection onto
its bounds, and leakage where nothing is seen.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim2real_deploy.compiled import part
from sim2real_deploy.robots.state import Floats

Array = Any  # a numpy array, as the compiled loops see it
Vector = npt.NDArray[np.float64]

MEMORY_S = 0.7  # of swinging: time constant of forgetting
MOVES = 0.5  # rad/s: a slower joint may stick
SWINGS = 25.0  # N: a foot with more force may stand; friction alone looks like 10
SANE = 1.2  # of the torque limit: more is no reading
LEAST = 3.0  # samples in each direction, before anything is believed
FROM, UNTIL = 0.4, 0.25  # Nm: friction this large is believed, until this small
RATE = 1.5  # Nm/s: the most that what is believed changes
LEAKAGE = 0.2  # 1/s: of what is believed, where nothing is seen
LEAST_NM = 1e-3  # smaller values count as zero
NEVER = 10.0  # Nm: standard error of a joint of which nothing is known
CORRELATED = 2.0  # samples of one swing err alike: so many count as one
# Rows of the sums: samples, their torques and the squares, with the joint turning up, then down.
ROWS = 6
KEEP, STEP_S, STRAIN = range(3)  # places in `figures`


class Friction(NamedTuple):
    """`learn` from each leg that swings, `update` at `rate_hz`."""

    found: Array  # Nm, beyond the reference's, of each joint
    error: Array  # one standard error
    believed: Array  # Nm: of that, what is used
    bound: Array  # Nm: the most that is believed
    sane: Array
    sums: Array
    figures: Array  # of a sum, kept; from update to update, s; most that is found, by its bound

    @classmethod
    def of(cls, torque_limit: Floats, bound: Vector, rate_hz: float) -> "Friction":
        joints = len(torque_limit)
        return cls(
            found=np.zeros(joints),
            error=np.full(joints, NEVER),
            believed=np.zeros(joints),
            bound=bound,
            sane=SANE * torque_limit.astype(np.float64),
            sums=np.zeros((ROWS, joints)),
            figures=np.array([math.exp(-1.0 / (MEMORY_S * rate_hz)), 1.0 / rate_hz, 0.0]),
        )


@part
def learn(friction: Friction, joints: Array, speeds: Array, left: Array) -> None:
    """Add the unexplained torques of one swinging leg to the means of each direction."""
    sums = friction.sums
    for k in range(joints.size):
        joint, speed, torque = joints[k], speeds[joints[k]], left[k]
        for row in range(ROWS):
            sums[row, joint] *= friction.figures[KEEP]
        if abs(speed) > MOVES and abs(torque) < friction.sane[joint]:  # not so for NaN
            first = 0 if speed > 0.0 else 3
            sums[first, joint] += 1.0
            sums[first + 1, joint] += torque
            sums[first + 2, joint] += torque * torque


@part
def update(friction: Friction, grow: bool) -> None:
    """The means' half difference is friction; what is believed follows it. `grow`: no limit acts,
    so more may be believed."""
    sums, found, error = friction.sums, friction.found, friction.error
    believed, bound, step_s = friction.believed, friction.bound, friction.figures[STEP_S]
    strain = 0.0
    for j in range(found.size):
        ups, downs = sums[0, j], sums[3, j]
        seen = ups >= LEAST and downs >= LEAST
        if seen:
            up, down = sums[1, j] / ups, sums[4, j] / downs
            spread = max(sums[2, j] / ups - up * up, 0.0) / ups
            spread += max(sums[5, j] / downs - down * down, 0.0) / downs
            found[j], error[j] = (up - down) / 2.0, math.sqrt(CORRELATED * spread) / 2.0
            least = UNTIL if believed[j] > 0.0 else FROM
            wanted = min(found[j], bound[j]) if found[j] >= least else 0.0
            most = RATE * step_s
            more = most if grow else 0.0
            believed[j] += min(max(wanted - believed[j], -most), more)
            strain = max(strain, found[j] / bound[j])
        else:
            error[j] = NEVER
            believed[j] -= LEAKAGE * step_s * believed[j]
            if believed[j] < LEAST_NM:
                believed[j] = 0.0
    friction.figures[STRAIN] = strain
