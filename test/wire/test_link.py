"""Both faces of Link, with the same tests: what comes, what is counted, what goes out."""

import time
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, RobotSpec
from sim2real_deploy.wire.channels import Participant, Sample
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.decoders import CommandDecoder
from sim2real_deploy.wire.in_process import InProcessLink
from sim2real_deploy.wire.link import Link
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE
from support.wire_support import free_domain, robot, state_sample


class Far(Protocol):
    """The other end of the link under test."""

    link: Link

    def say(self, *samples: bytes) -> None: ...
    def heard(self) -> list[bytes]: ...


class OverDds:
    def __init__(self, spec: RobotSpec) -> None:
        family, domain = FAMILIES[spec.wire.family], free_domain()
        self.link: Link = DdsLink(spec, "lo", domain, name="under test")
        self.participant = Participant(domain, "lo", name="far end")
        self._writer = self.participant.writer(LOW_STATE, family.state)
        self._reader = self.participant.reader(LOW_CMD, family.command)
        deadline = time.monotonic() + 5
        while not (self._writer.matched() and self.link._writer.matched()):  # type: ignore[attr-defined]
            assert time.monotonic() < deadline, "the ends did not find each other"
            time.sleep(0.01)

    def say(self, *samples: bytes) -> None:
        for sample in samples:
            self._writer.write(sample)

    def heard(self) -> list[bytes]:
        self._reader.wait(1.0)
        return [sample.data for sample in self._reader.take()]

    def close(self) -> None:
        self.participant.close()
        self.link.close()


class InProcess:
    """A plant that says what it was told to say, one sample a step."""

    def __init__(self, spec: RobotSpec) -> None:
        self.link: Link = InProcessLink(spec, self)
        self._now = 0
        self._to_say: list[bytes] = []
        self._heard: list[bytes] = []

    def now_ns(self) -> int:
        return self._now

    def advance(self, command: bytes | None) -> bytes | None:
        self._now += 2_000_000
        if command is not None:
            self._heard.append(command)
        return self._to_say.pop(0) if self._to_say else None

    def say(self, *samples: bytes) -> None:
        self._to_say += samples

    def heard(self) -> list[bytes]:
        self.link.wait(0.0)
        return self._heard

    def close(self) -> None:
        self.link.close()


@pytest.fixture(params=["go", "hg"])
def spec(request: pytest.FixtureRequest) -> RobotSpec:
    return robot(request.param)


@pytest.fixture(params=[OverDds, InProcess])
def far(request: pytest.FixtureRequest, spec: RobotSpec) -> Iterator[Far]:
    end = request.param(spec)
    yield end
    end.close()


def drain(link: Link) -> int:
    """Wait until nothing more comes; how many states were handed over."""
    count = 0
    while link.wait(0.1) is not None:
        count += 1
    return count


def test_a_state_arrives_once_and_stays_as_latest(far: Far, spec: RobotSpec) -> None:
    assert far.link.latest is None
    far.say(state_sample(spec, tick=1000))
    got = far.link.wait(1.0)
    assert got is not None
    assert got is far.link.latest
    assert got.tick == 1000
    assert 0 <= far.link.now_ns() - got.received_ns < 1_000_000_000
    np.testing.assert_array_equal(got.q, spec.stand_pose)
    assert far.link.wait(0.02) is None
    assert far.link.latest is got
    assert far.link.counters.received == 1


def test_every_sample_is_counted_for_what_it_is(far: Far, spec: RobotSpec) -> None:
    good = state_sample(spec, tick=10)
    bad_crc = good[:-1] + bytes([good[-1] ^ 1])
    far.say(good, good, bad_crc, state_sample(spec, 12), state_sample(spec, 20))
    drain(far.link)
    counters = far.link.counters
    assert counters.received == 3
    assert counters.duplicate == 1
    assert counters.bad_crc == 1
    assert counters.lost == 3  # ticks 14, 16 and 18
    assert far.link.latest is not None
    assert far.link.latest.tick == 20


def test_a_clock_that_starts_anew_loses_nothing(far: Far, spec: RobotSpec) -> None:
    far.say(state_sample(spec, 0xFFFFFFFE), state_sample(spec, 0), state_sample(spec, 2))
    drain(far.link)
    far.say(state_sample(spec, 0))
    drain(far.link)
    assert far.link.counters.lost == 0
    assert far.link.counters.received == 4


def test_a_bad_sample_leaves_no_trace(far: Far, spec: RobotSpec) -> None:
    far.say(state_sample(spec, 2))
    drain(far.link)
    before = far.link.latest
    sample = state_sample(spec, 4)
    far.say(sample[:40] + b"\xff" + sample[41:])
    assert far.link.wait(0.1) is None
    assert far.link.latest is before
    assert far.link.counters.bad_crc == 1


def test_a_command_goes_out_as_it_was_given(far: Far, spec: RobotSpec) -> None:
    joints = spec.joint_count
    command = JointCommand(*(np.arange(joints, dtype=np.float32) + k for k in range(5)))
    sent = far.link.send(command)
    heard = far.heard()
    assert heard == [sent]
    decoder = CommandDecoder(spec)
    assert decoder.flaw(sent) is None
    back = decoder.decode(sent)
    for name in ("q", "dq", "kp", "kd", "torque"):
        np.testing.assert_array_equal(getattr(back, name), getattr(command, name))
    assert far.link.counters.sent == 1


def test_nothing_that_is_not_finite_leaves(far: Far, spec: RobotSpec) -> None:
    command = JointCommand.damping(spec.joint_count, 3.0)
    command.torque = command.torque.copy()
    command.torque[1] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        far.link.send(command)
    assert far.link.counters.sent == 0


def test_the_wait_is_as_long_as_asked(far: Far) -> None:
    before = far.link.now_ns()
    assert far.link.wait(0.05) is None
    assert far.link.now_ns() - before >= 49_000_000


@pytest.mark.timeout(20)
def test_a_flood_of_bad_samples_does_not_keep_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It held the wait open for as long as it lasted: control did not tick, safety did not look."""
    link = DdsLink(robot("go"), "lo", free_domain())
    monkeypatch.setattr(link._reader, "wait", lambda _: True)
    monkeypatch.setattr(link._reader, "take", lambda _: [Sample(b"bad", 0, 0, 1)])
    assert link.wait(0.0) is link.wait(0.02) is None
    assert link.counters.bad_length > 1
    link.close()


def test_other_writers_are_seen_by_name_and_gone_when_they_leave() -> None:
    spec, domain = robot("go"), free_domain()
    link = DdsLink(spec, "lo", domain)
    try:
        assert link.other_writers() == ()
        rival = DdsLink(spec, "lo", domain, name="rival")
        deadline = time.monotonic() + 5
        while not link.other_writers() and time.monotonic() < deadline:
            time.sleep(0.02)
        (seen,) = link.other_writers()
        assert seen.name == "rival"
        assert seen.host
        rival.close()
        deadline = time.monotonic() + 5
        while link.other_writers() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert link.other_writers() == ()
    finally:
        link.close()


def test_a_second_cyclone_in_the_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_cyclonedds_cpp")
    with pytest.raises(Refusal, match="rmw_fastrtps_cpp"):
        DdsLink(robot("go"), "lo", free_domain())


def test_an_interface_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refusal, match=r"'eth9'.*lo"):
        DdsLink(robot("go"), "eth9", free_domain())
