"""Raw channels: the two kinds of endpoint, who matches whom, and leaving while someone waits."""

import threading
import time
from collections.abc import Iterator

import pytest
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire import announced, channels, vendor
from sim2real_deploy.wire.channels import Kind, Participant
from support.wire_support import free_domain, golden

STATE = "unitree_go::msg::dds_::LowState_"
TOPIC = "rt/lowstate"


@pytest.fixture
def ends() -> Iterator[tuple[Participant, Participant]]:
    pair = Participant(free_domain(), "lo", "one"), Participant(free_domain(), "lo", "other")
    yield pair
    for participant in pair:
        participant.close()


def samples() -> list[bytes]:
    return [bytes.fromhex(message["cdr"]) for message in golden()[STATE]]


def wait_for(condition: object, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("kind", ["robot", "native"])
def test_bytes_arrive_as_they_were_sent_with_both_times(
    ends: tuple[Participant, Participant], kind: Kind
) -> None:
    reader, writer = ends[0].reader(TOPIC, STATE, kind), ends[1].writer(TOPIC, STATE, kind)
    assert wait_for(lambda: reader.matched() and writer.matched())
    assert reader.wait(0.0) is False
    before = time.monotonic_ns(), time.time_ns()
    for sample in samples():
        writer.write(sample)
    got: list[channels.Sample] = []
    while len(got) < len(samples()) and reader.wait(2.0):
        got += reader.take()
    assert [sample.data for sample in got] == samples()
    for sample in got:
        assert before[0] <= sample.received_ns <= time.monotonic_ns()
        assert before[1] - 1_000_000 <= sample.source_ns <= time.time_ns() + 1_000_000
    assert reader.take() == []


def test_the_kinds_do_not_meet_and_one_participant_may_open_both(
    ends: tuple[Participant, Participant],
) -> None:
    readers = [ends[0].reader(TOPIC, STATE, kind) for kind in ("robot", "native")]
    writers = [ends[1].writer(TOPIC, STATE, kind) for kind in ("robot", "native")]
    assert wait_for(lambda: all(end.matched() for end in (*readers, *writers)))
    assert [end.matched() for end in (*readers, *writers)] == [1, 1, 1, 1]
    for writer, sample in zip(writers, samples(), strict=False):
        writer.write(sample)
    for reader, sample in zip(readers, samples(), strict=False):
        assert reader.wait(2.0)
        assert [got.data for got in reader.take()] == [sample]


@pytest.mark.parametrize("type_name", list(announced.announcements()["native"]))
def test_native_announces_what_the_sdk_on_this_binding_does(type_name: str) -> None:
    idl = vendor.idl(type_name).__idl__
    idl.populate()
    idl.fill_type_data()
    ours = announced.announced_type(type_name, "native").__idl__
    assert ours._xt_bytedata == idl._xt_bytedata
    for name in ("idl_transformed_typename", "keyless", "supported_versions", "data_type_props"):
        assert getattr(ours, name) == getattr(idl, name), name


def test_the_sdk_on_this_binding_reads_what_a_native_endpoint_writes(
    ends: tuple[Participant, Participant],
) -> None:
    topic = Topic(ends[0]._participant, TOPIC, vendor.idl(STATE))
    reader, writer = DataReader(ends[0]._participant, topic), ends[1].writer(TOPIC, STATE, "native")
    assert wait_for(writer.matched)
    writer.write(samples()[1])
    assert wait_for(lambda: reader.read(1))
    (message,) = reader.take(1)
    assert message.tick == golden()[STATE][1]["fields"]["tick"]


def test_a_reader_holds_what_came_while_nobody_looked(
    ends: tuple[Participant, Participant],
) -> None:
    reader, writer = ends[0].reader(TOPIC, STATE), ends[1].writer(TOPIC, STATE)
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
    reader = participant.reader(TOPIC, STATE)
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
