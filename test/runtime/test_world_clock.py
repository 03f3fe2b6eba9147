"""The clock of a twin's world waits while a core of this computer stands still; a robot's never."""

import errno
import os
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2real_deploy.bringup import graph as bringup
from sim2real_deploy.errors import Refusal
from sim2real_deploy.runtime import world_clock
from sim2real_deploy.runtime.world_clock import (
    BEAT_NS,
    GRACE_NS,
    LONGEST_NS,
    ClockPage,
    TwinClock,
    WorldClock,
    open_clock,
)

MS = 1_000_000
WRITER = """
import sys
from pathlib import Path
from sim2real_deploy.runtime.world_clock import ClockPage
page, count = ClockPage(Path(sys.argv[1])), int(sys.argv[2])
while True:
    page._write(*[page.version + 1] * count)
"""


class World:
    """A page whose cores beat, or do not, in a time that the test passes."""

    def __init__(self, path, monkeypatch, cores: int = 2) -> None:
        monkeypatch.setattr(world_clock.os, "sysconf", lambda name: cores)
        self.now_ns = 1_000 * MS
        monkeypatch.setattr(world_clock.time, "monotonic_ns", lambda: self.now_ns)
        self.cores = cores
        self.page = ClockPage(path / "clock")
        self.clock = TwinClock(ClockPage(path / "clock"))  # as another process opens it

    def live(self, ms: int, away: frozenset[int] = frozenset()) -> list[int]:
        """Pass the time, looking at every ms; cores that are away do not beat."""
        seen = []
        for _ in range(ms):
            self.now_ns += MS
            if self.now_ns % BEAT_NS == 0:
                for core in set(range(self.cores)) - away:
                    self.page.beat(core)
            seen.append(self.clock.now_ns())
        return seen


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


def test_a_robots_clock_is_this_computers():
    clock = open_clock("", 0, "")
    assert type(clock) is WorldClock
    before = time.monotonic_ns()
    assert before <= clock.now_ns() <= time.monotonic_ns()
    assert clock.stood_still_ns == 0


def test_before_anybody_beats_a_twins_clock_is_this_computers_too(world):
    assert world.clock.now_ns() == world.now_ns


def test_while_all_cores_are_there_no_time_is_lost(world):
    world.live(1000)
    assert world.clock.stood_still_ns == 0


@pytest.mark.parametrize("away", [frozenset({0}), frozenset({1}), frozenset({0, 1})])
def test_the_world_waits_for_a_core_that_is_away(world, away):
    start = world.live(100)[-1]
    seen = world.live(90, away)
    assert seen[-1] - start <= GRACE_NS
    assert seen[-1] == seen[20]
    world.live(100)
    assert 70 * MS <= world.clock.stood_still_ns <= 90 * MS - GRACE_NS + BEAT_NS
    assert world.clock.now_ns() - start == pytest.approx(110 * MS, abs=BEAT_NS)


def test_a_short_absence_is_not_waited_for(world):
    world.live(100)
    world.live(8, frozenset({0}))
    world.live(100)
    assert world.clock.stood_still_ns == 0


def test_the_world_does_not_wait_for_ever(world):
    world.live(100)
    world.live(1000, frozenset({0}))
    assert world.clock.stood_still_ns == LONGEST_NS
    before = world.clock.now_ns()
    world.live(50, frozenset({0}))
    assert world.clock.now_ns() - before == 50 * MS


def test_a_twin_that_is_gone_stops_nobodys_clock_for_long(world):
    world.live(100)
    world.live(1000, frozenset({0, 1}))
    assert world.clock.stood_still_ns == LONGEST_NS


def test_who_leaves_in_order_stops_no_clock_at_all(world):
    world.live(100)
    world.page.close()
    world.live(1000, frozenset({0, 1}))
    assert world.clock.stood_still_ns == 0
    assert not world.page.path.exists()


@given(
    st.lists(
        st.tuples(st.integers(1, 120), st.frozensets(st.integers(0, 2))), min_size=1, max_size=12
    )
)
def test_whoever_is_away_and_when_the_world_never_goes_back(tmp_path_factory, stretches):
    with pytest.MonkeyPatch.context() as patch:
        world = World(tmp_path_factory.mktemp("clock"), patch, cores=3)
        seen = world.live(20)
        for ms, away in stretches:
            seen += world.live(ms, away)
        assert all(0 <= later - sooner <= 2 * MS for sooner, later in pairwise(seen))
        lost = world.clock.stood_still_ns
        assert 0 <= lost <= sum(ms for ms, away in stretches) * MS


def test_a_page_that_is_being_written_is_read_as_it_was(world):
    world.live(100)
    before = world.clock.now_ns()
    page = world.page
    page._memory[:8] = (page.version + 1).to_bytes(8, sys.byteorder)
    page._memory[8:16] = (10**18).to_bytes(8, sys.byteorder)
    assert world.clock.now_ns() == before


def test_no_reading_mixes_what_was_written_at_different_times(tmp_path):
    """A writer in another process that never rests, whose values are all the same number."""
    page = ClockPage(tmp_path / "clock")
    count = len(page.read()) - 1
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(page.path), str(count)])
    try:
        seen, last = set(), 0
        start = time.monotonic()
        while time.monotonic() < start + (3.0 if len(seen) > 1000 else 60.0):  # a busy machine
            version, *values = page.read()
            assert len(set(values)) == 1
            assert version == values[0]
            assert version >= last
            seen.add(version)
            last = version
        assert len(seen) > 1000
    finally:
        writer.kill()
        writer.wait()


def test_a_thread_held_up_in_the_middle_of_reading_does_not_turn_time_back(world, monkeypatch):
    start = world.live(100)[-1]
    read, held = world.clock._page.read, []

    def held_up():
        values = list(read())
        if not held:
            held.append(True)
            world.live(90, frozenset({0}))
            world.live(10)
        return values

    monkeypatch.setattr(world.clock._page, "read", held_up)
    assert world.clock.now_ns() >= start


def test_a_place_where_no_clock_can_be_kept_is_refused_in_words(tmp_path, monkeypatch):
    with pytest.raises(Refusal, match="cannot be kept there: No such file"):
        ClockPage(tmp_path / "nowhere" / "clock")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(world_clock.os, "posix_fallocate", full)
    with pytest.raises(Refusal, match="No space left on device; make room"):
        ClockPage(tmp_path / "clock")


@pytest.mark.parametrize(
    ("virtual", "cores", "waits"), [(True, 2, True), (True, 64, False), (False, 2, False)]
)
def test_a_twins_world_waits_on_small_virtual_machines(monkeypatch, virtual, cores, waits):
    monkeypatch.setattr(world_clock, "cores_may_vanish", lambda: virtual)
    monkeypatch.setattr(world_clock.os, "sysconf", lambda name: cores)
    assert world_clock.world_may_wait() == waits


def test_only_a_twin_gets_such_a_clock(monkeypatch):
    def clocks(**given):
        arguments, graph = bringup.BRINGUPS["go2_walk"]
        processes = graph(bringup.resolve(arguments, given))
        return {p.name: p.parameters["clock"] for p in processes if "clock" in p.parameters}

    monkeypatch.setattr(bringup, "world_may_wait", lambda: True)
    twin = clocks()
    assert set(twin) == {"twin", "safety_supervisor", "control"}
    assert len(set(twin.values())) == 1
    assert twin["control"][0].isalpha(), "a name of digits alone is a number to ROS"
    assert twin != clocks(), "each world has its own"
    real = clocks(robot="real", interface="robot0")
    assert set(real.values()) == {""}


@pytest.mark.parametrize("name", ["../x", "a b", "x/y", "-"])
def test_a_name_that_is_no_name_is_refused(name):
    with pytest.raises(Refusal, match="letters and digits"):
        open_clock("", 0, name)
