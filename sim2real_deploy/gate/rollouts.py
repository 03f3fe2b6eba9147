"""A policy in the imperfect twin, under a command and whatever makes it hard: what came of it.

The model is not the one training uses: full collision geometry, torques from a 500 Hz PD law,
motors with lag, friction and play, noisy sensors, late and lost messages.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim2real_deploy.gate.drive import SEEN_EVERY, Drive, fallen, heading_velocity
from sim2real_deploy.gate.engines import FIRST, open_robot
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.robot import Truth, Vector

SETTLE_S = 3.0  # after the command is given, before anything is judged
PUSH_S = 0.05  # short: a kick, not a shove


@dataclass(frozen=True, slots=True)
class Trial:
    """One condition. Pushes come from all sides in turn, each worth a speed of the whole robot."""

    name: str
    command: tuple[float, float, float]
    seconds: float = 20.0
    floor: Floor = field(default_factory=Floor)
    payload: float = 0.0  # kg on the trunk
    delay: float = 0.0  # s, added to each command
    strength: float = 1.0  # of the motors, on top of the twin's own
    push_speed: float = 0.0  # m/s
    push_every: float = 3.0  # s


@dataclass(frozen=True, slots=True)
class Result:
    fell: bool
    velocity: Vector  # vx, vy, wz, mean over the judged time, in the robot's heading
    error: Vector  # of vx, vy, wz: mean deviation of its one-second averages from the command
    tilt: float  # rad, the most
    torque: float  # the most, as a share of the joint's limit
    touched: tuple[str, ...]  # what else than feet touched anything
    contact: npt.NDArray[np.bool_]  # feet on the ground, one row per look


def imperfect(trial: Trial, base: Imperfections) -> Imperfections:
    """The twin's own imperfections made worse by what the trial says."""
    motors, bus = base.motors, base.command_bus
    return base.model_copy(
        update={
            "motors": motors.scaled(trial.strength, 1.0),
            "command_bus": bus.model_copy(update={"delay": bus.delay + trial.delay}),
        }
    )


def roll_out(bundle: Bundle, trial: Trial, imperfections: Imperfections, seed: int) -> Result:
    """Stand up, walk, judge: the control code is the robot's own."""
    worse = imperfect(trial, imperfections)
    robot = open_robot(FIRST, bundle.spec, trial.floor, worse, trial.payload)
    robot.reset(seed)
    drive = Drive(bundle, robot)
    drive.stand_and_walk()
    return Judge(drive, trial, seed).watch()


class Judge:
    def __init__(self, drive: Drive, trial: Trial, seed: int):
        self.drive, self.robot, self.trial = drive, drive.robot, trial
        self.rate_hz = drive.spec.wire.rate_hz / SEEN_EVERY
        self._rng = np.random.default_rng(seed)

    def watch(self) -> Result:
        drive, trial, rate = self.drive, self.trial, self.drive.spec.wire.rate_hz
        truths: list[Truth] = []
        torque = 0.0
        next_push = trial.push_every
        fell = False
        for tick in range(round(trial.seconds * rate)):
            drive.walk_at(trial.command)
            state = drive.tick()
            if state is not None and tick > SETTLE_S * rate:
                share = np.abs(state.torque) / drive.spec.torque_limit
                torque = max(torque, float(share.max()))
            if tick % SEEN_EVERY == 0:
                truths.append(self.robot.truth)
                fell = fallen(self.robot, truths[-1])
                if fell:
                    break
            if trial.push_speed and tick / rate > next_push:
                self._push()
                next_push += trial.push_every
        return self._judge(truths, torque, fell)

    def _push(self) -> None:
        angle = self._rng.uniform(-np.pi, np.pi)
        force = self.robot.mass * self.trial.push_speed / PUSH_S
        self.robot.push(
            Push(force=force, direction=(np.cos(angle), np.sin(angle), 0.0), duration=PUSH_S)
        )

    def _judge(self, truths: list[Truth], torque: float, fell: bool) -> Result:
        judged = truths[round(SETTLE_S * self.rate_hz) :] or truths
        velocity = np.array([heading_velocity(truth) for truth in judged])
        window = min(len(velocity), round(self.rate_hz))
        kernel = np.ones(window) / window
        smooth = np.stack([np.convolve(axis, kernel, "valid") for axis in velocity.T])
        return Result(
            fell=fell,
            velocity=velocity.mean(0),
            error=np.abs(smooth - np.array(self.trial.command)[:, None]).mean(1),
            tilt=max(tilt(truth.quaternion) for truth in judged),
            torque=torque,
            touched=tuple(sorted({name for truth in judged for name in truth.contacts})),
            contact=np.array([truth.foot_force > 1.0 for truth in truths]),
        )
