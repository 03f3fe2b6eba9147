"""One row at work: persistence, intermittent faults, holding."""

import math
from dataclasses import replace

from sim2real_deploy.safety.events import events_for
from sim2real_deploy.safety.inputs import Reading
from sim2real_deploy.safety.watch import HOLD_S, LONGEST_STEP_S, Watch
from support.safety_world import GO2

FALL = replace(
    next(event for event in events_for(GO2) if event.key == "fall"), threshold=1.0, time_s=0.06
)
BAD, GOOD = Reading(1.5), Reading(0.1)
STEP_S = 0.002


def feed(watch: Watch, reading: Reading | None, seconds: float) -> list[bool]:
    return [watch.update(reading, STEP_S) for _ in range(round(seconds / STEP_S))]


def test_it_comes_once_after_its_time() -> None:
    watch = Watch(FALL)
    changes = feed(watch, BAD, 0.2)
    assert changes.index(True) == 29  # 30 samples of 2 ms
    assert changes.count(True) == 1
    assert watch.active
    assert watch.describe() == "fell: tilted by 1.5 rad"


def test_without_a_time_it_comes_at_once() -> None:
    watch = Watch(replace(FALL, time_s=0.0))
    assert not watch.update(GOOD, STEP_S)
    assert watch.update(BAD, 0.0)


def test_nan_is_bad_and_nothing_is_good() -> None:
    watch = Watch(replace(FALL, time_s=0.0))
    assert not watch.update(None, STEP_S)
    assert watch.reading is None
    assert watch.update(Reading(math.nan), STEP_S)


def test_a_short_excess_is_forgiven() -> None:
    watch = Watch(FALL)
    for _ in range(20):
        feed(watch, BAD, 0.04)
        feed(watch, GOOD, 0.06)
    assert not watch.active


def test_a_fault_that_comes_and_goes_is_caught() -> None:
    watch = Watch(FALL)
    for _ in range(20):
        feed(watch, BAD, 0.03)
        feed(watch, GOOD, 0.01)
    assert watch.active


def test_it_goes_after_the_hold_and_keeps_its_cause_until_then() -> None:
    watch = Watch(FALL)
    feed(watch, BAD, 0.2)
    changes = feed(watch, GOOD, 1.0)
    assert abs(changes.index(True) - (HOLD_S + FALL.time_s) / STEP_S) <= 1
    assert changes.count(True) == 1
    assert not watch.active
    assert watch.reading == GOOD


def test_while_it_holds_the_reading_is_that_of_the_cause() -> None:
    watch = Watch(FALL)
    feed(watch, BAD, 0.1)
    feed(watch, GOOD, 0.1)
    assert watch.active
    assert watch.reading == BAD


def test_while_a_cause_stays_the_newest_reading_is_told() -> None:
    watch = Watch(FALL)
    feed(watch, BAD, 0.1)
    watch.update(Reading(1.2), STEP_S)
    assert watch.active
    assert watch.reading == Reading(1.2)


def test_a_cause_that_stays_never_goes() -> None:
    watch = Watch(replace(FALL, time_s=0.0))
    watch.update(BAD, STEP_S)
    assert not any(feed(watch, BAD, 3.0))
    assert watch.active
    feed(watch, GOOD, HOLD_S - 0.02)
    assert watch.active, "a long cause does not shorten the hold"
    feed(watch, GOOD, 0.04)
    assert not watch.active


def test_a_cycle_that_came_late_counts_as_one_sample() -> None:
    watch = Watch(FALL)
    watch.update(BAD, 5.0)
    assert not watch.active
    watch.update(BAD, LONGEST_STEP_S)
    assert not watch.active
    watch.update(BAD, LONGEST_STEP_S)
    assert watch.active


def test_good_times_are_not_saved_up() -> None:
    watch = Watch(FALL)
    feed(watch, GOOD, 1.0)
    assert feed(watch, BAD, 0.2).index(True) == 29


def test_the_good_time_after_a_bad_one_is_not_saved_up_either() -> None:
    watch = Watch(FALL)
    feed(watch, BAD, 0.04)
    feed(watch, GOOD, 1.0)
    assert feed(watch, BAD, 0.2).index(True) == 29


def test_without_a_reading_there_are_still_words() -> None:
    assert Watch(FALL).describe() == "fell: tilted by 0 rad"


def test_it_says_where() -> None:
    watch = Watch(replace(FALL, text="{where} at {value}"))
    feed(watch, Reading(1.5, "the left leg"), 0.2)
    assert watch.describe() == "the left leg at 1.5 rad"
