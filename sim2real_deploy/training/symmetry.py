"""The left-right mirror of a robot, as a permutation and signs for joints and observations."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Term
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import Symmetry


@dataclass(frozen=True, slots=True)
class Mirror:
    """`mirrored = signs * values[..., source]`; doing it twice changes nothing."""

    source: npt.NDArray[np.int64]
    signs: npt.NDArray[np.float32]

    def __call__(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return values[..., self.source] * self.signs


# Vectors turn over at the plane y = 0; turning rates are axial and so change the other way round.
# A trot seen in the mirror is the same trot half a period later: both clock terms change sign.
SIGNS: dict[str, tuple[float, ...]] = {
    "base_ang_vel": (-1, 1, -1),
    "projected_gravity": (1, -1, 1),
    "velocity_command": (1, -1, -1),
    "gait_phase": (-1, -1),
}
JOINT_TERMS = ("joint_pos_rel", "joint_vel", "last_action")


def leg_mirror(robot: RobotSpec, symmetry: Symmetry) -> dict[str, str]:
    """Each leg's counterpart, both ways."""
    both = {**symmetry.swap, **{b: a for a, b in symmetry.swap.items()}}
    if set(both) != set(robot.legs):
        raise Refusal(
            f"symmetry.swap names the legs {sorted(both)}, the robot has {sorted(robot.legs)}"
        )
    return both


def joint_mirror(robot: RobotSpec, symmetry: Symmetry) -> Mirror:
    source = np.arange(len(robot.joints))
    for leg, other in leg_mirror(robot, symmetry).items():
        pairs = zip(robot.legs[leg].joints, robot.legs[other].joints, strict=True)
        for mine, theirs in pairs:
            source[robot.joint_names.index(mine)] = robot.joint_names.index(theirs)
    signs = [-1.0 if name.endswith(symmetry.negate) else 1.0 for name in robot.joint_names]
    return Mirror(source, np.array(signs, np.float32))


def observation_mirror(terms: tuple[Term, ...], joints: Mirror) -> Mirror:
    sources: list[npt.NDArray[np.int64]] = []
    signs: list[npt.NDArray[np.float32]] = []
    start = 0
    for term in terms:
        if term.name in JOINT_TERMS:
            part, sign = joints.source, joints.signs
        elif term.name in SIGNS:
            sign = np.array(SIGNS[term.name], np.float32)
            part = np.arange(len(sign))
        else:
            raise Refusal(f"observation '{term.name}': its mirror image is not known to training")
        for _ in range(term.history):
            sources.append(part + start)
            signs.append(sign)
            start += len(sign)
    return Mirror(np.concatenate(sources), np.concatenate(signs))
