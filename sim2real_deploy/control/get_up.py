"""Getting up after a fall: fold the legs, and roll over if the robot then lies on its back.

With folded legs a robot comes to rest on its belly or on its back. From its back the same few poses
always roll it over, so no network is needed. The poses are `get_up` in the robot's config. Legs
that did not fold are caught in each other: they are parted, and folded again.
"""

import numpy as np

from sim2real_deploy.control.trajectory import Trajectory
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.spec import RollFrame
from sim2real_deploy.robots.state import Floats

FOLD_S, REST_S = 1.0, 0.3
FOLD_SPEED = 1.2  # rad/s, mean of the joint that moves furthest: it may lie under the trunk
# Legs may be crossed and would press on each other, so the hips turn outwards first.
OUTWARDS = 0.35  # rad
UNCROSS_WAY = 0.25  # how much of the fold the other joints do meanwhile
UNCROSS_S, UNCROSS_SPEED = 0.3, 2.0  # s at least; rad/s, mean of the joint that moves furthest
FOLDED = 0.5  # rad from the sit pose; a joint further away after the fold is caught
# Thigh and calf of the leg in front and the leg behind it, where two are caught in each other.
IN_FRONT, BEHIND = (-0.4, -2.6), (2.4, -1.0)
PART_S, OPEN_S = 0.6, 0.4
ATTEMPTS = 3  # to part the legs or to roll over
MARGIN = 0.05  # rad between a pose and a joint's stops, which differ between front and hind legs
ON_ITS_BELLY = 0.85  # cosine of the tilt
# Shares of the stage's torque limit. While a command is on its way, a roll turns joints fast enough
# to add the rest. Crossed legs press on each other with all the torque there is, so folding, which
# needs less, gets less.
ROLL_SHARE, FOLD_SHARE = 0.75, 0.6
DAMPING_SHARE = 0.2  # of the robot's kd, for the same reason


class GaveUpError(Exception):
    """The robot could not be brought onto its belly."""


class GetUp:
    """`fill` writes each tick's command until the robot lies folded on its belly."""

    def __init__(self, start: JointCommand, spec: RobotSpec, now_ns: int) -> None:
        if spec.get_up is None:
            raise GaveUpError(f"the config of {spec.title} has no `get_up` motion")
        self._spec, self._frames = spec, spec.get_up
        self._attempts = 0
        self.torque_share = FOLD_SHARE  # of the stage's limit
        way = float(np.max(np.abs(start.q - spec.sit_pose)))
        fold_s = max(FOLD_S, way / FOLD_SPEED)
        uncrossed = _outwards(spec, start.q + np.float32(UNCROSS_WAY) * (spec.sit_pose - start.q))
        uncross_s = float(np.max(np.abs(uncrossed - start.q))) / UNCROSS_SPEED
        poses = [uncrossed, spec.sit_pose, spec.sit_pose]
        seconds = (max(UNCROSS_S, uncross_s), (1 - UNCROSS_WAY) * fold_s, REST_S)
        self._movement = Trajectory(start, poses, spec, now_ns, seconds)

    def fill(self, now_ns: int, state: RobotState, out: JointCommand) -> bool:
        """True once it lies folded on its belly; raises GaveUpError after the last attempt."""
        done = self._movement.fill(now_ns, out)
        np.multiply(self._spec.kd, np.float32(DAMPING_SHARE), out=out.kd)
        if not done:
            return False
        w, x, y, z = state.attitude()
        on_its_belly = 1.0 - 2.0 * (x * x + y * y) > ON_ITS_BELLY
        off = np.abs(state.q - self._spec.sit_pose)
        worst = int(off.argmax())
        if on_its_belly and off[worst] <= FOLDED:
            return True
        if self._attempts == ATTEMPTS:
            name = self._spec.joint_names[worst]
            raise GaveUpError(
                f"its legs are caught: {name} is {off[worst]:.2f} rad from folded"
                if on_its_belly
                else f"it does not lie on its belly after {ATTEMPTS} attempts"
            )
        self._attempts += 1
        if on_its_belly:
            self._movement = self._part(out, state.q, now_ns)
        else:
            self._movement = self._roll(out, now_ns, to_left=w * x + y * z < 0)
        return False

    def _part(self, start: JointCommand, q: Floats, now_ns: int) -> Trajectory:
        """Part the legs that cross, the one in front forwards, then open the hips and fold."""
        self.torque_share = FOLD_SHARE
        spec = self._spec
        parted: Floats = q.copy()
        for pair in _pairs(spec):
            for joints, (thigh, calf) in zip(
                sorted(pair, key=lambda joints: q[joints[1]]), (IN_FRONT, BEHIND), strict=True
            ):
                parted[joints[1]], parted[joints[2]] = thigh, calf
        parted = _within(spec, parted)
        poses = [parted, _outwards(spec, parted), spec.sit_pose, spec.sit_pose]
        return Trajectory(start, poses, spec, now_ns, (PART_S, OPEN_S, FOLD_S, REST_S))

    def _roll(self, start: JointCommand, now_ns: int, to_left: bool) -> Trajectory:
        """Roll towards the side that is already lower."""
        self.torque_share = ROLL_SHARE
        spec, frames = self._spec, self._frames
        poses = [_pose(spec, frame, to_left) for frame in frames]
        poses += [spec.sit_pose, spec.sit_pose]
        seconds = (*(frame.seconds for frame in frames), FOLD_S, REST_S)
        return Trajectory(start, poses, spec, now_ns, seconds)


def _pairs(spec: RobotSpec) -> list[list[list[int]]]:
    """Joint numbers of the front legs and of the hind legs: those that can cross."""
    legs = {
        name: [spec.joint_names.index(joint) for joint in leg.joints]
        for name, leg in spec.legs.items()
    }
    return [[legs[name] for name in legs if name[0] == end] for end in ("F", "R")]


def _outwards(spec: RobotSpec, q: Floats) -> Floats:
    """These joints with the hips turned outwards."""
    pose = q.astype(np.float32)
    for name, leg in spec.legs.items():
        hip = spec.joint_names.index(leg.joints[0])
        pose[hip] = OUTWARDS if name.endswith("L") else -OUTWARDS
    return pose


def _pose(spec: RobotSpec, frame: RollFrame, to_left: bool) -> Floats:
    """A frame as joint angles; "outwards" has opposite signs on the left and right hips."""
    pose: Floats = spec.stand_pose.copy()
    for name, leg in spec.legs.items():
        left = name.endswith("L")
        out, thigh, calf = frame.lower if left == to_left else frame.upper
        values = (out if left else -out, thigh, calf)
        for joint, value in zip(leg.joints, values, strict=True):
            pose[spec.joint_names.index(joint)] = value
    return _within(spec, pose)


def _within(spec: RobotSpec, pose: Floats) -> Floats:
    return np.clip(pose, spec.position_low + MARGIN, spec.position_high - MARGIN)
