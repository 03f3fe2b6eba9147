"""What the loop asks of the system: granted, or refused in words."""

import multiprocessing
import os
import struct
import threading
from pathlib import Path

import pytest

from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime import realtime
from sim2real_deploy.wire.dds_link import DdsLink
from support.rights import real_time_is_allowed
from support.wire_support import free_domain


def test_a_loop_stays_with_its_receivers_and_leaves_the_others_alone() -> None:
    link = DdsLink(load_robot("go2"), "lo", free_domain())
    cores, seen = os.sched_getaffinity(0), []

    def loop() -> None:
        for number in (0, 1):
            realtime.stay_together(number)
            seen.append((os.sched_getaffinity(0), receivers()))
            os.sched_setaffinity(0, cores)

    def receivers() -> list[set[int]]:
        return [os.sched_getaffinity(thread) for thread in realtime._receivers()]

    try:
        thread = threading.Thread(target=loop)
        thread.start()
        thread.join()
    finally:
        link.close()
    for own, theirs in seen:
        assert len(own) == 1
        assert theirs, "a link has receivers"
        assert all(core == own for core in theirs)
    (first, _), (second, _) = seen
    assert len(cores) == 1 or first != second, "two robots' loops do not meet on one core"
    assert os.sched_getaffinity(0) == cores


def _priorities() -> tuple[set[int], set[int]]:
    """Of Python's threads and of DDS's, in a process like control's."""
    over = threading.Event()
    realtime.prefer_this_process()
    link = DdsLink(load_robot("go2"), "lo", free_domain())
    threading.Thread(target=over.wait).start()
    realtime.prefer_interpreter()
    threading.Thread(target=over.wait).start()  # as the loop's own services do, later
    own = {thread.native_id for thread in threading.enumerate()}
    every = {int(task.name) for task in Path("/proc/self/task").iterdir()}
    found = [{os.sched_getparam(n).sched_priority for n in some} for some in (own, every - own)]
    over.set()
    link.close()
    return found[0], found[1]


@pytest.mark.skipif(not real_time_is_allowed(), reason="no right to real-time priority")
def test_whoever_may_hold_the_interpreter_waits_behind_no_crowd_of_messages() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as other_process:
        python, middleware = other_process.apply(_priorities)
    assert python == {realtime.INTERPRETER_PRIORITY}
    assert max(middleware) == realtime.SERVICE_PRIORITY
    assert realtime.SERVICE_PRIORITY < realtime.INTERPRETER_PRIORITY < realtime.FIFO_PRIORITY


def test_an_ordinary_process_stays_one() -> None:
    realtime.prefer_interpreter()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def _longest_wake_us() -> int:
    """What the kernel goes by, after everybody's wishes."""
    (longest,) = struct.unpack("=i", Path(realtime.WAKE_LATENCY).read_bytes())
    return int(longest)


def _awake() -> tuple[str, int]:
    return realtime.keep_awake(), _longest_wake_us()


@pytest.mark.skipif(
    not os.access(realtime.WAKE_LATENCY, os.R_OK | os.W_OK), reason="no right to ask for it"
)
def test_cores_stay_awake_for_as_long_as_the_process_lives() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as other_process:
        assert other_process.apply(_awake) == ("", 0)


def test_cores_that_may_not_be_kept_awake_are_told_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(realtime, "WAKE_LATENCY", str(tmp_path / "none"))
    refused = realtime.keep_awake()
    assert "fall asleep" in refused
    assert str(tmp_path / "none") in refused
