"""A core that is taken away for a moment stops a twin's world, and nothing that lives in it."""

import json
import os
import subprocess
import sys
import time

import pytest

from support.places import SUPPORT

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from sim2real_deploy.analysis.view import TOPICS, View
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.runtime.core_beats import CoreBeats
from sim2real_deploy.runtime.world_clock import ClockPage, TwinClock, world_may_wait
from sim2real_deploy.topics import TICKS
from sim2real_deploy.wire.domains import free_domain
from support.rights import real_time_is_allowed
from support.stack_support import stack

CORES = sorted(os.sched_getaffinity(0))
pytestmark = [
    pytest.mark.skipif(not real_time_is_allowed(), reason="no right to real-time priority"),
    pytest.mark.skipif(len(CORES) < 2, reason="one core: when it is away, so are we"),
]


def steal(core: int, seconds: float, every: float, times: int) -> subprocess.Popen:
    thief = SUPPORT / "core_thief.py"
    return subprocess.Popen([sys.executable, thief, *map(str, (core, seconds, every, times))])


@pytest.mark.parametrize("core", CORES[:2])
def test_the_world_waits_for_whichever_core_is_away(tmp_path, core):
    page = ClockPage(tmp_path / "clock")
    beats, clock = CoreBeats(page), TwinClock(ClockPage(tmp_path / "clock"))
    beats.start()
    try:
        time.sleep(0.2)
        before_ms = clock.stood_still_ns / 1e6
        assert steal(core, 0.1, 0.3, 3).wait(20) == 0
        time.sleep(0.05)
        # More where the host takes its share too.
        assert clock.stood_still_ns / 1e6 - before_ms > 3 * 75
    finally:
        beats.close()
    behind_ns = clock.stood_still_ns
    time.sleep(0.1)
    assert clock.stood_still_ns == behind_ns


@pytest.mark.skipif(not world_may_wait(), reason="here a twin's world waits for nobody")
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "core", [*CORES[:1], *(pytest.param(core, marks=pytest.mark.slow) for core in CORES[1:2])]
)
def test_a_walk_goes_on_while_a_core_comes_and_goes(tmp_path, core):
    arguments = ("walk_programme", "domain:=free", "stage:=indoor", "duration:=8")
    with stack(free_domain(), tmp_path, *arguments) as running:
        running.wait_for("walking")
        assert steal(core, 0.09, 0.6, 10).wait(60) == 0
        code = running.process.wait(90)
    said = "".join(running.lines)
    assert code == 0, said
    (summary,) = (tmp_path / "runs").glob("*/summary.json")
    figures = json.loads(summary.read_text())["control"]
    assert figures["policy steps over a period late"] == "0", said
    assert int(figures["this computer stood still"].split()[0]) > 10 * 60
    assert "The computer stood still for" in summary.with_name("report.html").read_text()
    recorded = Recorded(Bag(summary.parent))
    view = View(recorded, recorded.load(TOPICS))
    recorded_s = view.seconds(view.series[TICKS])[-1]
    assert view.ticks["seconds"][-1] == pytest.approx(recorded_s, abs=0.2)
