"""The same policy and the same velocity commands, on a twin, in lockstep."""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.analysis.gap.walk import Array, Walk, make_walk
from sim2real_deploy.bags.recorded import wire_columns
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import STAGE, Drive, fallen
from sim2real_deploy.gate.engines import SimulatedRobot
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.topics import LOW_STATE


class _Tapped:
    """A simulated robot that keeps every sample that goes in or comes out."""

    def __init__(self, robot: SimulatedRobot) -> None:
        self._robot = robot
        self.states: list[tuple[int, bytes]] = []
        self.commands: list[tuple[int, bytes]] = []

    def now_ns(self) -> int:
        return self._robot.now_ns()

    def advance(self, command: bytes | None) -> bytes | None:
        if command is not None:
            self.commands.append((self.now_ns(), command))
        state = self._robot.advance(command)
        if state is not None:
            self.states.append((self.now_ns(), state))
        return state


@dataclass(frozen=True, slots=True)
class SimulatedWalk:
    walk: Walk
    fell_s: float | None  # into the walk


@dataclass(frozen=True, slots=True)
class Tape:
    """All that a walk in a simulator leaves behind; times in ns."""

    states: list[tuple[int, bytes]]
    commands: list[tuple[int, bytes]]
    asked_ns: Array  # a row for each wire period, as in the next two
    asked: Array
    seen: Array  # true velocities, where the policy was given them; else empty
    limited: float  # share of the rows in which a limit acted
    fell_s: float | None


def walk_in_twin(
    bundle: Bundle,
    robot: SimulatedRobot,
    seed: int,
    commands: Array,
    stage: str = STAGE,
    watched: bool = False,
) -> SimulatedWalk:
    """Stand up and follow the commands, one row for each wire period, until a fall at most.

    `watched`: as under motion capture, the policy is given its true velocity, and it is recorded.
    """
    tape = tape_walk(bundle, robot, seed, commands, stage, watched)
    log_ns = np.array([ns for ns, _ in tape.states], np.int64)
    walk = make_walk(
        f"twin, seed {seed}",
        bundle.spec,
        wire_columns(bundle.spec, LOW_STATE, [sample for _, sample in tape.states]),
        log_ns,
        tape.commands,
        (tape.asked_ns, tape.asked),
        tape.limited,
        (tape.asked_ns, tape.seen) if watched else None,
        watched,
    )
    return SimulatedWalk(walk, tape.fell_s)


def tape_walk(
    bundle: Bundle,
    robot: SimulatedRobot,
    seed: int,
    commands: Array,
    stage: str = STAGE,
    watched: bool = False,
) -> Tape:
    robot.reset(seed)
    tap = _Tapped(robot)
    drive = Drive(bundle, robot, stage, plant=tap)
    drive.stand_and_walk()
    tap.states.clear()
    tap.commands.clear()
    rate = bundle.spec.wire.rate_hz
    asked: list[tuple[int, tuple[float, ...]]] = []
    seen: list[tuple[float, ...]] = []
    limited, fell_s = 0, None
    policy = drive.controller.policy
    for row, command in enumerate(commands.tolist()):
        if watched and policy is not None:
            seen.append(tuple(robot.base_truth.body_velocity.tolist()))
            policy.give_velocity(seen[-1])
        drive.walk_at(tuple(command))
        drive.tick()
        asked.append((robot.now_ns(), tuple(command)))
        limited += any(drive.controller.limiter.acted)
        if row % 50 == 0 and fallen(robot, robot.truth):
            fell_s = row / rate
        if fell_s is not None or drive.controller.mode is not Mode.WALKING:
            break
    if not tap.states:
        raise Refusal("the twin said nothing while it should have walked")
    return Tape(
        tap.states,
        tap.commands,
        np.array([ns for ns, _ in asked], np.float64),
        np.array([values for _, values in asked]),
        np.array(seen),
        limited / len(asked),
        fell_s,
    )
