"""Recording to a disk that fills up, turns as a ring, and has a quota."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sim2real_deploy.bags import Bag, BagWriter, Message, runs
from sim2real_deploy.bags.recording import QUEUE_MESSAGES, RunRecorder, Storage
from support.bag_samples import LATCHED, STATE, sample


def wait_for(condition, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_recording_holds_all_that_was_put(tmp_path: Path) -> None:
    recording = RunRecorder(Storage(tmp_path, min_free_bytes=0), "walk", {"robot": "go2"})
    recording.add_topic(STATE)
    recording.annotate("parameters/policy", {"rate": "50"})
    for number in range(2000):
        recording.put(sample(number))
    recording.close()
    bag = Bag(recording.directory)
    assert [message.sequence for message in bag.messages()] == list(range(2000))
    assert recording.received == {STATE.name: 2000}
    assert recording.written == {STATE.name: 2000}
    assert recording.dropped == {}
    assert bag.metadata["parameters/policy"] == {"rate": "50"}
    assert not recording.failure


def test_a_topic_that_appears_in_the_middle_of_a_flush_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = RunRecorder(Storage(tmp_path, min_free_bytes=0), "walk", {})
    annotate = BagWriter.annotate

    def annotate_and_appear(writer: BagWriter, name: str, record: Mapping[str, str]) -> None:
        annotate(writer, name, record)
        if name == "parameters/policy":
            recording.add_topic(STATE)
            recording.put(sample(0))

    monkeypatch.setattr(BagWriter, "annotate", annotate_and_appear)
    recording.annotate("parameters/policy", {"rate": "50"})
    wait_for(lambda: recording.written.get(STATE.name) == 1 or recording.failure)
    assert not recording.failure
    recording.close()


def test_a_message_of_an_unknown_topic_is_no_silent_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    recording = RunRecorder(Storage(tmp_path, min_free_bytes=0), "walk", {})
    recording.put(Message(1, "/nowhere", 1, 1, b""))
    wait_for(lambda: recording.failure)
    assert "recording stopped: KeyError: '/nowhere'" in recording.failure


def test_what_the_queue_cannot_hold_is_counted(tmp_path: Path) -> None:
    recording = RunRecorder(Storage(tmp_path, min_free_bytes=0), "walk", {})
    recording.add_topic(STATE)
    tiny = Message(1, STATE.name, 1, 1, b"")
    for _ in range(QUEUE_MESSAGES * 2):
        recording.put(tiny)
    recording.close()
    assert recording.dropped[STATE.name] > 0
    assert recording.written[STATE.name] + recording.dropped[STATE.name] == QUEUE_MESSAGES * 2


def test_too_little_room_stops_the_recording_and_ends_the_bag(tmp_path: Path) -> None:
    recording = RunRecorder(Storage(tmp_path, min_free_bytes=1 << 60), "walk", {})
    recording.add_topic(STATE)
    recording.put(sample(0))
    wait_for(lambda: recording.failure)
    assert "free on the disk" in recording.failure
    recording.put(sample(1))
    assert recording.dropped[STATE.name] == 1
    recording.close()
    bag = Bag(recording.directory)
    assert bag.complete
    assert len(list(bag.messages())) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here: not root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_stops_the_recording_and_what_is_there_is_read(small_disk: Path) -> None:
    recording = RunRecorder(Storage(small_disk, min_free_bytes=0), "walk", {})
    recording.add_topic(STATE)
    number = 0
    while not recording.failure:
        for _ in range(200):
            recording.put(sample(number)._replace(data=os.urandom(1180)))
            number += 1
        time.sleep(0.05)
    assert "No space left" in recording.failure
    recording.close()
    read = [message.sequence for message in Bag(recording.directory).messages()]
    assert len(read) > 100
    assert read == list(range(len(read)))


def test_the_ring_keeps_the_window_and_the_latched(tmp_path: Path) -> None:
    window_s = 1.0
    recording = RunRecorder(
        Storage(tmp_path, min_free_bytes=0, ring_s=window_s, after_event_s=0.5), "box", {}
    )
    recording.add_topic(STATE)
    recording.add_topic(LATCHED)
    recording.put(Message(time.time_ns(), LATCHED.name, 7, 1, b"walking"))
    first = recording.directory
    start = time.monotonic()
    number = 0
    while time.monotonic() - start < 5.0:
        recording.put(sample(number)._replace(log_ns=time.time_ns()))
        number += 1
        time.sleep(0.01)
    event_ns = time.time_ns()
    recording.event("fall")
    while recording.directory == first:
        recording.put(sample(number)._replace(log_ns=time.time_ns()))
        number += 1
        time.sleep(0.01)
    recording.close()
    bag = Bag(first)
    states = [message for message in bag.messages() if message.topic == STATE.name]
    before_s = (event_ns - states[0].log_ns) / 1e9
    assert window_s <= before_s < 4.0  # the window is there, most of what was before is not
    assert states[-1].log_ns > event_ns
    assert (first / runs.PIN).read_text() == "fall\n"
    for run in (first, recording.directory):
        assert any(message.data == b"walking" for message in Bag(run).messages())


def make_run(root: Path, name: str, kilobytes: int) -> Path:
    BagWriter(root / name, {}).close()
    (root / name / "more.mcap").write_bytes(bytes(kilobytes * 1024))
    return root / name


def test_the_quota_deletes_the_oldest_unpinned_runs_only(tmp_path: Path) -> None:
    oldest, pinned, old, current = (make_run(tmp_path, f"{n}_walk", 100) for n in range(4))
    stranger = tmp_path / "0_photos"
    stranger.mkdir()
    (stranger / "cat.jpg").write_bytes(bytes(500 * 1024))
    runs.pin(pinned, "the fall of the day")
    assert runs.enforce_quota(tmp_path, 350 * 1024, current) == [oldest]
    assert runs.enforce_quota(tmp_path, 10 * 1024, current) == [old]
    assert sorted(tmp_path.iterdir()) == sorted([stranger, pinned, current])


def test_runs_that_start_in_the_same_second_have_names_of_their_own(tmp_path: Path) -> None:
    names = set()
    for _ in range(3):
        run = runs.new_run(tmp_path, "walk")
        run.mkdir()
        names.add(run)
    assert len(names) == 3
