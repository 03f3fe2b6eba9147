"""From the record of an episode to the figures it is judged by."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.limits import Limit
from sim2real_deploy.gate.drive import heading_velocity
from sim2real_deploy.gate.scenarios import SETTLE_S
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.twin.robot import Truth, TwinRobot, Vector

CARRIES = 0.05  # share of the weight from which a foot counts as standing
WINDOW_S = 1.0  # averaging window of velocity: a gait sways
LEAST_WAY = 0.5  # m, the least distance for figures per metre
GRAVITY = 9.81


@dataclass(frozen=True, slots=True)
class EpisodeFigures:
    """Figures of one episode; those per metre are None if it hardly moved."""

    velocity: tuple[float, float, float]  # vx, vy, wz reached, mean of the judged time
    error: tuple[float, float, float]  # of vx, vy, wz: mean of |one-second average - command|
    distance: float  # m from where it began
    cost_of_transport: float | None  # mechanical work / (weight * distance)
    torque: float  # peak, as a share of the joint's limit
    temperature: float  # peak, degrees C
    surprise: float  # RMS z-score of observations against training, about 1 there; 0 if unknown
    smoothness: float  # rad: mean second difference of the targets between policy steps
    slip: float | None  # m of foot sliding per m walked
    lift: float  # m, p90 - p10 of foot height above the ground
    clearance: float  # m, mean sole height of swinging feet
    knocks: float  # share of time with contacts other than the feet
    limits: dict[str, float]  # share of ticks in which this limit acted


@dataclass(slots=True)
class Record:
    """Samples of an episode; for speed, ground truth is taken only every few ticks."""

    rate_hz: float  # of the samples
    truths: list[Truth] = field(default_factory=list)
    commands: list[tuple[float, float, float]] = field(default_factory=list)
    command_age: list[float] = field(default_factory=list)  # s
    targets: list[Floats] = field(default_factory=list)  # one per policy step
    surprise: list[float] = field(default_factory=list)  # one per policy step as well
    torque: Vector = field(default_factory=lambda: np.zeros(0))  # peak of each joint
    temperature: float = 0.0
    ticks: int = 0
    limited: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))

    def figures(self, robot: TwinRobot) -> EpisodeFigures:
        truths = self.truths
        position = np.array([truth.position for truth in truths])
        velocity = np.array([heading_velocity(truth) for truth in truths])
        judged = np.array(self.command_age) >= SETTLE_S
        if not judged.any():
            judged[:] = True
        way = float(np.linalg.norm(np.diff(position[:, :2], axis=0), axis=1).sum())
        went = way >= LEAST_WAY
        vx, vy, wz = velocity[judged].mean(0).tolist()
        return EpisodeFigures(
            velocity=(vx, vy, wz),
            error=self._error(velocity),
            distance=float(np.linalg.norm(position[-1, :2] - position[0, :2])),
            cost_of_transport=self._work() / (robot.mass * GRAVITY * way) if went else None,
            torque=float((self.torque / robot.robot.torque_limit).max()),
            temperature=self.temperature,
            surprise=float(np.mean(self.surprise)) if self.surprise else 0.0,
            smoothness=self._smoothness(),
            slip=self._slide(CARRIES * robot.mass * GRAVITY) / way if went else None,
            lift=self._lift(robot),
            clearance=self._clearance(robot, CARRIES * robot.mass * GRAVITY),
            knocks=float(np.mean([bool(truth.contacts) for truth in truths])),
            limits={kind.name.lower(): self._share(kind) for kind in Limit if self._share(kind)},
        )

    def _error(self, velocity: Vector) -> tuple[float, float, float]:
        """Each command by itself, without its settling time."""
        deviations = []
        commands, ages = np.array(self.commands), np.array(self.command_age)
        for part in np.split(np.arange(len(ages)), np.flatnonzero(np.diff(ages) < 0) + 1):
            judged = part[ages[part] >= SETTLE_S]
            if not len(judged):
                continue
            kernel = np.ones(min(len(judged), round(WINDOW_S * self.rate_hz)))
            smooth = [
                np.convolve(axis, kernel / len(kernel), "valid") for axis in velocity[judged].T
            ]
            deviations.append(np.abs(np.stack(smooth, 1) - commands[judged[0]]))
        if not deviations:
            deviations = [np.abs(velocity - commands)]
        vx, vy, wz = np.concatenate(deviations).mean(0).tolist()
        return vx, vy, wz

    def _smoothness(self) -> float:
        jumps = np.abs(np.diff(self.targets, 2, axis=0)) if len(self.targets) > 2 else np.zeros(1)
        return float(jumps.mean())

    def _work(self) -> float:
        """J; braking recovers nothing."""
        power = [np.abs(truth.joint_torque * truth.joint_velocity).sum() for truth in self.truths]
        return float(np.sum(power)) / self.rate_hz

    def _slide(self, standing: float) -> float:
        feet = np.array([truth.foot_position for truth in self.truths])[:, :, :2]
        down = np.array([truth.foot_force for truth in self.truths]) > standing
        moved = np.linalg.norm(np.diff(feet, axis=0), axis=2)
        return float(moved[down[1:] & down[:-1]].sum())

    def _clearance(self, robot: TwinRobot, standing: float) -> float:
        """Relative to the height at which the same foot stands, so that sole radius and compliance
        cancel."""
        height = self._foot_heights(robot)
        up = np.array([truth.foot_force for truth in self.truths]) <= standing
        feet = range(height.shape[1])
        means = [
            height[up[:, n], n].mean() - np.percentile(height[:, n], 10)
            for n in feet
            if up[:, n].any()
        ]
        return float(np.mean(means)) if means else 0.0

    def _lift(self, robot: TwinRobot) -> float:
        high, low = np.percentile(self._foot_heights(robot), (90, 10), axis=0)
        return float((high - low).mean())

    def _foot_heights(self, robot: TwinRobot) -> Vector:
        """Above the ground under each foot: samples x feet."""
        feet = np.array([truth.foot_position for truth in self.truths])
        return np.asarray(feet[:, :, 2] - robot.floor.height(feet[:, :, 0], feet[:, :, 1]))

    def _share(self, kind: Limit) -> float:
        counted = sum(int(n) for bits, n in enumerate(self.limited) if bits & kind)
        return counted / max(self.ticks, 1)
