"""A Link over DDS, to a robot or a twin."""

import threading
import time

from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.runtime.world_clock import WorldClock
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.intake import Intake
from sim2real_deploy.wire.link import LinkCounters, Writer
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE


class DdsLink:
    """States and commands over DDS. `name` is what other participants see.

    A link that only `listens` opens no writer on rt/lowcmd, so nobody takes it for a controller.
    """

    def __init__(
        self,
        robot: RobotSpec,
        interface: str,
        domain: int,
        name: str = "",
        clock: WorldClock | None = None,
        listens: bool = False,
    ) -> None:
        family = FAMILIES[robot.wire.family]
        self._intake = Intake(robot)
        self._counters = self._intake.counters
        self._encoder = CommandEncoder(robot)
        self._echoes = bool(family.echoed)
        self._sending = threading.Lock()
        self._clock = clock or WorldClock()
        self.now_ns = self._clock.now_ns
        self.may_wait = self._clock.may_wait
        self.participant = Participant(domain, interface, name)
        self._reader = self.participant.reader(LOW_STATE, family.state)
        command = family.command
        self._writer = None if listens else self.participant.writer(LOW_CMD, command)

    @property
    def counters(self) -> LinkCounters:
        return self._counters

    @property
    def latest(self) -> RobotState | None:
        return self._intake.latest

    @property
    def stood_still_ns(self) -> int:
        return self._clock.stood_still_ns

    def wait(self, timeout_s: float) -> RobotState | None:
        """The newest state received. Bad samples do not end the wait."""
        reader, accept = self._reader, self._intake.accept
        deadline = time.monotonic() + timeout_s
        while reader.wait(timeout_s):
            newest, now_ns = None, self.now_ns()
            for sample in reader.take():
                newest = accept(sample.data, now_ns, sample.writer) or newest
            if newest is not None:
                return newest
            timeout_s = deadline - time.monotonic()
        return None

    @property
    def robot(self) -> Writer | None:
        """The writer of the states in use; None before the first."""
        return None if self._intake.writer is None else self.participant.who(self._intake.writer)

    def send(self, command: JointCommand) -> bytes:
        if self._writer is None:
            raise RuntimeError("this link only listens")
        with self._sending:
            if self._echoes and self._intake.latest is not None:
                self._encoder.follow(self._intake.latest)
            sample = self._encoder.encode(command)
            self._writer.write(sample)
            self._counters.sent += 1
        return sample

    def other_writers(self) -> tuple[Writer, ...]:
        return self.participant.other_writers(LOW_CMD)

    def close(self) -> None:
        self.participant.close()
