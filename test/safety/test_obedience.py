"""Whether control obeys, to the nanosecond: what it may take, and what no longer."""

from dataclasses import replace
from typing import Any

import pytest

from sim2real_deploy.control.modes import Mode
from sim2real_deploy.safety.chain import RECOVERING, WALKING, Report, Stop
from sim2real_deploy.safety.inputs import Inputs, Reading
from sim2real_deploy.safety.obedience import GOES_ON, Obedience
from support.safety_world import DAMPING, MS
from support.safety_world import WALKING as WALKS

BEGAN_NS = 7_000 * MS
ENDS_IN_DAMPING = {Mode.PASSIVE, Mode.DAMPING, Mode.SITTING_DOWN, Mode.SLOWING_DOWN}


def seen(report: Report | None, **wire: Any) -> Inputs:
    return Inputs(report=report, **({"command_age_s": 0.002} | wire))


def ignored(
    order: Stop, inputs: Inputs, after_ns: int, speed: float | None = None
) -> tuple[float, str]:
    """What is held against control so long after an order that began while it drove."""
    watch = Obedience()
    watch.measure(seen(WALKS), order, BEGAN_NS, None, BEGAN_NS)
    reading = None if speed is None else Reading(speed)
    readings = watch.measure(inputs, order, BEGAN_NS, reading, BEGAN_NS + after_ns)
    estop, stop = readings["disobedience"], readings["stop_disobedience"]
    assert estop is not None
    assert stop is not None
    assert stop.value == bool(stop.where)
    return estop.value, stop.where


def test_an_estop_shows_as_damping_after_20_ms() -> None:
    assert ignored(Stop.ESTOP, seen(WALKS), 20 * MS - 1) == (0.0, "")
    assert ignored(Stop.ESTOP, seen(WALKS), 20 * MS) == (1.0, "")
    assert ignored(Stop.ESTOP, seen(DAMPING, command_damping=True), 20 * MS) == (0.0, "")


@pytest.mark.parametrize("mode", sorted(GOES_ON))
def test_a_stop_begins_within_100_ms(mode: str) -> None:
    goes_on = seen(replace(WALKS, mode=mode))
    assert ignored(Stop.STOP, goes_on, 100 * MS) == (0.0, "")
    assert ignored(Stop.STOP, goes_on, 100 * MS + 1) == (0.0, f"it is still {mode}")


def test_the_modes_that_go_on_are_all_but_those_that_end_in_damping() -> None:
    """Control's modes by the names in its reports: one that is added must be judged, too."""
    assert {mode.words for mode in Mode} - GOES_ON == {mode.words for mode in ENDS_IN_DAMPING}
    assert (Mode.WALKING.words, Mode.RECOVERING.words) == (WALKING, RECOVERING)


SITS = seen(replace(WALKS, mode="sitting_down"))


def test_a_stop_is_slow_after_1_8_s() -> None:
    assert ignored(Stop.STOP, SITS, 1_800 * MS, 0.4) == (0.0, "")
    assert ignored(Stop.STOP, SITS, 1_800 * MS + 1, 0.4) == (0.0, "it still goes 0.4 m/s")
    assert ignored(Stop.STOP, SITS, 1_800 * MS + 1, 0.35) == (0.0, "")
    assert ignored(Stop.STOP, SITS, 1_800 * MS + 1) == (0.0, ""), "it hangs: no speed is known"


def test_a_stop_has_ended_after_6_s() -> None:
    assert ignored(Stop.STOP, SITS, 6_000 * MS) == (0.0, "")
    assert ignored(Stop.STOP, SITS, 6_000 * MS + 1) == (0.0, "it has not sat down in time")


@pytest.mark.parametrize("order", Stop)
def test_who_is_not_ordered_or_is_not_there_ignores_nothing(order: Stop) -> None:
    assert ignored(order, seen(None), 9_000 * MS) == (0.0, "")
    if order is Stop.NONE:
        assert ignored(order, seen(WALKS), 9_000 * MS) == (0.0, "")
    damps = seen(DAMPING, command_damping=True)
    assert ignored(order, damps, 9_000 * MS) == (0.0, "")


def test_a_second_estop_is_obeyed_anew() -> None:
    """Damping that was seen after the first, or before the order, is no answer to it."""
    watch = Obedience()
    old = seen(DAMPING, command_damping=True, command_age_s=0.05)
    fresh = seen(DAMPING, command_damping=True)
    told = []
    for inputs, order, since_ms, now_ms in (
        (seen(WALKS), Stop.ESTOP, 0, 0),
        (fresh, Stop.ESTOP, 0, 30),
        (old, Stop.ESTOP, 0, 80),  # a pause after damping was seen
        (seen(WALKS), Stop.NONE, 0, 90),
        (seen(WALKS), Stop.ESTOP, 100, 100),
        (old, Stop.ESTOP, 100, 119),
        (old, Stop.ESTOP, 100, 120),
    ):
        readings = watch.measure(inputs, order, since_ms * MS, None, now_ms * MS)
        told.append(readings["disobedience"])
    assert told == [Reading(0.0)] * 6 + [Reading(1.0)]


def test_control_that_has_moved_nothing_owes_nothing_from_the_first_look_on() -> None:
    idle = seen(DAMPING, command_age_s=9.0)
    readings = Obedience().measure(idle, Stop.ESTOP, 0, None, 100 * MS)
    assert readings["disobedience"] == Reading(0.0)


def test_what_control_moved_before_it_came_to_rest_it_owes_nothing_for() -> None:
    watch = Obedience()
    watch.measure(seen(WALKS), Stop.NONE, 0, None, 0)
    idle = seen(DAMPING, command_age_s=9.0)
    watch.measure(idle, Stop.NONE, 0, None, 9_000 * MS)
    watch.measure(idle, Stop.ESTOP, 9_002 * MS, None, 9_002 * MS)
    readings = watch.measure(idle, Stop.ESTOP, 9_002 * MS, None, 9_100 * MS)
    assert readings["disobedience"] == Reading(0.0)
