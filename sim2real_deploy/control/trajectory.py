"""Standing up and being put down: smooth joint paths from the current command."""

from collections.abc import Sequence

import numpy as np

from sim2real_deploy.robots import JointCommand, RobotSpec
from sim2real_deploy.robots.state import Floats

MEAN_SPEED = 1.0  # rad/s, of the joint that moves furthest; the peak is 15/8 of it
SHORTEST_S = 0.4
LET_DOWN_S = 3.0  # from standing by itself to hanging in its gantry
NEAR_STAND = 0.7  # rad; from further away the legs fold first, or they would push outwards


def smooth(x: float) -> float:
    """Minimum-jerk blend from 0 to 1: no jump in velocity or acceleration."""
    x = min(max(x, 0.0), 1.0)
    return x * x * x * (x * (6.0 * x - 15.0) + 10.0)


class Trajectory:
    """Through a list of poses, at rest at each; gains reach the robot's own on the way to the
    first."""

    def __init__(
        self,
        start: JointCommand,
        poses: Sequence[Floats],
        spec: RobotSpec,
        now_ns: int,
        seconds: Sequence[float] = (),
    ) -> None:
        """`seconds` for each pose; by default as long as the joint that moves furthest needs."""
        self._start = start.copy()
        self._poses = [self._start.q, *poses]
        self._kp, self._kd = spec.kp, spec.kd
        self._times_s = [0.0]
        for taken in seconds or map(_unhurried, self._poses, self._poses[1:]):
            self._times_s.append(self._times_s[-1] + taken)
        self._start_ns = now_ns

    @property
    def duration_s(self) -> float:
        return self._times_s[-1]

    def fill(self, now_ns: int, out: JointCommand) -> bool:
        """Write the command for `now_ns`; True when the last pose is reached."""
        elapsed = (now_ns - self._start_ns) / 1e9
        times = self._times_s
        leg = 1
        while leg < len(times) - 1 and elapsed >= times[leg]:
            leg += 1
        x = smooth((elapsed - times[leg - 1]) / (times[leg] - times[leg - 1]))
        mix(self._poses[leg - 1], self._poses[leg], x, out.q)
        settled = smooth(elapsed / times[1])
        mix(self._start.kp, self._kp, settled, out.kp)
        mix(self._start.kd, self._kd, settled, out.kd)
        out.dq.fill(0.0)
        out.torque.fill(0.0)
        return elapsed >= self.duration_s


def _unhurried(before: Floats, after: Floats) -> float:
    return max(SHORTEST_S, float(np.max(np.abs(after - before))) / MEAN_SPEED)


def stand_up(start: JointCommand, spec: RobotSpec, now_ns: int) -> Trajectory:
    far = _is_far_from_standing(start, spec)
    poses = [spec.sit_pose, spec.stand_pose] if far else [spec.stand_pose]
    return Trajectory(start, poses, spec, now_ns)


class LetDown:
    """For a robot that cannot lie down: the joints hold their pose and slowly go soft, so that the
    gantry takes the load."""

    def __init__(self, start: JointCommand, spec: RobotSpec, now_ns: int) -> None:
        self._start, self._damping, self._start_ns = start.copy(), spec.damping, now_ns
        self._stiffness = np.zeros_like(self._start.kp)

    def fill(self, now_ns: int, out: JointCommand) -> bool:
        elapsed = (now_ns - self._start_ns) / 1e9
        x = smooth(elapsed / LET_DOWN_S)
        np.copyto(out.q, self._start.q)
        mix(self._start.kp, self._stiffness, x, out.kp)
        mix(self._start.kd, self._damping, x, out.kd)
        out.dq.fill(0.0)
        out.torque.fill(0.0)
        return elapsed >= LET_DOWN_S


def put_down(start: JointCommand, spec: RobotSpec, now_ns: int) -> "Trajectory | LetDown":
    """The last movement before damping, as `put_down` in the robot's config.

    A standing robot may be in the middle of a step: all feet go to the ground before the legs fold,
    or it would tip over towards the raised foot.
    """
    if spec.put_down == "gantry":
        return LetDown(start, spec, now_ns)
    far = _is_far_from_standing(start, spec)
    poses = [spec.sit_pose] if far else [spec.stand_pose, spec.sit_pose]
    return Trajectory(start, poses, spec, now_ns)


def _is_far_from_standing(start: JointCommand, spec: RobotSpec) -> bool:
    return float(np.max(np.abs(start.q - spec.stand_pose))) > NEAR_STAND


def mix(before: Floats, after: Floats, x: float, out: Floats) -> None:
    """Interpolate from `before` at 0 to `after` at 1, exact at both ends."""
    if x >= 1.0 or x <= 0.0:
        np.copyto(out, after if x >= 1.0 else before)
        return
    np.subtract(after, before, out=out)
    np.multiply(out, np.float32(x), out=out)
    np.add(out, before, out=out)
