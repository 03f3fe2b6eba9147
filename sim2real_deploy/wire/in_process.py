"""A Link to a twin in the same process, stepped in lockstep: repeatable, faster than real time.

Samples are the same bytes as on the wire and pass the same codecs and checks.
"""

from collections.abc import Callable
from typing import Protocol

from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.intake import Intake
from sim2real_deploy.wire.link import LinkCounters, Writer
from sim2real_deploy.wire.messages import LOW_CMD, LOW_STATE

Tap = Callable[[int, str, bytes], None]  # time in ns, topic and sample


class Plant(Protocol):
    """A twin that can be stepped."""

    def now_ns(self) -> int:
        """Simulated time; grows with every `advance`."""

    def advance(self, command: bytes | None) -> bytes | None:
        """Simulate one wire period with an rt/lowcmd sample (None: no new one since the last call).

        Returns the rt/lowstate sample at its end, or None if the robot sends none.
        """


class Tapped:
    """A plant whose samples, in and out, are also handed to `tap`."""

    def __init__(self, plant: Plant, tap: Tap) -> None:
        self._plant, self._tap = plant, tap
        self.now_ns = plant.now_ns

    def advance(self, command: bytes | None) -> bytes | None:
        if command is not None:
            self._tap(self.now_ns(), LOW_CMD, command)
        state = self._plant.advance(command)
        if state is not None:
            self._tap(self.now_ns(), LOW_STATE, state)
        return state


class InProcessLink:
    """Time passes only in `wait`; each step of the plant uses the last command sent before it."""

    may_wait = False

    def __init__(self, robot: RobotSpec, plant: Plant) -> None:
        self._plant = plant
        self._intake = Intake(robot)
        self._encoder = CommandEncoder(robot)
        self._pending: bytes | None = None

    @property
    def counters(self) -> LinkCounters:
        return self._intake.counters

    @property
    def latest(self) -> RobotState | None:
        return self._intake.latest

    def now_ns(self) -> int:
        return self._plant.now_ns()

    @property
    def stood_still_ns(self) -> int:
        return 0

    def wait(self, timeout_s: float) -> RobotState | None:
        """Step the plant until it sends a new state, or the simulated time is up."""
        deadline = self._plant.now_ns() + int(timeout_s * 1e9)
        while True:
            sample, self._pending = self._plant.advance(self._pending), None
            now = self._plant.now_ns()
            state = None if sample is None else self._intake.accept(sample, now)
            if state is not None or now >= deadline:
                return state

    def send(self, command: JointCommand) -> bytes:
        if self._intake.latest is not None:
            self._encoder.follow(self._intake.latest)
        self._pending = self._encoder.encode(command)
        self.counters.sent += 1
        return self._pending

    def compiled(self) -> None:
        """There are none: time passes in `wait` alone."""

    def catch_up(self, left: int) -> None:
        """There is nothing to count."""

    def other_writers(self) -> tuple[Writer, ...]:
        return ()

    def close(self) -> None:
        """There is nothing to close."""
