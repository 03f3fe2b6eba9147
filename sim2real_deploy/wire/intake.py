"""The single entry for rt/lowstate samples: checked, counted, then used."""

from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.wire.decoders import Flaw, StateDecoder
from sim2real_deploy.wire.link import LinkCounters

_TICK_RANGE = 1 << 32
LEAP_MS = 1000  # a larger step of the counter: the robot restarted, or it is another robot
PINNED_NS = 1_000_000_000  # silence after which another writer is accepted: the robot restarted


class Intake:
    """Bad samples are only counted; good ones become `latest`.

    The first writer heard is the robot. While it keeps sending, samples of a second one (a
    forgotten simulator, another robot) are counted and ignored.
    """

    def __init__(self, robot: RobotSpec) -> None:
        self.counters = LinkCounters()
        self.latest: RobotState | None = None
        self.writer: int | None = None
        self.decoder = StateDecoder(robot)
        self._read = self.decoder.read
        self._period_ms = 1000.0 / robot.wire.rate_hz

    def accept(self, sample: bytes, received_ns: int, writer: int = 0) -> RobotState | None:
        """The state, or None if the sample is bad, from another writer, or not new."""
        state = self._read(sample, received_ns)
        if isinstance(state, Flaw):
            self._count(state)
            return None
        latest = self.latest
        changed = writer != self.writer
        if changed:
            if latest is not None and received_ns - latest.received_ns < PINNED_NS:
                self.counters.foreign += 1
                return None
            self.writer = writer
        if latest is not None and (changed or state.tick != latest.tick + self._period_ms):
            step = (state.tick - latest.tick) % _TICK_RANGE
            if changed or step > LEAP_MS:
                self.counters.leaps += 1
            elif step == 0:
                self.counters.duplicate += 1
                return None
            else:
                self.counters.lost += max(0, round(step / self._period_ms) - 1)
        self.counters.received += 1
        self.latest = state
        return state

    def _count(self, flaw: Flaw) -> None:
        if flaw is Flaw.LENGTH:
            self.counters.bad_length += 1
        elif flaw is Flaw.CRC:
            self.counters.bad_crc += 1
        else:
            self.counters.not_finite += 1
