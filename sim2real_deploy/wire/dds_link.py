"""A Link over DDS, to a robot or a twin."""

import threading
import time

from sim2real_deploy.compiled import AVAILABLE
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.runtime.world_clock import WorldClock
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.compiled_link import CODE, KEPT, TICK, USED, WRITER, CompiledLink
from sim2real_deploy.wire.decoders import LiveState
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.intake import Intake
from sim2real_deploy.wire.libddsc import library
from sim2real_deploy.wire.link import LinkCounters, Writer
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE


class DdsLink:
    """States and commands over DDS. `name` is what other participants see.

    A link that only `listens` opens no writer on rt/lowcmd, so nobody takes it for a controller.
    """

    encoder_for: type[CommandEncoder] = CommandEncoder

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
        self._encoder = self.encoder_for(robot)
        self._sending = threading.Lock()
        self._clock = clock or WorldClock()
        self.now_ns = self._clock.now_ns
        self.may_wait = self._clock.may_wait
        self.participant = Participant(domain, interface, name)
        self._reader = self.participant.reader(LOW_STATE, family.state)
        command = family.command
        self._writer = None if listens else self.participant.writer(LOW_CMD, command)
        self._left = 0  # samples that a compiled loop took and left
        self._used = 0  # states that compiled loops have used
        self._compiled: CompiledLink | None = None
        self._memo = memoryview(b"")
        if AVAILABLE and self._writer is not None:
            decoder, own_encoder = self._intake.decoder, self.encoder_for(robot)
            parts = self._reader, self._writer, decoder, own_encoder, self._clock.page
            self._compiled = CompiledLink.of(robot, *parts)
            self._memo = self._compiled.memo.data

    @property
    def counters(self) -> LinkCounters:
        return self._counters

    @property
    def latest(self) -> RobotState | None:
        link = self._compiled
        if link is not None and self._memo[USED] != self._used:  # a compiled loop is running
            return self._newest(link)
        return self._intake.latest

    def _newest(self, link: CompiledLink) -> RobotState:
        """The last state that a compiled loop used, which may be running in another thread."""
        memo = self._memo
        while True:
            used, slot = memo[USED], (memo[USED] - 1) % KEPT
            sample, numbers = link.samples[slot].tobytes(), link.numbers[slot].copy()
            received_ns = int(link.received[slot])
            if memo[USED] < used + KEPT - 1:  # not overwritten meanwhile
                return LiveState(sample, received_ns, numbers, self._intake.decoder)

    def compiled(self) -> CompiledLink | None:
        link, latest = self._compiled, self._intake.latest
        if link is not None and latest is not None:  # before, it accepts no sample
            writer = self._intake.writer or 0
            self._memo[WRITER] = writer - (writer >> 63 << 64)  # the same bits, signed
            self._memo[TICK] = latest.tick
        return link

    def catch_up(self, left: int) -> None:
        link, self._left = self._compiled, left
        assert link is not None
        used = self._memo[USED] - self._used
        if used:
            self._intake.latest = self._newest(link)
            self._used += used
            self._counters.received += used
            self._counters.sent += used
            library().checked(self._memo[CODE], "while writing a sample")

    @property
    def stood_still_ns(self) -> int:
        return self._clock.stood_still_ns

    def wait(self, timeout_s: float) -> RobotState | None:
        """The newest state received. Bad samples do not end the wait, nor prolong it: a flood of
        them must not keep a loop here."""
        reader, accept = self._reader, self._intake.accept
        deadline = time.monotonic() + timeout_s
        while self._left or reader.wait(timeout_s):
            newest, now_ns = None, self.now_ns()
            left, self._left = self._left, 0
            for sample in reader.take(left):
                newest = accept(sample.data, now_ns, sample.writer) or newest
            if newest is not None:
                return newest
            timeout_s = deadline - time.monotonic()
            if timeout_s <= 0.0:
                return None
        return None

    @property
    def robot(self) -> Writer | None:
        """The writer of the states in use; None before the first."""
        return None if self._intake.writer is None else self.participant.who(self._intake.writer)

    def send(self, command: JointCommand) -> bytes:
        if self._writer is None:
            raise RuntimeError("this link only listens")
        with self._sending:
            if self._intake.latest is not None:
                self._encoder.follow(self._intake.latest)
            sample = self._encoder.encode(command)
            self._writer.write(sample)
            self._counters.sent += 1
        return sample

    def other_writers(self) -> tuple[Writer, ...]:
        return self.participant.other_writers(LOW_CMD)

    def close(self) -> None:
        self.participant.close()
