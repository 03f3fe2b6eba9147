"""The left-right mirror of a robot, as a permutation and signs for joints and observations."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Term
from sim2real_deploy.policy.height_grid import grid_of
from sim2real_deploy.policy.terms import BY_GRID, BY_JOINT, TERMS
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import Symmetry


@dataclass(frozen=True, slots=True)
class Mirror:
    """`mirrored = signs * values[..., source]`; doing it twice changes nothing."""

    source: npt.NDArray[np.int64]
    signs: npt.NDArray[np.float32]

    def __call__(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return values[..., self.source] * self.signs


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
        mirror = TERMS[term.name].mirror if term.name in TERMS else None
        grid = grid_of(term)
        if mirror is None or (mirror == BY_GRID and grid is None):
            raise Refusal(f"observation '{term.name}': its mirror image is not known to training")
        if mirror == BY_JOINT:
            part, sign = joints.source, joints.signs
        elif grid is not None:
            part, sign = grid.mirrored, np.ones(len(grid.points), np.float32)
        else:
            sign = np.array(mirror, np.float32)
            part = np.arange(len(sign))
        for _ in range(term.history):
            sources.append(part + start)
            signs.append(sign)
            start += len(sign)
    return Mirror(np.concatenate(sources), np.concatenate(signs))
