"""Heat: how long is left, and how much torque. The windings here are a formula with a truth."""

import math

import numpy as np
import pytest

from sim2real_deploy.safety.inputs import Reading
from sim2real_deploy.safety.thermal import HeatMonitor, HeatPredictor, _time_to, torque_fraction
from support.safety_world import GO2, MS, healthy_inputs, healthy_state

LIMIT = 80.0


def warming(start: float, settles_at: float, time_constant_s: float, t: float) -> float:
    return settles_at + (start - settles_at) * math.exp(-t / time_constant_s)


def predictions(
    start: float, settles_at: float, time_constant_s: float, stop_s: float
) -> list[tuple[float, float]]:
    """(true, predicted) time left, ten times a second, from whole-degree readings."""
    motor = HeatPredictor()
    reached_s = time_constant_s * math.log((start - settles_at) / (LIMIT - settles_at))
    pairs = []
    for step in range(round(stop_s * 10)):
        t = step / 10
        motor.update(int(warming(start, settles_at, time_constant_s, t)), t)
        pairs.append((reached_s - t, motor.time_left_s(LIMIT, t)))
    return pairs


@pytest.mark.parametrize(
    ("start", "settles_at", "time_constant_s"),
    [(35.0, 120.0, 300.0), (60.0, 200.0, 100.0), (40.0, 95.0, 60.0), (55.0, 1000.0, 900.0)],
)
def test_the_time_left_is_within_a_fifth_of_the_truth(
    start: float, settles_at: float, time_constant_s: float
) -> None:
    reached_s = time_constant_s * math.log((start - settles_at) / (LIMIT - settles_at))
    pairs = predictions(start, settles_at, time_constant_s, reached_s * 0.98)
    told = [(true, said) for true, said in pairs if math.isfinite(said)]
    assert len(told) > 0.7 * len(pairs)
    late = told[len(told) // 3 :]
    for true, said in late:
        assert said == pytest.approx(true, rel=0.2, abs=1.0)


def test_a_motor_that_will_not_get_there_has_all_the_time() -> None:
    motor = HeatPredictor()
    for step in range(6000):
        t = step / 10
        motor.update(int(warming(35.0, 70.0, 60.0, t)), t)
        if t > 60:
            assert motor.time_left_s(LIMIT, t) == math.inf


def test_nothing_is_said_before_there_is_enough_to_go_by() -> None:
    motor = HeatPredictor()
    assert motor.time_left_s(LIMIT, 0.0) == math.inf
    for second in range(4):
        motor.update(40 + second, float(second))
        assert motor.time_left_s(LIMIT, float(second)) == math.inf
    motor.update(44, 4.0)
    assert motor.time_left_s(LIMIT, 4.0) == pytest.approx(36.0)
    assert motor.time_left_s(LIMIT, 4.5) == pytest.approx(35.5)


def test_a_slower_motor_has_more_time() -> None:
    motor = HeatPredictor()
    for step in range(6):
        motor.update(40 + step, step * 4.0)
    assert motor.time_left_s(LIMIT, 20.0) == pytest.approx(140.0)


def test_the_first_reading_is_no_rise() -> None:
    motor = HeatPredictor()
    motor.update(40, 0.0)
    for second in range(100, 105):
        motor.update(second - 59, float(second))
    assert motor.time_left_s(LIMIT, 104.0) == pytest.approx(35.0)


def test_a_motor_that_came_to_rest_has_all_the_time() -> None:
    motor = HeatPredictor()
    for second in range(6):
        motor.update(40 + second, float(second))
    assert motor.time_left_s(LIMIT, 7.0) == pytest.approx(33.0)
    assert motor.time_left_s(LIMIT, 7.2) == math.inf
    assert motor.time_left_s(LIMIT, 7.095) == pytest.approx(32.905), "a look may come late"
    assert motor.time_left_s(LIMIT, 7.105) == math.inf


def test_a_motor_that_cools_starts_again() -> None:
    motor = HeatPredictor()
    for second in range(6):
        motor.update(40 + second, float(second))
    motor.update(43, 6.0)
    assert math.isfinite(motor.time_left_s(LIMIT, 6.0)), "a flicker of the reading is no cooling"
    motor.update(42, 6.5)
    assert motor.time_left_s(LIMIT, 6.5) == math.inf
    for second in range(10, 15):
        motor.update(33 + second, float(second))
    assert motor.time_left_s(LIMIT, 14.0) == pytest.approx(33.0)


def test_beyond_the_limit_no_time_is_left() -> None:
    motor = HeatPredictor()
    for second in range(6):
        motor.update(76 + second, float(second))
    assert motor.time_left_s(LIMIT, 5.0) == 0.0
    assert motor.time_left_s(81.0, 5.0) == 0.0
    assert motor.time_left_s(82.0, 5.0) == pytest.approx(1.0)
    assert motor.time_left_s(82.0, 6.5) == 0.0


def test_old_rises_are_forgotten() -> None:
    motor = HeatPredictor()
    for second in range(20):
        motor.update(20 + second, second * 100.0)
    for second in range(20):
        motor.update(40 + second, 2000.0 + second)
    assert motor.time_left_s(LIMIT, 2019.0) == pytest.approx(21.0)


def test_torque_falls_in_a_line_between_the_tiers() -> None:
    assert [torque_fraction(t, 72, 80) for t in (20, 72, 74, 76, 80, 120)] == pytest.approx(
        [1.0, 1.0, 0.875, 0.75, 0.5, 0.5]
    )
    assert [torque_fraction(t, 80, 80) for t in (79, 80, 80.5)] == [1.0, 1.0, 0.5]


def test_a_limit_between_two_degrees_is_passed_by_the_next_whole_one() -> None:
    heat = HeatMonitor(GO2, 79.5)
    for second in range(6):
        now_ns = second * 1000 * MS
        state = healthy_state(now_ns, temperature=np.full(12, 40 + second, np.int8))
        left = heat.measure(healthy_inputs(now_ns, state=state), now_ns)["motor_time_left_s"]
    assert left == Reading(pytest.approx(35.0), "FR_hip_joint")


def test_the_hottest_motor_and_the_first_to_be_too_hot_are_named() -> None:
    heat = HeatMonitor(GO2, LIMIT)
    assert heat.measure(healthy_inputs(0, state=None), 0) == {}
    temperatures = np.full(12, 30, np.int8)
    temperatures[3] = 70
    for second in range(6):
        temperatures = temperatures.copy()
        temperatures[9] = 40 + second
        now_ns = second * 1000 * MS
        state = healthy_state(now_ns, temperature=temperatures)
        readings = heat.measure(healthy_inputs(now_ns, state=state), now_ns)
    assert readings == {
        "motor_temperature": Reading(70.0, "FL_hip_joint"),
        "motor_time_left_s": Reading(pytest.approx(36.0), "RL_hip_joint"),
    }


def test_it_looks_ten_times_a_second() -> None:
    heat = HeatMonitor(GO2, LIMIT)
    first = heat.measure(healthy_inputs(0), 0)
    hot = healthy_state(0, temperature=np.full(12, 70, np.int8))
    assert heat.measure(healthy_inputs(0, state=hot), 99 * MS) is first
    assert heat.measure(healthy_inputs(0, state=None), 100 * MS) is first
    readings = heat.measure(healthy_inputs(0, state=hot), 100 * MS)
    assert readings["motor_temperature"] == Reading(70.0, "FR_hip_joint")


def test_the_time_left_at_its_ends() -> None:
    assert _time_to(50.0, 50.0, 0.0, 0.0) == 0.0, "it is there"
    assert _time_to(100.0, 50.0, 1.0, -0.01) == math.inf, "it comes to rest at the limit itself"


def test_it_looks_no_more_often_later_on() -> None:
    heat = HeatMonitor(GO2, LIMIT)
    first = heat.measure(healthy_inputs(0), 1000 * MS)
    assert heat.measure(healthy_inputs(0), 1050 * MS) is first
