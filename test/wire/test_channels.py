"""Channels: what arrives, from whom, and leaving while someone waits."""

import ctypes.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire import channels, libddsc
from sim2real_deploy.wire.channels import Participant, Sample
from sim2real_deploy.wire.messages import GO_LOW_STATE
from support.wire_support import free_domain, golden

TOPIC = "rt/lowstate"


@pytest.fixture
def ends() -> Iterator[tuple[Participant, Participant]]:
    pair = Participant(free_domain(), "lo", "one"), Participant(free_domain(), "lo", "other")
    yield pair
    for participant in pair:
        participant.close()


def samples() -> list[bytes]:
    return [bytes.fromhex(message["cdr"]) for message in golden()[GO_LOW_STATE.type_name]]


def wait_for(condition: object, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


def test_bytes_arrive_as_they_were_sent_with_both_times(
    ends: tuple[Participant, Participant],
) -> None:
    reader, writer = ends[0].reader(TOPIC, GO_LOW_STATE), ends[1].writer(TOPIC, GO_LOW_STATE)
    assert wait_for(lambda: reader.matched() and writer.matched())
    assert reader.wait(0.0) is False
    before = time.monotonic_ns(), time.time_ns()
    for sample in samples():
        writer.write(sample)
    got: list[Sample[bytes]] = []
    while len(got) < len(samples()) and reader.wait(2.0):
        got += reader.take()
    assert [sample.data for sample in got] == samples()
    for sample in got:
        assert before[0] <= sample.received_ns <= time.monotonic_ns()
        assert before[1] - 1_000_000 <= sample.source_ns <= time.time_ns() + 1_000_000
    assert reader.take() == []


def test_every_sample_tells_who_wrote_it(ends: tuple[Participant, Participant]) -> None:
    third = Participant(free_domain(), "lo", "third")
    reader = ends[0].reader(TOPIC, GO_LOW_STATE)
    writers = [end.writer(TOPIC, GO_LOW_STATE) for end in (*ends, third)]
    assert wait_for(lambda: reader.matched() == 3 and all(w.matched() for w in writers))
    got: list[Sample[bytes]] = []
    for writer in writers:
        writer.write(samples()[0])
        assert reader.wait(2.0)
        got += reader.take()
    by_whom = [ends[0].who(sample.writer) for sample in got]
    assert [writer.name for writer in by_whom] == ["one", "other", "third"]
    assert [writer.participant for writer in by_whom] == [ends[0].key, ends[1].key, third.key]
    assert {writer.pid for writer in by_whom} == {os.getpid()}
    assert all(writer.host for writer in by_whom)
    third.close()
    assert wait_for(lambda: reader.matched() == 2)
    assert ends[0].who(got[2].writer).name == "third"  # known from before it left
    assert ends[0].who(0xDEAD).participant == ""


def test_a_reader_holds_what_came_while_nobody_looked(
    ends: tuple[Participant, Participant],
) -> None:
    reader, writer = ends[0].reader(TOPIC, GO_LOW_STATE), ends[1].writer(TOPIC, GO_LOW_STATE)
    assert wait_for(lambda: reader.matched() and writer.matched())
    for _ in range(200):
        for sample in samples():
            writer.write(sample)
    count = 0
    while reader.wait(0.5):
        count += len(reader.take())
    assert count == 200 * len(samples())


def test_leaving_frees_whoever_waits() -> None:
    participant = Participant(free_domain(), "lo")
    reader = participant.reader(TOPIC, GO_LOW_STATE)
    result: list[object] = []
    waiter = threading.Thread(target=lambda: result.append(reader.wait(30.0)))
    waiter.start()
    time.sleep(0.1)
    participant.close()
    waiter.join(5.0)
    assert not waiter.is_alive()
    assert result == [False]
    assert reader.wait(0.0) is False
    assert reader.take() == []
    participant.close()


def test_a_domain_may_be_opened_again_but_not_on_two_interfaces() -> None:
    for _ in range(3):
        Participant(free_domain(), "lo").close()
    others = [name for name in channels.interfaces() if name != "lo"]
    if not others:
        pytest.skip("lo is the only interface here")
    participant = Participant(free_domain(), "lo")
    with pytest.raises(Refusal, match="already open on 'lo'"):
        Participant(free_domain(), others[0])
    participant.close()


def test_a_domain_that_cannot_be_is_refused() -> None:
    with pytest.raises(Refusal, match="DDS domain 400"):
        Participant(400, "lo")


@pytest.mark.parametrize("library", [None, ctypes.util.find_library("ddsc")])
def test_ten_ros_nodes_on_the_same_domain_leave_a_port_on_the_loopback(
    library: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both domain ids are 0 by default, and Cyclone 0.10 looks for ten ports unless told."""
    if library is not None:
        monkeypatch.setenv(libddsc.LIBRARY_VARIABLE, library)
    domain = free_domain()
    taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(10)]
    for index, port in enumerate(taken):
        with suppress(OSError):  # taken already: just as well
            port.bind(("", 7400 + 250 * domain + 10 + 2 * index))  # by DDSI-RTPS 9.6.1.1
    code = f"""
from sim2real_deploy.wire.channels import Participant
Participant({domain}, "lo", "eleventh")
"""
    try:
        subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
    finally:
        for port in taken:
            port.close()
