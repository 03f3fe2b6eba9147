"""The same policy and the same velocity commands, on a twin, in lockstep."""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.analysis.gap.walk import Array, Walk, make_walk
from sim2real_deploy.bags.recorded import wire_columns
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import STAGE, Drive, fallen
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.robots import JointCommand, RobotState
from sim2real_deploy.topics import LOW_STATE
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire import messages


@dataclass(frozen=True, slots=True)
class SimulatedWalk:
    walk: Walk
    fell_s: float | None  # into the walk


@dataclass(frozen=True, slots=True)
class How:
    """The conditions under which the recorded walk was made."""

    stage: str = STAGE
    watched: bool = False  # motion capture told the policy its true velocity
    bare: bool = False  # its targets went to the motors as they were: no limits, no modes

    @classmethod
    def as_in(cls, walk: Walk, stage: str = STAGE) -> "How":
        return cls(stage, walk.watched, walk.foreign)


@dataclass(frozen=True, slots=True)
class Tape:
    """The recording of a simulated walk; times in ns."""

    states: list[tuple[int, bytes]]
    commands: list[tuple[int, bytes]]
    asked_ns: Array  # a row for each wire period, as in the next two
    asked: Array
    seen: Array  # true velocities, where the policy was given them; else empty
    limited: float  # share of the rows in which a limit acted
    fell_s: float | None


def walk_in_twin(
    bundle: Bundle, robot: TwinRobot, seed: int, commands: Array, how: How | None = None
) -> SimulatedWalk:
    """Stand up and follow the commands, one row for each wire period, until a fall at most."""
    how = how or How()
    tape = tape_walk(bundle, robot, seed, commands, how)
    log_ns = np.array([ns for ns, _ in tape.states], np.int64)
    walk = make_walk(
        f"twin, seed {seed}",
        bundle.spec,
        wire_columns(bundle.spec, LOW_STATE, [sample for _, sample in tape.states]),
        log_ns,
        tape.commands,
        (tape.asked_ns, tape.asked),
        tape.limited,
        (tape.asked_ns, tape.seen) if how.watched else None,
        how.watched,
    )
    return SimulatedWalk(walk, tape.fell_s)


def tape_walk(bundle: Bundle, robot: TwinRobot, seed: int, commands: Array, how: How) -> Tape:
    robot.reset(seed)
    states: list[tuple[int, bytes]] = []
    commands_sent: list[tuple[int, bytes]] = []

    def tap(now_ns: int, topic: str, sample: bytes) -> None:
        (commands_sent if topic == messages.LOW_CMD else states).append((now_ns, sample))

    drive = Drive(bundle, robot, how.stage, tap=tap)
    drive.stand()
    if not how.bare:
        drive.walk()
    states.clear()
    commands_sent.clear()
    walker = _Bare(bundle, drive) if how.bare else _Ours(drive)
    rate = bundle.spec.wire.rate_hz
    asked: list[tuple[int, tuple[float, ...]]] = []
    seen: list[tuple[float, ...]] = []
    limited, fell_s = 0, None
    for row, command in enumerate(commands.tolist()):
        if how.watched:
            seen.append(tuple(robot.base_truth.body_velocity.tolist()))
            walker.policy.give_velocity(seen[-1])
        walker.tick(tuple(command))
        asked.append((robot.now_ns(), tuple(command)))
        limited += walker.limited
        if row % 50 == 0 and fallen(robot, robot.truth):
            fell_s = row / rate
        if fell_s is not None or not walker.walks:
            break
    if not states:
        raise Refusal("the twin sent no state while it should have walked")
    return Tape(
        states,
        commands_sent,
        np.array([ns for ns, _ in asked], np.float64),
        np.array([values for _, values in asked]),
        np.array(seen),
        limited / len(asked),
        fell_s,
    )


class _Ours:
    """The robot's own control code: modes, command shaping, limits."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        assert drive.controller.policy is not None
        self.policy = drive.controller.policy

    def tick(self, command: tuple[float, ...]) -> None:
        vx, vy, wz = command
        self._drive.walk_at((vx, vy, wz))
        self._drive.tick()

    @property
    def limited(self) -> bool:
        return any(self._drive.controller.limiter.acted)

    @property
    def walks(self) -> bool:
        return self._drive.controller.mode is Mode.WALKING


class _Bare:
    """The policy alone, as most scripts run one: its target is the command until the next."""

    limited, walks = False, True

    def __init__(self, bundle: Bundle, drive: Drive) -> None:
        self._link = drive.link
        self.policy = bundle.open()
        self._period = 1 / bundle.spec.wire.rate_hz
        self._every = round(bundle.spec.wire.rate_hz / bundle.contract.rate_hz)
        self._row = 0
        zeros = np.zeros(bundle.spec.joint_count, np.float32)
        self._command = JointCommand(
            self.policy.target, zeros, self.policy.kp, self.policy.kd, zeros
        )
        self._state: RobotState | None = None

    def tick(self, command: tuple[float, ...]) -> None:
        self._state = self._link.wait(self._period) or self._state
        if self._state is not None and self._row % self._every == 0:
            self.policy.observe(self._state, command)
            self.policy.infer()
        self._row += 1
        self._link.send(self._command)
