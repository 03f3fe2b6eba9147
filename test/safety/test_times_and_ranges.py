"""The fixed numbers of the monitors, each by what it does: no file sets them, and a test that takes
them from the code would follow any change of them."""

import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from sim2real_deploy.safety.chain import CLEAR, Stop
from sim2real_deploy.safety.events import Reaction
from sim2real_deploy.safety.inputs import Inputs, Rate, Reading
from sim2real_deploy.safety.monitors_state import PostureMonitor, StateMonitor
from sim2real_deploy.safety.monitors_system import ControlMonitor
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.safety.supervisor import Change, Supervisor
from sim2real_deploy.safety.thermal import HeatPredictor
from sim2real_deploy.safety.watch import Watch
from sim2real_deploy.wire.link import LinkCounters
from support.safety_world import DAMPING, GO2, MS, WALKING, healthy_inputs, healthy_state

EVENTS = load_events(GO2, "indoor")
S = 1_000_000_000


def reading(monitor: Any, name: str, now_ns: int, **changes: Any) -> float:
    found = monitor.measure(healthy_inputs(now_ns, **changes), now_ns)[name]
    assert found is not None
    return float(found.value)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_robot_that_may_recover_lies_after_two_seconds_of_damping() -> None:
    posture = PostureMonitor(may_recover=True)
    on_its_side = {"quaternion": floats(math.sqrt(0.5), math.sqrt(0.5), 0, 0)}
    fallen = {"state": healthy_state(0, **on_its_side)}
    reading(posture, "fallen_rad", 0, **fallen)
    rests = fallen | {"report": DAMPING, "command_damping": True}
    assert reading(posture, "fallen_rad", 2 * S, **rests) == pytest.approx(math.pi / 2)
    assert reading(posture, "fallen_rad", 2 * S + 1, **rests) == 0


def test_a_robot_that_may_recover_is_not_excused_at_the_first_look() -> None:
    on_its_side = healthy_state(9 * S, quaternion=floats(math.sqrt(0.5), math.sqrt(0.5), 0, 0))
    rests = {"state": on_its_side, "report": DAMPING, "command_damping": True}
    assert reading(PostureMonitor(may_recover=True), "fallen_rad", 9 * S, **rests) > 1.5


@pytest.mark.parametrize("sideways", [(9.81, 0.0, 0.0), (0.0, 9.81, 0.0)])
def test_gravity_is_averaged_over_three_tenths_of_a_second(sideways: tuple[float, ...]) -> None:
    posture = PostureMonitor()
    errors = []
    for step in range(3):
        now_ns = 9 * S + step * 150 * MS
        state = healthy_state(now_ns, accelerometer=floats(*sideways))
        errors.append(reading(posture, "gravity_error_rad", now_ns, state=state))
    assert errors == pytest.approx([0.0, math.pi / 4, math.atan2(3, 1)])


def test_a_look_counts_for_10_ms_of_the_robots_silence_at_most() -> None:
    stream = StateMonitor(GO2)
    stream.measure(healthy_inputs(0), 0)
    assert reading(stream, "state_age_s", 200 * MS, state=None) == 0.01


def test_a_share_is_told_after_nine_tenths_of_a_second() -> None:
    stream = StateMonitor(GO2)
    for now_ns, told in ((0, False), (899 * MS, False), (900 * MS, True)):
        counters = LinkCounters(received=1 + now_ns // MS)
        readings = stream.measure(healthy_inputs(now_ns, counters=counters), now_ns)
        assert (readings["state_rate_loss"] is not None) is told, now_ns


def test_the_ends_of_the_imus_ranges_and_of_being_carried() -> None:
    posture = PostureMonitor()
    turning = healthy_state(0, gyroscope=floats(0, 0, 34.9), accelerometer=floats(0, 0, 9.81))
    assert reading(posture, "imu_range", 0, state=turning) == pytest.approx(1.0)
    struck = healthy_state(0, gyroscope=floats(0, 0, 0), accelerometer=floats(0, 157, 0))
    assert reading(posture, "imu_range", 0, state=struck) == pytest.approx(1.0)
    for support, known in ((4.85, False), (4.95, True)):
        light = PostureMonitor()
        light.measure(healthy_inputs(0), 0)
        state = healthy_state(S, accelerometer=floats(0, 0, support))
        error = light.measure(healthy_inputs(S, state=state), S)["gravity_error_rad"]
        assert (error is not None) is known, support


def test_a_command_is_current_for_a_tenth_of_a_second() -> None:
    for age_s, drives in ((0.0999, True), (0.1, False)):
        assert Inputs(report=DAMPING, command_age_s=age_s).driving is drives, age_s


def test_a_rate_looks_back_a_second_in_steps_of_50_ms() -> None:
    rate = Rate()
    for now_ns, expected in ((0, 0), (49 * MS, 1), (50 * MS, 2), (1049 * MS, 3), (1050 * MS, 2)):
        assert rate((0, 49, 50, 1049, 1050).index(now_ns // MS), now_ns) == expected, now_ns


def rises(count: int) -> HeatPredictor:
    """The last so many of rises that came ever faster."""
    motor = HeatPredictor()
    for k in range(20 - count, 20):
        motor.update(40.0 + k, 600.0 - (20 - k) ** 2)
    return motor


def test_sixteen_rises_are_remembered() -> None:
    left = [rises(count).time_left_s(80.0, 600.0) for count in (15, 16, 17, 18)]
    assert left[1] == left[2] == left[3]
    assert left[0] != left[1]


def test_all_rises_but_the_first_reading_count() -> None:
    motor = HeatPredictor()
    for now_s, temperature in ((0, 40), (10, 41), (40, 42), (60, 43), (80, 44)):
        motor.update(temperature, now_s)
    assert motor.time_left_s(80.0, 80.0) == pytest.approx(36 * 70 / 3)  # 3 degrees in 70 s


def test_an_event_stays_for_half_a_second() -> None:
    stop = Watch(next(event for event in EVENTS if event.key == "stop_called"))
    stop.update(Reading(1.0), 0.01)
    steps = 0
    while stop.active:
        stop.update(Reading(0.0), 0.01)
        steps += 1
    assert steps in (50, 51)


def test_a_late_cycle_counts_for_20_ms() -> None:
    tilt = Watch(next(event for event in EVENTS if event.key == "tilt"))  # after 0.2 s
    steps = 1
    while not tilt.update(Reading(0.7), 1.0):
        steps += 1
    assert steps in (10, 11)


def test_of_what_nobody_has_observed_nothing_is_assumed() -> None:
    nothing = Inputs()
    assert not nothing.driving
    assert not nothing.leaves
    assert nothing == Inputs(
        state=None,
        counters=LinkCounters(),
        report=None,
        control_silence_s=0.0,
        command=None,
        command_damping=False,
        command_age_s=math.inf,
        command_not_finite=0,
        rivals=(),
        lingering=(),
        sport_mode=False,
        vendor_mode=False,
        mode_silence_s=None,
        recorder_silence_s=None,
        disk_free_gb=None,
        foreign_simulator=False,
        unfit="",
        wall_ns=0,
        pressed=frozenset(),
        reset_asked=False,
    )


def test_a_supervisor_that_observes_nothing_lets_nothing_start() -> None:
    supervisor = Supervisor(GO2, EVENTS)
    for now_ns in range(0, S, 10 * MS):
        decision = supervisor.update(Inputs(), now_ns)
    assert decision.verdict == replace(CLEAR, may_start=False, reason="no state from the robot yet")
    refused = supervisor.update(Inputs(reset_asked=True), S).reset_refused
    assert refused == "no state from the robot yet"


def test_where_nothing_is_said_nobody_holds_a_button_and_no_fall_is_excused() -> None:
    supervisor = Supervisor(GO2, EVENTS)
    of_a_stage = replace(WALKING, stage="indoor")
    assert supervisor.update(healthy_inputs(0, report=of_a_stage), 0).verdict == CLEAR
    for now_ns in range(MS, S, 10 * MS):
        assert supervisor.update(healthy_inputs(now_ns), now_ns).verdict.stop is Stop.NONE
    on_its_side = floats(math.sqrt(0.5), math.sqrt(0.5), 0, 0)
    rests = {"report": replace(DAMPING, mode="recovering"), "command_damping": True}
    for now_ns in range(S, S + 200 * MS, 10 * MS):
        state = healthy_state(now_ns, quaternion=on_its_side)
        verdict = supervisor.update(healthy_inputs(now_ns, state=state, **rests), now_ns).verdict
    assert verdict.stop is Stop.ESTOP


def test_monitors_excuse_and_compare_nothing_unless_asked_to() -> None:
    posture = PostureMonitor()
    on_its_side = healthy_state(0, quaternion=floats(math.sqrt(0.5), math.sqrt(0.5), 0, 0))
    gets_up = replace(DAMPING, mode="recovering")
    assert reading(posture, "fallen_rad", 0, state=on_its_side, report=gets_up) > 1.5
    told = healthy_inputs(0, report=replace(DAMPING, stage="indoor"))
    assert "stage_mismatch" not in ControlMonitor().measure(told, 0)


def test_reactions_are_in_the_order_of_their_severity() -> None:
    assert [reaction.name for reaction in sorted(Reaction)] == [
        *("NOTE", "WARN", "DERATE", "REFUSE_START", "STOP", "ESTOP")
    ]
    assert list(Stop) == [Stop.NONE, Stop.STOP, Stop.ESTOP]
    assert [stop.value for stop in Stop] == [0, 1, 2]  # as they cross the chain


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (EVENTS[0], "threshold"),
        (Change(0, EVENTS[0], True, "", 0.0), "raised"),
        (Supervisor(GO2, EVENTS).update(Inputs(), 0), "verdict"),
    ],
)
def test_what_was_decided_stays_as_it_was(value: Any, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, None)
