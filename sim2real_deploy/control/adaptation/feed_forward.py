"""The torque added to each joint: what the payload and its own friction take, bounded; compiled."""

import math
from typing import Any

from sim2real_deploy.compiled import part
from sim2real_deploy.control.adaptation.leg_loads import DQ, TORQUE

Array = Any  # a numpy array, as the compiled loops see it
TURNS = 0.3  # rad/s: a joint this fast gets most of what its friction takes
LEAST_TORQUE = 1e-3  # Nm: less is none


@part
def feed_forward(
    seen: Array,
    shares: Array,
    leg_of: Array,
    friction: Array,
    bounds: Array,
    keep: float,
    level: float,
    carried: Array,
    out: Array,
) -> bool:
    """`seen`: see Seen. A leg that stands gets the payload's share of its own torque (`carried`,
    filtered), a joint that moves what its friction takes. False: nothing is added."""
    some = False
    for joint in range(bounds.size):
        torque, speed, bound = seen[TORQUE, joint], seen[DQ, joint], bounds[joint]
        if math.isfinite(torque):  # else everything stays as it was
            wanted = min(max(shares[leg_of[joint]] * torque, -bound), bound)
            carried[joint] += keep * (wanted - carried[joint])
        if abs(carried[joint]) < LEAST_TORQUE:
            carried[joint] = 0.0
        rubs = friction[joint] * math.tanh(speed / TURNS) if math.isfinite(speed) else 0.0
        out[joint] = level * min(max(carried[joint] + rubs, -bound), bound)
        some = some or carried[joint] != 0.0 or friction[joint] > 0.0
    return some
