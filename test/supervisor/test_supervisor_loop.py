"""The supervisor's own thread keeps its time, however many people call."""

import itertools
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.runtime.local_channel import LocalChannel
from sim2real_deploy.safety.chain import HEARTBEAT_TIMEOUT_NS, Heartbeat, Stop
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.supervisor.command_watch import CommandWatch
from sim2real_deploy.supervisor.loop import LAST_DAMPING, LOOK_S, SupervisorLoop
from sim2real_deploy.wire.channels import Sample
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.domains import free_domain
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.link import Writer
from support.safety_world import DAMPING, command

GO2 = load_robot("go2")
CALLS = 200


class Watched:
    """A supervisor whose looks are counted, and what control hears of it."""

    def __init__(self, folder: Path) -> None:
        self.control = LocalChannel(folder, "control", "safety")
        events = load_events(GO2, "indoor")
        link = DdsLink(GO2, "lo", free_domain(), name="safety")
        self.loop = SupervisorLoop(GO2, events, link, LocalChannel(folder, "safety", "control"))
        self.looks_s: list[float] = []
        update = self.loop.supervisor.update

        def counted(*arguments: Any) -> Any:
            self.looks_s.append(time.monotonic())
            return update(*arguments)

        self.loop.supervisor.update = counted  # type: ignore[method-assign]
        self.loop.start()

    def orders(self) -> list[Heartbeat]:
        heard = map(Heartbeat.unpack, self.control.receive())
        return [heartbeat for heartbeat in heard if heartbeat is not None]

    def longest_silence_ns(self, heard: list[Heartbeat]) -> int:
        sent_ns = [heartbeat.sent_ns for heartbeat in heard]
        return max(b - a for a, b in itertools.pairwise(sent_ns))

    def close(self) -> None:
        self.loop.close()
        self.control.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    watched.close()


@pytest.mark.parametrize("what", ["reset", "stop", "estop"])
def test_a_crowd_of_calls_never_leaves_the_robot_unwatched(watched: Watched, what: str) -> None:
    """Each call once postponed the next look by a period: after a hundred there was none for a
    third of a second, and control would have damped for want of a heartbeat."""
    heard = watched.orders()
    for _ in range(CALLS):
        watched.loop.reset() if what == "reset" else watched.loop.press(what)
        heard += watched.orders()
    time.sleep(1.5 * CALLS * LOOK_S)
    heard += watched.orders()
    assert watched.longest_silence_ns(heard) < HEARTBEAT_TIMEOUT_NS


def test_calls_for_a_stop_in_force_cost_no_look_of_their_own(watched: Watched) -> None:
    watched.loop.press("estop")
    assert watched.orders()[-1].stop is Stop.ESTOP, "control is told before the call returns"
    begun_s = time.monotonic()
    for _ in range(CALLS):
        watched.loop.press("stop")
        watched.loop.press("estop")
    time.sleep(3 * LOOK_S)
    ended_s = time.monotonic()
    looks = sum(begun_s < look_s < ended_s for look_s in watched.looks_s)
    assert looks <= (ended_s - begun_s) / LOOK_S + 2
    assert watched.loop.supervisor.watches["estop_called"].active, "they count all the same"


def test_a_stop_that_meets_a_reset_waits_until_it_is_in_force(watched: Watched) -> None:
    loop = watched.loop
    loop.press("estop")
    loop._reset_asked = True  # by another caller, and not judged yet
    looks = len(watched.looks_s)
    loop.press("estop")
    assert len(watched.looks_s) > looks
    assert loop.verdict.stop is Stop.ESTOP


def gone(watched: Watched, drives: bool, leaving: bool) -> SupervisorLoop:
    """A supervisor whose control has ended, after these words and that last command."""
    loop = watched.loop
    loop._stopping.set()
    loop._thread.join()
    ended = subprocess.Popen(["true"])
    ended.wait()
    loop.chain.report = replace(DAMPING, pid=ended.pid, leaving=leaving)
    loop._wire.command = JointCommand.damping(GO2.joint_count, 3.0)
    loop._wire.damping = not drives
    return loop


@pytest.mark.parametrize(
    ("drives", "leaving", "forgotten"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
def test_a_control_that_says_it_leaves_is_believed_by_the_wire(
    watched: Watched, drives: bool, leaving: bool, forgotten: bool
) -> None:
    """One that says so and ends while its last command still drives must be replaced."""
    loop = gone(watched, drives, leaving)
    assert loop._watch_control(0) == float("inf")
    assert (loop.chain.report is None) is forgotten


def test_a_control_that_left_while_its_last_command_drives_is_replaced(watched: Watched) -> None:
    loop = gone(watched, drives=True, leaving=True)
    loop._wire._control = DAMPING.participant
    loop._cycle(None, loop.now_ns())
    assert loop.supervisor.taken_over
    assert loop.verdict.stop is Stop.ESTOP


@pytest.mark.parametrize(
    ("mode", "commanded", "damps"),
    [("passive", False, False), ("passive", True, True), ("walking", False, True)],
)
def test_a_passive_control_that_dies_is_not_damped_beside_sport_mode(
    watched: Watched, mode: str, commanded: bool, damps: bool
) -> None:
    """The vendor's sport mode holds that robot: 250 damping commands a second of ours beside its
    own would make it collapse."""
    loop = gone(watched, drives=False, leaving=False)
    said = loop.chain.report
    assert said is not None
    loop.chain.report = replace(said, mode=mode, damping=mode == "passive")
    loop._wire._control = DAMPING.participant
    if not commanded:
        loop._wire.command, loop._wire.damping = None, False
    for _ in range(3):
        loop._cycle(None, loop.now_ns())
    assert loop.supervisor.taken_over
    assert loop.verdict.stop is Stop.ESTOP
    assert loop.commands is damps
    assert bool(loop._link.counters.sent) is damps


def test_a_supervisor_that_damps_does_not_end_with_one_command(watched: Watched) -> None:
    """A launcher ends it in the moment in which control has died."""
    loop = watched.loop
    loop.supervisor.taken_over = loop.commands = True
    loop._stopping.set()
    before = loop._link.counters.sent
    loop._thread.join()
    assert loop._link.counters.sent - before >= LAST_DAMPING


def test_beside_a_robot_that_restarted_the_supervisor_sends_nothing(watched: Watched) -> None:
    loop = gone(watched, drives=True, leaving=False)
    loop._wire._control = DAMPING.participant
    loop._cycle(None, loop.now_ns())
    assert loop.commands
    loop._link.counters.leaps += 1
    loop._cycle(None, loop.now_ns())
    assert not loop.commands
    assert loop.verdict.stop is Stop.ESTOP


def test_a_wild_command_before_a_good_one_is_an_estop(watched: Watched) -> None:
    loop = watched.loop
    loop._stopping.set()
    loop._thread.join()
    wild, good = (CommandEncoder(GO2).encode(command(kp=kp)) for kp in (900, 30))
    person = Writer(DAMPING.participant, "here", "control")
    loop._wire = CommandWatch(GO2, lambda _: person, "safety-key")
    loop._commands = Samples([Sample(wild, 0, 0, 1), Sample(good, 0, 0, 1)])  # type: ignore[assignment]
    with subprocess.Popen(["sleep", "60"]) as control:
        loop.chain.report = replace(DAMPING, damping=False, pid=control.pid)
        loop._cycle(None, loop.now_ns())
        control.kill()
    assert loop.supervisor.watches["command_gain"].active
    assert loop.verdict.stop is Stop.ESTOP


class Samples:
    """What a reader gives at every look."""

    def __init__(self, samples: list[Sample[bytes]]) -> None:
        self.take = lambda: samples
