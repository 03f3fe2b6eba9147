"""A figure for every joint: one number for all, or numbers by name.

A name is a joint's, or an ending that several share ("calf_joint"); the full name takes precedence.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec

PerJoint = float | dict[str, float]


def within(low: float, high: float) -> AfterValidator:
    """Annotation for a PerJoint whose numbers must all be within these bounds."""

    def check(value: PerJoint) -> PerJoint:
        numbers = value.values() if isinstance(value, Mapping) else (value,)
        for number in numbers:
            if not low <= number <= high:
                raise ValueError(f"must be from {low:g} to {high:g}, not {number:g}")
        return value

    return AfterValidator(check)


def per_joint(
    value: PerJoint, robot: RobotSpec, key: str, otherwise: float | None = None
) -> npt.NDArray[np.float64]:
    """One number per joint in SDK order; a joint that is not named gets `otherwise`."""
    if not isinstance(value, Mapping):
        return np.full(robot.joint_count, float(value))
    unused = [name for name in value if not any(j.endswith(name) for j in robot.joint_names)]
    if unused:
        raise Refusal(f"{key}: {robot.name} has no joint {', '.join(unused)}")
    return np.array([_find(value, joint, key, otherwise) for joint in robot.joint_names])


def named(robot: RobotSpec, values: npt.NDArray[np.float64]) -> PerJoint:
    """Numbers in SDK order under the joints' names, as a file holds them."""
    return dict(zip(robot.joint_names, values.tolist(), strict=True))


def times(value: PerJoint, factor: float, most: float = math.inf) -> PerJoint:
    """Each number times a factor, at most `most`."""
    if isinstance(value, Mapping):
        return {name: min(x * factor, max(x, most)) for name, x in value.items()}
    return min(value * factor, max(value, most))


def _find(value: Mapping[str, float], joint: str, key: str, otherwise: float | None) -> float:
    fitting = [name for name in value if joint.endswith(name)]
    if fitting:
        return value[max(fitting, key=len)]
    if otherwise is None:
        raise Refusal(f"{key}: has no value for {joint}; name it, or an ending of it")
    return otherwise
