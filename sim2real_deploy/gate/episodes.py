"""One episode of the gate: control, limits and the supervisor's logic on a simulated robot.

All randomness comes from (scenario, trial): the result is the same on any machine.
"""

import gc
from dataclasses import dataclass
from functools import reduce
from math import cos, pi, sin
from operator import or_

import numpy as np

from sim2real_deploy.control.modes import Mode
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import SEEN_EVERY, Drive, fallen
from sim2real_deploy.gate.engines import open_robot
from sim2real_deploy.gate.figures import EpisodeFigures, Record
from sim2real_deploy.gate.scenarios import Pushes, Scenario, Start, Success
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.robots.geometry import heading
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.faults import Fault
from sim2real_deploy.twin.height_scan import TYPICAL
from sim2real_deploy.twin.robot import Truth, TwinRobot

REST_S = 0.5  # for a dropped robot to come to rest
HESITATION_S = 0.5  # at most, before the first command, so that gait phases differ
AXES = ("forward", "sideways", "turning")
UNITS = ("m/s", "m/s", "rad/s")


@dataclass(frozen=True, slots=True)
class Episode:
    """Result of one run; `reason` is why it failed, `ended_s` when, if it ended early."""

    scenario: str
    trial: int
    success: bool
    reason: str
    fell: bool
    ended_s: float | None
    figures: EpisodeFigures | None  # None where it never walked


def run_episode(bundle: Bundle, engine: str, scenario: Scenario, trial: int) -> Episode:
    """Run it with the garbage collector off; afterwards only the episode's objects are collected.
    Each of the two saves 5 % of the time."""
    gc.disable()
    gc.freeze()
    try:
        return watch_episode(bundle, engine, scenario, trial)[0]
    finally:
        gc.collect()
        gc.unfreeze()
        gc.enable()


def watch_episode(
    bundle: Bundle, engine: str, scenario: Scenario, trial: int, adaptation: str = "none"
) -> tuple[Episode, Record]:
    """The episode with its record, which is empty if the robot never walked."""
    conditions = scenario.conditions(bundle.spec, trial)
    robot = open_robot(
        engine, bundle.spec, conditions.floor, conditions.imperfections, conditions.payload
    )
    robot.reset(conditions.seed)
    drive = Drive(bundle, robot, scenario.stage, True, adaptation, scan_errors=TYPICAL)
    walk = _Walk(drive, scenario, np.random.default_rng(conditions.seed))
    try:
        walk.begin()
    except Refusal as refusal:
        why = str(refusal)
        return Episode(scenario.name, trial, False, why, False, 0.0, None), walk.record
    walk.run()
    figures = walk.record.figures(robot)
    reason = walk.ended or _shortcoming(figures, scenario.success)
    episode = Episode(scenario.name, trial, not reason, reason, walk.fell, walk.ended_s, figures)
    return episode, walk.record


class _Walk:
    """The run itself: commands, faults, pushes, and what is recorded of it."""

    def __init__(self, drive: Drive, scenario: Scenario, rng: np.random.Generator) -> None:
        assert drive.safety is not None
        self._drive, self._scenario, self._rng = drive, scenario, rng
        self._robot = drive.robot
        self._rate_hz = drive.spec.wire.rate_hz
        self._supervisor = drive.safety.supervisor
        self.record = Record(self._rate_hz / SEEN_EVERY)
        self.record.torque = np.zeros(drive.spec.joint_count)
        self.ended = ""  # why, if early
        self.ended_s: float | None = None
        self.fell = False

    def begin(self) -> None:
        """Stand up and hand over to the policy, displaced as the scenario asks."""
        start = self._scenario.start
        if start is not None and start.pose == "lying":
            _displace(self._robot, start, self._rng)
            self._rest(REST_S)
        self._drive.stand()
        if start is not None and start.pose == "standing":
            _displace(self._robot, start, self._rng)
        self._drive.walk()
        self._rest(self._rng.uniform(0, HESITATION_S))

    def _rest(self, seconds: float) -> None:
        for _ in range(int(seconds * self._rate_hz)):
            self._drive.tick()

    def run(self) -> None:
        scenario, tick = self._scenario, 0
        faults = sorted(scenario.faults, key=lambda fault: fault.at)
        pushes = scenario.pushes
        push_s = pushes.every * self._rng.uniform(0.5, 1.0) if pushes else np.inf
        for command in scenario.commands:
            for age in range(round(command.seconds * self._rate_hz)):
                now_s = tick / self._rate_hz
                while faults and now_s >= faults[0].at:
                    fault = faults.pop(0)
                    self._robot.inject(Fault(**fault.model_dump(exclude={"at"})))
                if pushes and now_s >= push_s:
                    self._robot.push(_push(pushes, self._robot.truth, self._rng))
                    push_s += pushes.every * self._rng.uniform(0.75, 1.25)
                self._tick(command.velocity, tick, age)
                tick += 1
                if self.ended:
                    self.ended_s = now_s
                    return

    def _tick(self, velocity: tuple[float, float, float], tick: int, age: int) -> None:
        drive, record = self._drive, self.record
        drive.walk_at(velocity)
        state = drive.tick()
        controller = drive.controller
        record.ticks += 1
        record.limited[reduce(or_, controller.limiter.acted)] += 1
        if controller.walking.stepped and controller.policy is not None:
            record.targets.append(controller.policy.target.copy())
            record.surprise.append(controller.surprise)
        if state is not None:
            np.maximum(record.torque, np.abs(state.torque), out=record.torque)
        if tick % SEEN_EVERY == 0:
            if state is not None:
                record.temperature = max(record.temperature, float(state.whole().temperature.max()))
            record.truths.append(self._robot.truth)
            record.commands.append(velocity)
            record.command_age.append(age / self._rate_hz)
            self._look(record.truths[-1], tick / self._rate_hz)

    def _look(self, truth: Truth, now_s: float) -> None:
        if fallen(self._robot, truth):
            self.fell, self.ended = True, f"fell after {now_s:.1f} s"
        elif self._supervisor.latched:
            self.ended = f"stopped by safety: {self._supervisor.latched_reason}"
        elif self._drive.controller.mode is not Mode.WALKING:
            self.ended = f"no longer walking: {self._drive.controller.reason}"


def _displace(robot: TwinRobot, start: Start, rng: np.random.Generator) -> None:
    truth, spec = robot.truth, robot.robot
    joints = truth.joint_position + rng.uniform(-start.joints, start.joints, spec.joint_count)
    joints = np.clip(joints, spec.position_low, spec.position_high)
    way, axis = rng.uniform(-pi, pi, 2)
    half = rng.uniform(0, start.tilt) / 2
    leaning = np.array([cos(half), sin(half) * cos(axis), sin(half) * sin(axis), 0.0])
    height = np.nan if start.pose == "standing" else truth.position[2] + start.drop
    speed = rng.uniform(0, start.speed)
    robot.place(
        np.array([*truth.position[:2], height, *leaning]),
        np.array([speed * cos(way), speed * sin(way), 0.0, 0.0, 0.0, 0.0]),
        joints,
        np.zeros(spec.joint_count),
    )


def _push(pushes: Pushes, truth: Truth, rng: np.random.Generator) -> Push:
    lateral = pushes.direction == "lateral"
    if lateral:
        angle = heading(truth.quaternion) + rng.choice((-pi / 2, pi / 2))
    else:
        angle = rng.uniform(-pi, pi)
    direction = (cos(angle), sin(angle), 0.0)
    return Push(force=pushes.force, direction=direction, duration=pushes.duration)


def _shortcoming(figures: EpisodeFigures, wanted: Success) -> str:
    """What a completed run fails in; "" if nothing."""
    bounds = (wanted.linear_error, wanted.linear_error, wanted.turning_error)
    for axis, unit, error, bound in zip(AXES, UNITS, figures.error, bounds, strict=True):
        if not error <= bound:
            return f"{axis} speed off by {error:.2f} {unit}, more than {bound:g}"
    if figures.distance < wanted.distance:
        return f"went {figures.distance:.1f} m, less than {wanted.distance:g}"
    return ""
