"""How well a policy does what it is told on one simulated robot."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from sim2real_deploy.analysis.gap.walk import Array
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import SEEN_EVERY, Drive, fallen, heading_velocity
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.twin.robot import TwinRobot

SEGMENTS, SEGMENT_S, SETTLE_S = 6, 4.0, 1.5
FASTEST = (0.6, 0.3, 0.5)  # m/s, m/s, rad/s


@dataclass(frozen=True, slots=True)
class Tracking:
    """Errors are of mean velocities over each command once it has settled; then means over all.

    What `settling` counts is in part beyond any policy: a robot cannot change its speed at once.
    """

    velocity: float  # m/s, in the plane
    turning: float  # rad/s
    falls: int
    stops: int  # by the safety chain
    walks: int
    settling: float  # m/s, in the plane: the momentary error, on average, in the first SETTLE_S

    @property
    def rank(self) -> tuple[int, float]:
        """The least is the best: staying upright comes before precision."""
        return self.falls + self.stops, self.velocity


def commands_of(seed: int) -> Array:
    """Velocities drawn at random, one row for each segment; the first is straight ahead."""
    asked = np.random.default_rng(seed).uniform(-1, 1, (SEGMENTS, 3)) * FASTEST
    asked[0] = 0.5, 0.0, 0.0
    return np.asarray(asked)


def track(bundle: Bundle, robot: TwinRobot, seeds: range) -> Tracking:
    """One walk for each seed, supervised, in lockstep. A walk that ends early counts with the
    commands that it did not reach as if it had stood still."""
    errors: list[Array] = []
    settling: list[Array] = []
    falls = stops = 0
    for seed in seeds:
        error, first, fell, stopped = _walk(bundle, robot, seed)
        errors.append(error)
        settling.append(first)
        falls, stops = falls + fell, stops + stopped
    missed = np.concatenate(errors)
    plane = np.hypot(missed[:, 0], missed[:, 1])
    turning = np.abs(missed[:, 2])
    first_s = float(np.concatenate(settling).mean())
    return Tracking(float(plane.mean()), float(turning.mean()), falls, stops, len(seeds), first_s)


def _walk(bundle: Bundle, robot: TwinRobot, seed: int) -> tuple[Array, Array, bool, bool]:
    """The settled errors of all commands, those while settling, whether it fell or was stopped."""
    robot.reset(seed)
    drive = Drive(bundle, robot, supervised=True)
    commands = commands_of(seed)
    rate = bundle.spec.wire.rate_hz
    missed = -commands
    settling = np.hypot(commands[:, 0], commands[:, 1])
    try:
        drive.stand_and_walk()
    except Refusal:  # too weak to stand: it follows none of the commands
        return missed, settling, False, True
    look = partial(fallen, robot)
    for number, command in enumerate(commands):
        first: list[Array] = []
        seen: list[Array] = []
        vx, vy, wz = command.tolist()
        for tick in range(round(SEGMENT_S * rate)):
            drive.walk_at((vx, vy, wz))
            drive.tick()
            if tick % SEEN_EVERY:
                continue
            truth = robot.base_truth
            if look(truth):
                return missed, settling, True, False
            if drive.controller.mode is not Mode.WALKING:
                return missed, settling, False, True
            (seen if tick > SETTLE_S * rate else first).append(heading_velocity(truth))
        missed[number] = np.mean(seen, axis=0) - command
        settling[number] = np.hypot(*(np.array(first) - command)[:, :2].T).mean()
    return missed, settling, False, False
