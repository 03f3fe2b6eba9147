"""The loop and its receivers share a core; everything else keeps what it had."""

import os
import threading

import pytest
from wire_support import free_domain

from sim2real_deploy.control import realtime
from sim2real_deploy.robots import load_robot
from sim2real_deploy.wire.dds_link import DdsLink


def test_a_loop_stays_with_its_receivers_and_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(realtime, "CORES_TO_SPARE", 1)
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
