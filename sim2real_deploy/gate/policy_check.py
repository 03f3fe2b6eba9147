"""Two seconds in the twin for each basic command: stand still, and move along each axis.

The twin is ideal: this checks whether the contract makes sense; the gate measures robustness.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.checks import Check
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import (
    FALLEN_HEIGHT,
    SEEN_EVERY,
    Drive,
    heading_velocity,
)
from sim2real_deploy.policy.alternatives import alternatives
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.robot import TwinRobot

SECONDS = 2.0
JUDGED = 1.0  # s at the end of each
SPEED = 0.5  # m/s or rad/s commanded, if the policy was trained for as much
LEAST_ASKED = 0.1  # an axis that was trained for less is left out
LEAST_SHARE = 0.3  # of the commanded speed that must be reached
MOST_TILT = 0.5  # rad
MOST_DRIFT = 0.3  # m/s or rad/s when told to stand still

Command = tuple[float, float, float]
Answers = dict[str, Any]  # to what a source leaves open, by key
STILL: Command = (0.0, 0.0, 0.0)
AXES = ("vx", "vy", "wz")


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How the robot followed one command."""

    command: Command
    velocity: Command  # vx, vy, wz, mean over the judged time
    tilt: float  # rad, the largest
    fell: bool
    touched: tuple[str, ...] = ()  # geoms other than feet with contacts in the judged time
    hardest: str = ""  # the joint with the highest torque, and how high, in words

    def checks(self) -> list[Check]:
        name = _words(self.command)
        if self.fell:
            return [Check(f"{name}: falls", 1, "", "<= 0", False)]
        parts = ", ".join(self.touched) or "nothing"
        touches = Check.at_most(
            f"{name}: besides its feet it touches with {parts}", len(self.touched), 0
        )
        if not any(self.command):
            drift = max(abs(value) for value in self.velocity)
            return [
                Check.at_most(f"{name}: tilt", self.tilt, MOST_TILT, "rad"),
                Check.at_most(f"{name}: drift", drift, MOST_DRIFT, "m/s, rad/s"),
                touches,
            ]
        axis = max(i for i, asked in enumerate(self.command) if asked)
        asked, unit = self.command[axis], "rad/s" if AXES[axis] == "wz" else "m/s"
        came = self.velocity[axis] * (1 if asked > 0 else -1)
        speed = Check.at_least(f"{name}: speed that way", came, LEAST_SHARE * abs(asked), unit)
        return [speed, touches]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks())

    def failure(self) -> str:
        """What is wrong with this move, in words; the joint with the highest torque is a hint."""
        wrong = [check.name for check in self.checks() if not check.ok]
        hint = f" (hardest at work: {self.hardest})" if self.hardest else ""
        return "; ".join(wrong) + hint


def commands(bundle: Bundle) -> Iterator[Command]:
    """Standing, then each axis both ways, within the policy's trained ranges.

    Turning is combined with walking: some policies stand still when told to turn on the spot.
    """
    yield STILL
    ranges = bundle.contract.command_ranges
    for vx in _both_ways(ranges.vx):
        yield vx, 0.0, 0.0
    for vy in _both_ways(ranges.vy):
        yield 0.0, vy, 0.0
    for wz in _both_ways(ranges.wz):
        yield float(np.clip(SPEED, *ranges.vx)), 0.0, wz


def _both_ways(bounds: tuple[float, float]) -> list[float]:
    asked = [float(np.clip(limit, -SPEED, SPEED)) for limit in reversed(bounds)]
    return [speed for speed in asked if abs(speed) >= LEAST_ASKED]


class Walker:
    """A policy walking in the twin, one command after the other; it is reset after a fall."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._twin = TwinRobot(bundle.spec)
        self._drive: Drive | None = None

    def follow(self, command: Command, seconds: float = SECONDS) -> CommandOutcome:
        try:
            drive = self._drive or self._stand()
        except Refusal:
            return CommandOutcome(command, STILL, 0.0, fell=True)
        spec = self._bundle.spec
        rate = spec.wire.rate_hz
        velocities, most = [], 0.0
        touched: set[str] = set()
        effort = np.zeros(spec.joint_count)
        for tick in range(round(seconds * rate)):
            drive.walk_at(command)
            state = drive.tick()
            if tick % SEEN_EVERY:
                continue
            if state is not None:
                effort += np.abs(state.torque) / spec.torque_limit
            truth = self._twin.truth
            most = max(most, tilt(truth.quaternion))
            low = truth.position[2] < FALLEN_HEIGHT * self._bundle.spec.base_height
            if low or most > MOST_TILT:
                self._drive = None
                return CommandOutcome(
                    command, STILL, most, True, hardest=_hardest(spec, effort, tick)
                )
            if tick >= (seconds - JUDGED) * rate:
                velocities.append(heading_velocity(truth))
                touched.update(truth.contacts)
        vx, vy, wz = np.mean(velocities, 0).tolist()
        hardest = _hardest(spec, effort, tick)
        return CommandOutcome(command, (vx, vy, wz), most, False, tuple(sorted(touched)), hardest)

    def _stand(self) -> Drive:
        self._twin.reset(0)
        drive = Drive(self._bundle, self._twin)
        drive.stand_and_walk()
        self._drive = drive
        return drive


def walk(bundle: Bundle, step: Callable[[str], None]) -> list[CommandOutcome]:
    """Follow every command in turn; `step` is called with the next one."""
    walker = Walker(bundle)
    seen = []
    for command in commands(bundle):
        step(_words(command))
        seen.append(walker.follow(command))
    return seen


def walks_in_part(seen: list[CommandOutcome]) -> bool:
    """Whether most commands work: then joints and observations are in the right order, and what
    fails is due to the policy itself."""
    return sum(one.ok for one in seen) > len(seen) / 2


def orders_that_walk(bundle: Bundle, step: Callable[[str], None]) -> list[str]:
    """The other known orders, in words, with which the policy follows every command."""
    found: list[str] = []
    for words, other in alternatives(bundle):
        if found and "," in words:
            break  # one change explains it, so two need not be tried
        step(words)
        if _does_everything(other):
            found.append(words)
    return found


def _does_everything(bundle: Bundle) -> bool:
    walker = Walker(bundle)
    return all(walker.follow(command).ok for command in commands(bundle))


def find_order(
    open_orders: Mapping[str, tuple[Any, ...]],
    bring_in: Callable[[Answers], Bundle],
    step: Callable[[str], None],
) -> Answers | None:
    """Answers to the orders that a policy's file leaves open: empty if most commands work with the
    assumed ones, else the first with which all do; None if there are none. `bring_in` imports the
    policy with some of the orders answered."""
    if walks_in_part(walk(bring_in({}), step)):
        return {}
    for answers in _candidates(open_orders):
        step(", ".join(f"{key} {value}" for key, value in answers.items()))
        try:
            bundle = bring_in(answers)
        except Refusal:
            continue
        if _does_everything(bundle):
            return answers
    return None


def _candidates(open_orders: Mapping[str, tuple[Any, ...]]) -> Iterator[Answers]:
    """All combinations but the assumed one, with the fewest changes first."""
    keys = list(open_orders)
    combinations = [
        {
            key: value
            for key, value in zip(keys, values, strict=True)
            if value != open_orders[key][0]
        }
        for values in itertools.product(*open_orders.values())
    ]
    yield from sorted((answers for answers in combinations if answers), key=len)


def _hardest(spec: RobotSpec, effort: npt.NDArray[np.float64], tick: int) -> str:
    worst = int(np.argmax(effort))
    share = effort[worst] / (tick // SEEN_EVERY + 1)
    return f"{spec.joint_names[worst]}, {share:.0%} of its torque"


def _words(command: Command) -> str:
    parts = [f"{axis} {value:+g}" for axis, value in zip(AXES, command, strict=True) if value]
    return ", ".join(parts) or "stand"
