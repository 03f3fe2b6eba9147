"""Each measurement, from a healthy robot and from one with a single thing wrong."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim2real_deploy.robots.odometry import legs_of
from sim2real_deploy.safety.envelope import CommandEnvelope
from sim2real_deploy.safety.inputs import Inputs, Rate, Reading
from sim2real_deploy.safety.monitors_body import BatteryMonitor, JointMonitor, RemoteMonitor
from sim2real_deploy.safety.monitors_state import LONGEST_LOOK_S, PostureMonitor, StateMonitor
from sim2real_deploy.safety.monitors_system import ControlMonitor, SystemMonitor
from sim2real_deploy.safety.motion import MotionMonitor
from sim2real_deploy.safety.thermal import HeatMonitor
from sim2real_deploy.wire import remote
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import StateEncoder
from sim2real_deploy.wire.link import LinkCounters
from support.safety_world import (
    DAMPING,
    GO2,
    MS,
    TICK,
    WALKING,
    command,
    healthy_inputs,
    healthy_state,
    rolling,
)

S = 1_000_000_000


def value(monitor: Any, name: str, inputs: Inputs, now_ns: int = 0) -> float:
    reading = monitor.measure(inputs, now_ns)[name]
    assert reading is not None
    return float(reading.value)


def with_state(now_ns: int = 0, **changes: Any) -> Inputs:
    return healthy_inputs(now_ns, state=healthy_state(now_ns, **changes))


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# Rate


def test_a_rate_is_the_growth_within_the_last_second() -> None:
    rate = Rate()
    assert rate(100, 0) == 0
    assert rate.since_ns == 0
    assert rate(103, 10 * MS) == 3
    for step in range(1, 41):
        grown = rate(103 + step, step * 50 * MS)
    assert grown == 20
    assert rate.since_ns == S


def test_a_counter_that_starts_again_is_no_rate() -> None:
    rate = Rate()
    rate(100, 0)
    assert rate(5, 10 * MS) == 0


def test_marks_are_kept_apart() -> None:
    rate = Rate()
    for now_ns in range(0, 3 * S, TICK):
        assert rate(7, now_ns) == 0
    assert 0.99 * S <= 3 * S - rate.since_ns <= 1.06 * S


# the state stream


def test_before_the_first_state_nothing_is_said_of_its_age() -> None:
    readings = StateMonitor(GO2).measure(healthy_inputs(0, state=None), 0)
    assert set(readings) == {
        *("state_corrupt_per_s", "state_not_finite_per_s", "mixed_states_per_s")
    }


def test_the_age_grows_while_the_robot_is_silent() -> None:
    stream = StateMonitor(GO2)
    assert value(stream, "state_age_s", healthy_inputs(0), MS) == 0
    silent = healthy_inputs(0, state=None)
    for now_ms in range(3, 41, 2):
        age_s = value(stream, "state_age_s", silent, now_ms * MS)
    assert age_s == pytest.approx(0.038)
    assert value(stream, "state_unchanged_s", silent, 40 * MS) == 0
    assert value(stream, "state_age_s", healthy_inputs(41 * MS), 41 * MS) == 0


def test_a_supervisor_that_was_held_up_itself_does_not_call_the_robot_silent() -> None:
    stream = StateMonitor(GO2)
    stream.measure(healthy_inputs(0), 0)
    silent = healthy_inputs(0, state=None)
    assert value(stream, "state_age_s", silent, 200 * MS) == LONGEST_LOOK_S


def test_a_robot_that_is_not_driven_may_be_silent() -> None:
    stream = StateMonitor(GO2)
    idle = healthy_inputs(0, report=None)
    stream.measure(idle, 0)
    for now_ms in range(2, 2001, 2):
        readings = stream.measure(replace(idle, state=None), now_ms * MS)
    assert readings["idle_state_age_s"] == Reading(pytest.approx(2.0))
    assert not {"state_age_s", "state_unchanged_s", "state_rate_loss"} & set(readings)


@pytest.mark.parametrize("part", ["gyroscope", "accelerometer", "dq"])
def test_a_state_is_frozen_when_all_its_sensors_are(part: str) -> None:
    stream = StateMonitor(GO2)
    still = healthy_state(0)
    for now_ns in (0, 10 * MS, 20 * MS):
        frozen = replace(still, received_ns=now_ns, tick=now_ns)
        unchanged = value(stream, "state_unchanged_s", healthy_inputs(0, state=frozen), now_ns)
        assert unchanged == pytest.approx(now_ns / 1e9)
    moving = replace(frozen, received_ns=30 * MS, **{part: getattr(still, part) + 1})
    inputs = healthy_inputs(0, state=moving)
    assert value(stream, "state_unchanged_s", inputs, 30 * MS) == 0


def test_a_message_that_is_repeated_is_a_frozen_state() -> None:
    stream = StateMonitor(GO2)
    stream.measure(healthy_inputs(0), 0)
    for now_ms in range(2, 31, 2):
        counters = LinkCounters(duplicate=now_ms // 2)
        repeated = healthy_inputs(0, state=None, counters=counters)
        unchanged_s = value(stream, "state_unchanged_s", repeated, now_ms * MS)
        assert unchanged_s == pytest.approx(now_ms / 1e3)
    silent = healthy_inputs(0, state=None, counters=counters)
    assert value(stream, "state_unchanged_s", silent, 60 * MS) == pytest.approx(0.03)
    anew = healthy_inputs(0, state=healthy_state(62 * MS), counters=counters)
    moved = replace(anew.state, dq=anew.state.dq + 1)
    assert value(stream, "state_unchanged_s", replace(anew, state=moved), 62 * MS) == 0


def test_what_was_repeated_before_the_first_state_freezes_nothing() -> None:
    stream = StateMonitor(GO2)
    for now_ns in (0, MS):
        counters = LinkCounters(duplicate=5 + now_ns)
        before = healthy_inputs(0, state=None, counters=counters)
        assert "state_unchanged_s" not in stream.measure(before, now_ns)


def test_a_first_state_of_zeros_counts_from_its_arrival() -> None:
    stream = StateMonitor(GO2)
    first = healthy_inputs(0, state=healthy_state(5 * S))
    assert value(stream, "state_unchanged_s", first, 5 * S) == 0


def test_a_slow_stream_shows_as_the_share_that_is_missing() -> None:
    stream = StateMonitor(GO2)
    received = 1
    for now_ns in range(0, 2 * S, TICK):
        received += now_ns % (4 * TICK) != 0
        inputs = healthy_inputs(now_ns, counters=LinkCounters(received=received))
        loss = stream.measure(inputs, now_ns)["state_rate_loss"]
        assert (loss is None) == (now_ns < 0.9 * S)
    assert loss is not None
    assert loss.value == pytest.approx(0.25, abs=0.01)


def test_the_time_before_the_first_message_is_no_loss() -> None:
    """A stack may be told to stand up within a second of finding the robot."""
    stream = StateMonitor(GO2)
    for now_ns in range(0, S, TICK):
        stream.measure(healthy_inputs(now_ns, state=None, counters=LinkCounters()), now_ns)
    losses = []
    for number, now_ns in enumerate(range(S, 3 * S, TICK), start=1):
        inputs = healthy_inputs(now_ns, counters=LinkCounters(received=number))
        losses.append(stream.measure(inputs, now_ns)["state_rate_loss"])
    assert losses[0] is None
    assert max(loss.value for loss in losses if loss is not None) < 0.01


def test_a_full_rate_shows_no_loss() -> None:
    stream = StateMonitor(GO2)
    for now_ns in range(0, 2 * S, TICK):
        loss = stream.measure(healthy_inputs(now_ns), now_ns)["state_rate_loss"]
    assert loss is not None
    assert loss.value == pytest.approx(0, abs=0.005)


def test_flawed_samples_are_counted_by_the_second() -> None:
    stream = StateMonitor(GO2)
    stream.measure(healthy_inputs(0), 0)
    counters = LinkCounters(bad_crc=3, bad_length=4, not_finite=2)
    readings = stream.measure(healthy_inputs(0, counters=counters), MS)
    assert readings["state_corrupt_per_s"] == Reading(7)
    assert readings["state_not_finite_per_s"] == Reading(2)


# posture


def test_a_standing_robot_is_upright_and_supported() -> None:
    readings = PostureMonitor().measure(with_state(), 0)
    assert readings["tilt_rad"] == Reading(0.0)
    assert readings["quaternion_error"] == Reading(0.0)
    assert readings["gravity_error_rad"] == Reading(0.0)
    assert readings["acceleration"] == Reading(pytest.approx(9.81))
    assert readings["imu_range"] == Reading(pytest.approx(9.81 / 157.0, rel=1e-3))


def test_posture_is_kept_between_states() -> None:
    posture = PostureMonitor()
    assert posture.measure(healthy_inputs(0, state=None), 0) == {}
    seen = posture.measure(with_state(), 0)
    assert posture.measure(healthy_inputs(0, state=None), TICK) == seen


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("angle", [0.3, 1.0, 2.0, math.pi])
def test_tilt_is_the_angle_from_upright_about_any_level_axis(axis: int, angle: float) -> None:
    quaternion = np.zeros(4, np.float32)
    quaternion[0], quaternion[axis] = math.cos(angle / 2), math.sin(angle / 2)
    tilt = value(PostureMonitor(), "tilt_rad", with_state(quaternion=quaternion))
    assert tilt == pytest.approx(angle, abs=1e-3)


def test_turning_on_the_spot_is_no_tilt() -> None:
    quaternion = floats(math.cos(1), 0, 0, math.sin(1))
    assert value(PostureMonitor(), "tilt_rad", with_state(quaternion=quaternion)) == 0


def test_tilt_of_a_quaternion_out_of_range_is_still_an_angle() -> None:
    assert value(PostureMonitor(), "tilt_rad", with_state(quaternion=floats(0, 2, 0, 0))) == math.pi


@pytest.mark.parametrize(
    ("quaternion", "error"),
    [((0, 0, 0, 0), 1.0), ((0.9, 0, 0, 0), 0.1), ((0, 3, 0, 4), 4.0), ((0, 0, 1.1, 0), 0.1)],
)
def test_a_quaternion_that_is_none(quaternion: tuple[float, ...], error: float) -> None:
    seen = value(PostureMonitor(), "quaternion_error", with_state(quaternion=floats(*quaternion)))
    assert seen == pytest.approx(error, abs=1e-6)


def test_the_imu_at_the_end_of_its_range() -> None:
    spin = with_state(gyroscope=floats(0, 34.9, 0))
    assert value(PostureMonitor(), "imu_range", spin) == pytest.approx(1.0)
    hit = with_state(accelerometer=floats(0, 157.0 * 2, 0))
    assert value(PostureMonitor(), "imu_range", hit) == pytest.approx(2.0)


def gravity_error(quaternion: np.ndarray, accelerometer: np.ndarray, seconds: float) -> float:
    posture = PostureMonitor()
    for now_ns in range(0, round(seconds * S), TICK):
        inputs = with_state(now_ns, quaternion=quaternion, accelerometer=accelerometer)
        reading = posture.measure(inputs, now_ns)["gravity_error_rad"]
    assert reading is not None
    return reading.value


def test_orientation_and_accelerometer_that_agree_in_any_pose() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        quaternion = rng.normal(size=4)
        w, x, y, z = quaternion / np.linalg.norm(quaternion)
        up = 9.81 * floats(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y))
        assert gravity_error(floats(w, x, y, z), up, 0.2) == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("direction", [(9.81, 0, 0), (0, 9.81, 0), (0, -9.81, 0)])
def test_orientation_and_accelerometer_that_disagree(direction: tuple[float, ...]) -> None:
    level = floats(1, 0, 0, 0)
    assert gravity_error(level, floats(*direction), 3.0) == pytest.approx(math.pi / 2, abs=0.01)
    after_300_ms = gravity_error(level, floats(*direction), 0.302)
    assert after_300_ms == pytest.approx(math.atan2(1 - math.exp(-1), math.exp(-1)), abs=0.02)


def test_upside_down_by_the_accelerometer_alone_is_a_half_turn() -> None:
    assert gravity_error(floats(1, 0, 0, 0), floats(0, 0, -9.81), 3.0) == pytest.approx(math.pi)


def test_in_free_fall_down_is_unknown() -> None:
    posture = PostureMonitor()
    for now_ns in range(0, S, TICK):
        readings = posture.measure(with_state(now_ns, accelerometer=floats(0, 0, 0.1)), now_ns)
    assert readings["gravity_error_rad"] is None
    assert readings["acceleration"] == Reading(pytest.approx(0.1))


def test_a_long_gap_takes_the_new_value_and_no_more() -> None:
    posture = PostureMonitor()
    posture.measure(with_state(0), 0)
    inputs = with_state(10 * S, accelerometer=floats(9.81, 0, 0))
    assert value(posture, "gravity_error_rad", inputs) == pytest.approx(math.pi / 2)


# joints, battery


def test_a_joint_beyond_its_range_is_named() -> None:
    q = GO2.stand_pose.copy()
    q[2] = GO2.stop_high[2] + 0.25
    reading = JointMonitor(GO2).measure(with_state(q=q), 0)["joint_excess_rad"]
    assert reading == Reading(pytest.approx(0.25, abs=1e-5), "FR_calf_joint")
    q[2] = GO2.stop_low[2] - 0.5
    reading = JointMonitor(GO2).measure(with_state(q=q), 0)["joint_excess_rad"]
    assert reading == Reading(pytest.approx(0.5, abs=1e-5), "FR_calf_joint")


def test_within_its_range_the_excess_is_negative() -> None:
    assert value(JointMonitor(GO2), "joint_excess_rad", with_state()) < 0


@pytest.mark.parametrize("sign", [-1, 1])
def test_speed_and_torque_are_shares_of_the_joints_own_limit(sign: int) -> None:
    dq, torque = np.zeros(12, np.float32), np.zeros(12, np.float32)
    dq[5], torque[1] = sign * 15.7 / 2, sign * 23.7 * 0.75
    readings = JointMonitor(GO2).measure(with_state(dq=dq, torque=torque), 0)
    assert readings["joint_speed"] == Reading(pytest.approx(0.5), "FL_calf_joint")
    assert readings["joint_torque"] == Reading(pytest.approx(0.75), "FR_thigh_joint")


def test_joint_readings_are_kept_between_states() -> None:
    joints = JointMonitor(GO2)
    assert joints.measure(healthy_inputs(0, state=None), 0) == {}
    seen = joints.measure(with_state(), 0)
    assert joints.measure(healthy_inputs(0, state=None), TICK) == seen


def test_lost_packets_are_counted_from_the_start_and_the_motor_is_named() -> None:
    joints = JointMonitor(GO2)
    lost = np.full(12, 1000, np.uint32)
    assert joints.measure(with_state(lost=lost), 0)["motor_lost_per_s"] == Reading(0, "")
    lost = lost.copy()
    lost[7] += 4
    seen = joints.measure(with_state(lost=lost), MS)["motor_lost_per_s"]
    assert seen == Reading(4, "RR_thigh_joint")
    lost[8] += 5  # the sample's own memory is used again: what was kept must be a copy
    seen = joints.measure(with_state(lost=lost), 2 * MS)["motor_lost_per_s"]
    assert seen == Reading(9, "RR_calf_joint")
    assert joints.measure(with_state(lost=lost), 3 * MS)["motor_lost_per_s"] == seen


def test_the_battery() -> None:
    cells = np.array([3900, 3650, 3800, 0, 0], np.uint16)
    inputs = with_state(battery_percent=17, cell_millivolts=cells, voltage=25.5)
    battery = BatteryMonitor()
    assert battery.measure(healthy_inputs(0, state=None), 0) == {}
    seen = battery.measure(inputs, 0)
    assert seen == {
        "battery_percent": Reading(17),
        "cell_imbalance_v": Reading(pytest.approx(0.25)),
        "voltage": Reading(25.5),
    }
    assert battery.measure(healthy_inputs(0, state=None), 0) is seen


def test_a_battery_at_zero_is_known_and_one_that_is_not_told_is_not() -> None:
    assert value(BatteryMonitor(), "battery_percent", with_state(battery_percent=0)) == 0
    assert BatteryMonitor().measure(with_state(battery_percent=-1), 0) == {}


def test_the_zeros_of_a_foreign_simulator_say_nothing_but_its_chord_does() -> None:
    chord = bytes((0, 0)) + buttons("L2", "B")[2:]  # a gamepad's bytes, without a remote's header
    inputs = replace(with_state(battery_percent=0, remote=chord), foreign_simulator=True)
    assert BatteryMonitor().measure(inputs, 0) == {}
    control = RemoteMonitor("")
    control.measure(inputs, 0)
    seen = control.measure(inputs, 5000 * MS)
    assert seen["remote_silence_s"] is None
    assert seen["remote_estop"] == Reading(1.0)


def test_a_battery_without_cells_has_no_imbalance() -> None:
    cells = np.zeros(0, np.uint16)
    assert value(BatteryMonitor(), "cell_imbalance_v", with_state(cell_millivolts=cells)) == 0


# the remote


def buttons(*pressed: str) -> bytes:
    return remote.encode(remote.Remote(pressed=frozenset(pressed)))


@pytest.mark.parametrize(
    ("pressed", "asked"),
    [((), 0), (("L2",), 0), (("B",), 0), (("L2", "B"), 1), (("L2", "B", "A"), 1)],
)
def test_the_estop_chord(pressed: tuple[str, ...], asked: float) -> None:
    inputs = with_state(remote=buttons(*pressed))
    assert value(RemoteMonitor("R2"), "remote_estop", inputs) == asked


def test_the_chord_is_kept_between_states_and_let_go() -> None:
    control = RemoteMonitor("R2")
    control.measure(with_state(remote=buttons("L2", "B")), 0)
    assert value(control, "remote_estop", healthy_inputs(0, state=None)) == 1
    assert value(control, "remote_estop", with_state(remote=buttons())) == 0


def test_the_dead_man_counts_while_it_walks_and_the_button_is_free() -> None:
    control = RemoteMonitor("R1")
    free, held = with_state(), with_state(remote=buttons("R1"))
    standing = replace(free, report=replace(WALKING, mode="stand"))
    assert value(control, "dead_man_s", standing, MS) == 0
    assert value(control, "dead_man_s", free, 101 * MS) == pytest.approx(0.1)
    assert value(control, "dead_man_s", held, 200 * MS) == 0
    assert value(control, "dead_man_s", free, 250 * MS) == pytest.approx(0.05)
    assert value(control, "dead_man_s", standing, 300 * MS) == 0
    assert value(control, "dead_man_s", free, 350 * MS) == pytest.approx(0.05)
    assert value(control, "dead_man_s", replace(free, report=None), 400 * MS) == 0


def test_a_button_of_a_remote_that_is_off_is_not_held() -> None:
    control, off = RemoteMonitor("R1"), bytes(2) + buttons("R1")[2:]
    assert value(control, "dead_man_s", with_state(remote=off), 0) == 0
    assert value(control, "dead_man_s", with_state(remote=off), 400 * MS) == pytest.approx(0.4)
    chord = bytes(2) + buttons("L2", "B")[2:]
    assert value(control, "remote_estop", with_state(remote=chord), 500 * MS) == 1, "a stop is"


def test_a_walk_under_way_at_the_first_look_needs_its_dead_man_too() -> None:
    control = RemoteMonitor("R1")
    assert value(control, "dead_man_s", with_state(), 5 * S) == 0
    assert value(control, "dead_man_s", with_state(), 5 * S + 400 * MS) == pytest.approx(0.4)


def test_without_a_dead_man_button_nobody_must_hold_one() -> None:
    control = RemoteMonitor("")
    control.measure(with_state(), 0)
    assert control.measure(with_state(), 100 * MS)["dead_man_s"] is None


def test_a_remote_that_was_never_on_is_silent_since_the_first_state() -> None:
    control, off, on = RemoteMonitor("R2"), bytes(40), b"\x55\x51" + bytes(38)
    assert control.measure(healthy_inputs(0, state=None), 0)["remote_silence_s"] is None
    assert value(control, "remote_silence_s", with_state(remote=off), 0) == 0
    never = value(control, "remote_silence_s", with_state(remote=off), 50 * MS)
    assert never == pytest.approx(0.05)
    assert value(control, "remote_silence_s", with_state(remote=on), 150 * MS) == 0
    gone = value(control, "remote_silence_s", with_state(remote=off), 350 * MS)
    assert gone == pytest.approx(0.2)


@pytest.mark.parametrize(
    "monitor", [JointMonitor(GO2), BatteryMonitor(), RemoteMonitor("R1"), HeatMonitor(GO2, 80.0)]
)
def test_a_state_as_the_wire_brings_it_is_read_whole(monitor: Any) -> None:
    """The loop's form of a state holds the motion alone; temperatures, modes and remote are
    decoded when somebody asks for them."""
    sample = StateEncoder(GO2).encode(healthy_state(0, remote=buttons("L2", "B")))
    live = healthy_inputs(0, state=StateDecoder(GO2).decode(sample, 0))
    readings = monitor.measure(live, 0)
    assert set(readings) == monitor.MEASURES
    assert all(reading is not None for reading in readings.values())


# control and surroundings


def test_without_control_only_the_wire_is_judged() -> None:
    readings = ControlMonitor().measure(healthy_inputs(0, report=None), 0)
    assert readings == {"command_not_finite": Reading(0)}


def test_wild_commands_on_the_wire_are_counted() -> None:
    control = ControlMonitor()
    control.measure(healthy_inputs(0), 0)
    assert value(control, "command_not_finite", healthy_inputs(0, command_not_finite=1), MS) == 1


def test_what_control_reports_is_measured() -> None:
    control = ControlMonitor()
    assert control.measure(healthy_inputs(0), 0) == {
        "command_not_finite": Reading(0),
        "deadline_misses_per_s": Reading(0),
        "control_failed": Reading(0),
        "policy_not_finite": Reading(0),
        "control_silence_s": Reading(0.005),
        "out_of_distribution": Reading(1.0),
        "adaptation_strain": Reading(0.0),
        "command_age_s": Reading(0.1),
    }
    report = replace(WALKING, deadline_misses=9, policy_not_finite=True)
    readings = control.measure(healthy_inputs(0, report=report), MS)
    assert readings["deadline_misses_per_s"] == Reading(9)
    assert readings["policy_not_finite"] == Reading(1)
    assert readings["control_failed"] == Reading(0)
    failed = healthy_inputs(0, report=replace(WALKING, failed=True))
    assert value(control, "control_failed", failed, MS) == 1


def test_a_new_control_process_starts_a_new_count_of_misses() -> None:
    control = ControlMonitor()
    control.measure(healthy_inputs(0), 0)
    later = replace(WALKING, pid=43, deadline_misses=500)
    assert value(control, "deadline_misses_per_s", healthy_inputs(0, report=later), MS) == 0


def test_silence_weighs_by_whether_the_robot_is_driven() -> None:
    idle = healthy_inputs(0, report=DAMPING, command_damping=True)
    readings = ControlMonitor().measure(idle, 0)
    assert readings["idle_silence_s"] == Reading(0.005)
    assert "control_silence_s" not in readings
    leaving = healthy_inputs(0, report=replace(DAMPING, leaving=True), command_damping=True)
    assert not {"idle_silence_s", "control_silence_s"} & set(ControlMonitor().measure(leaving, 0))


@pytest.mark.parametrize(
    ("report", "damping", "age_s", "driving"),
    [
        (None, False, 0.0, False),
        (WALKING, True, 0.0, True),
        (WALKING, False, 9.0, True),
        (DAMPING, True, 0.0, False),
        (DAMPING, False, 0.099, True),
        (DAMPING, False, 0.1, False),
    ],
)
def test_driving_by_word_or_by_wire(
    report: Any, damping: bool, age_s: float, driving: bool
) -> None:
    inputs = Inputs(report=report, command_damping=damping, command_age_s=age_s)
    assert inputs.driving is driving


@pytest.mark.parametrize(
    ("leaving", "last", "damping", "leaves"),
    [
        (True, None, False, True),
        (True, command(), True, True),
        (True, command(kp=20.0), False, False),
        (False, None, False, False),
        (False, command(), True, False),
    ],
)
def test_control_leaves_by_word_and_wire(
    leaving: bool, last: Any, damping: bool, leaves: bool
) -> None:
    report = replace(DAMPING, leaving=leaving)
    assert Inputs(report=report, command=last, command_damping=damping).leaves is leaves
    assert Inputs(report=None, command=last, command_damping=damping).leaves is False


def test_a_policy_is_judged_only_while_it_walks() -> None:
    standing = replace(WALKING, mode="stand")
    readings = ControlMonitor().measure(healthy_inputs(0, report=standing), 0)
    assert not {"out_of_distribution", "command_age_s"} & set(readings)


def test_a_robot_nobody_ever_steered_just_stands() -> None:
    readings = ControlMonitor().measure(
        healthy_inputs(0, report=replace(WALKING, command_age_s=math.inf)), 0
    )
    assert "command_age_s" not in readings


def test_sport_modes_own_writer_is_no_stranger() -> None:
    """Before its release the vendor writes rt/lowcmd itself: that must not keep us from asking."""
    writing = healthy_inputs(0, lingering=("sport",), report=None, vendor_mode=True)
    assert value(SystemMonitor(), "strangers", writing) == 0


def test_strangers_are_named_and_rival_only_a_robot_that_is_driven() -> None:
    writing, lately = ("app", "teleop"), ("app", "nav", "teleop")
    inputs = healthy_inputs(0, rivals=writing, lingering=lately)
    readings = SystemMonitor().measure(inputs, 0)
    assert readings["strangers"] == Reading(3, "app, nav, teleop")
    assert readings["rivals"] == Reading(2, "app, teleop")
    idle = healthy_inputs(0, rivals=writing, lingering=lately, report=None)
    readings = SystemMonitor().measure(idle, 0)
    assert readings["strangers"] == Reading(3, "app, nav, teleop")
    assert readings["rivals"] == Reading(0, "app, teleop")


def test_sport_mode_matters_while_the_robot_is_driven() -> None:
    assert value(SystemMonitor(), "sport_mode", healthy_inputs(0)) == 0
    assert value(SystemMonitor(), "sport_mode", healthy_inputs(0, sport_mode=True)) == 1
    idle = healthy_inputs(0, sport_mode=True, report=None)
    assert value(SystemMonitor(), "sport_mode", idle) == 0


def test_recorder_and_disk_are_passed_on_where_known() -> None:
    readings = SystemMonitor().measure(healthy_inputs(0), 0)
    assert readings["recorder_silence_s"] == Reading(0.5)
    assert readings["disk_free_gb"] == Reading(100.0)
    unknown = healthy_inputs(0, recorder_silence_s=None, disk_free_gb=None)
    readings = SystemMonitor().measure(unknown, 0)
    assert readings["recorder_silence_s"] is None
    assert readings["disk_free_gb"] is None


@pytest.mark.parametrize("jump_s", [-3600, 3600])
def test_a_jump_of_the_wall_clock_is_seen_once(jump_s: int) -> None:
    surroundings = SystemMonitor()
    assert value(surroundings, "clock_jump_s", healthy_inputs(0), 0) == 0
    assert value(surroundings, "clock_jump_s", healthy_inputs(TICK), TICK) == 0
    jumped = healthy_inputs(2 * TICK)
    jumped.wall_ns += jump_s * S
    assert value(surroundings, "clock_jump_s", jumped, 2 * TICK) == pytest.approx(3600)
    assert value(surroundings, "clock_jump_s", jumped, 2 * TICK) == 0


def test_cells_that_drift_apart_later_are_seen_and_none_at_all_are_even() -> None:
    battery = BatteryMonitor()
    even = np.full(8, 3700, np.uint16)
    apart = even.copy()
    apart[3] -= 250
    none, dead = np.zeros(8, np.uint16), np.array([1, 3700] + [0] * 6, np.uint16)
    for cells, volts in ((even, 0.0), (apart, 0.25), (even, 0.0), (none, 0.0), (dead, 3.699)):
        inputs = with_state(cell_millivolts=cells)
        assert value(battery, "cell_imbalance_v", inputs) == pytest.approx(volts)


def test_a_remote_is_there_by_its_header_alone_and_a_dead_man_only_if_asked_for() -> None:
    stray = bytes([0, 0, 255]) + bytes(37)
    control = RemoteMonitor("")
    control.measure(with_state(remote=stray), 0)
    readings = control.measure(with_state(remote=stray), 100 * MS)
    assert readings["remote_silence_s"] == Reading(pytest.approx(0.1))
    assert readings["dead_man_s"] is None


def test_a_rate_counts_by_marks_that_do_not_pile_up() -> None:
    rate = Rate()
    for now_ms in range(0, 5000, 2):
        rate(now_ms, (10_000 + now_ms) * MS)
    assert len(rate._marks) <= 1 + Rate.WINDOW_NS // Rate.STEP_NS + 1
    edge = Rate()
    assert [edge(0, 0), edge(5, 50 * MS), edge(5, 1050 * MS)] == [0, 5, 0]


def test_a_robot_that_may_recover_has_not_fallen_once_it_lies_or_gets_up() -> None:
    upside_down = floats(0, 1, 0, 0)

    def fallen(may_recover: bool, mode: str, after_s: float = 3.0) -> float:
        inputs = with_state(quaternion=upside_down)
        assert inputs.report is not None
        idle = mode == "damping"
        report = replace(inputs.report, mode=mode, damping=idle)
        inputs = replace(inputs, report=report, command_damping=idle)
        posture = PostureMonitor(may_recover)
        posture.measure(inputs, 0)
        reading = posture.measure(inputs, int(after_s * 1e9))["fallen_rad"]
        assert reading is not None
        return reading.value

    for mode in ("damping", "recovering"):
        assert fallen(True, mode) == 0
        assert fallen(False, mode) == pytest.approx(math.pi)
    assert fallen(True, "damping", after_s=1.0) == pytest.approx(math.pi)  # it may fall still
    for mode in ("walking", "standing", "standing_up", "sitting_down", "slowing_down"):
        assert fallen(True, mode) == pytest.approx(math.pi)


def test_recovering_is_timed_from_its_beginning() -> None:
    posture = PostureMonitor(may_recover=True)
    inputs = with_state()
    assert inputs.report is not None
    recovering = replace(inputs, report=replace(inputs.report, mode="recovering", damping=False))
    for now_s, given, expected in ((1, inputs, 0), (2, recovering, 0), (9, recovering, 7)):
        reading = posture.measure(given, now_s * 1_000_000_000)["recovering_s"]
        assert reading == Reading(pytest.approx(expected))
    assert posture.measure(inputs, 10_000_000_000)["recovering_s"] == Reading(0.0)


# the command envelope, and how fast it goes


def test_a_command_is_judged_by_itself_before_the_first_state() -> None:
    inputs = healthy_inputs(0, state=None, command=command(kp=1000))
    readings = CommandEnvelope(GO2).measure(inputs, 0)
    assert set(readings) == {"command_excess_rad", "command_gain"}
    assert readings["command_gain"] == Reading(pytest.approx(1000 * 0.1 / 23.7), "FR_hip_joint")


def test_without_a_state_or_a_drive_there_is_no_speed() -> None:
    motion = MotionMonitor(GO2)
    assert motion.measure(healthy_inputs(0, state=None), 0) == {}
    assert motion.measure(healthy_inputs(0, report=None), 0) == {}
    assert set(motion.measure(healthy_inputs(0), 0)) == {"turning_rate", "speed"}


def test_a_robot_of_unknown_legs_is_still_not_allowed_to_spin() -> None:
    legs = {name: leg.model_copy(update={"geometry": None}) for name, leg in GO2.legs.items()}
    motion = MotionMonitor(GO2.model_copy(update={"legs": legs}))
    assert set(motion.measure(healthy_inputs(0), 0)) == {"turning_rate"}


def test_short_flights_do_not_add_up_to_a_robot_in_the_air() -> None:
    """A trotting robot is without load for moments; its speed stays known all the same."""
    motion, carried = MotionMonitor(GO2), rolling(0.5)
    flying = {**carried, "torque": np.zeros(12, np.float32)}
    for tick in range(1000):
        now_ns = tick * TICK
        state = healthy_state(now_ns, **(flying if tick % 50 < 10 else carried))
        readings = motion.measure(healthy_inputs(now_ns, state=state), now_ns)
        assert "speed" in readings, f"after {now_ns / 1e9} s"


def test_the_envelope_adds_up_the_torque_that_the_boards_apply() -> None:
    """kp (q - q_seen) + kd (dq - dq_seen) + torque, as a share of the joint's limit."""
    asked = command(q=GO2.stand_pose + 0.1, kp=20.0, kd=2.0, dq=1.0, torque=3.0)
    seen = healthy_state(0, dq=np.full(12, -0.5, np.float32))
    readings = CommandEnvelope(GO2).measure(healthy_inputs(0, state=seen, command=asked), 0)
    torque = 20.0 * 0.1 + 2.0 * 1.5 + 3.0
    weakest = min(float(limit) for limit in GO2.torque_limit)
    assert readings["command_torque"].value == pytest.approx(torque / weakest, rel=1e-4)
    assert readings["tracking_error_rad"].value == pytest.approx(0.1, rel=1e-4)


def test_a_robot_in_the_air_for_long_has_no_speed_until_it_lands() -> None:
    """What the accelerometer adds up in the air is drift: after landing it starts anew."""
    motion, carried = MotionMonitor(GO2), rolling(0.5)
    swung = np.array([8.0, 0.0, 9.81], np.float32)
    flying = {**carried, "torque": np.zeros(12, np.float32), "accelerometer": swung}
    speeds = []
    for tick in range(700):
        now_ns = tick * TICK
        state = healthy_state(now_ns, **(flying if 20 <= tick < 600 else carried))
        reading = motion.measure(healthy_inputs(now_ns, state=state), now_ns).get("speed")
        speeds.append(None if reading is None else reading.value)
    assert None not in speeds[:65]
    assert set(speeds[75:600]) == {None}
    assert None not in speeds[600:]
    assert max(speeds[600:]) < 0.6


def test_motors_out_of_the_common_mode_are_counted_and_named() -> None:
    joints, modes = JointMonitor(GO2), np.ones(12, np.uint8)
    assert joints.measure(with_state(motor_mode=modes), 0)["motors_off"] == Reading(0.0)
    for odd in (0, 10):  # which mode is the odd one depends on how many have it
        modes[[2, 7]] = odd
        reading = joints.measure(with_state(motor_mode=modes), 0)["motors_off"]
        assert reading == Reading(2.0, f"{GO2.joint_names[2]}, {GO2.joint_names[7]}")


def test_a_command_is_judged_while_it_is_current_and_drives() -> None:
    stiff = healthy_inputs(0, command=command(kp=1000))
    monitor = CommandEnvelope(GO2)
    assert value(monitor, "command_gain", stiff) > 1
    assert monitor.measure(replace(stiff, command_age_s=0.1), 0) == {}
    assert monitor.measure(replace(stiff, command_damping=True), 0) == {}


def test_the_worst_command_between_two_looks_counts() -> None:
    """A bad one, and then a good one or damping: the look sees the newest, the motors both."""
    monitor = CommandEnvelope(GO2)
    worst, bad = command(kp=1000), command(kp=500)
    expected = value(monitor, "command_gain", healthy_inputs(0, command=worst))
    for newest in ({"command": command(kp=30)}, {"command_damping": True}, {"command": None}):
        for between in ((worst, bad), (bad, worst)):
            inputs = healthy_inputs(0, **{"commands_between": between, **newest})
            assert value(monitor, "command_gain", inputs) == expected


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_command_is_judged_to_both_sides(sign: int) -> None:
    """Below the range as above it, and torque and distance by their size."""
    end = (GO2.position_low if sign < 0 else GO2.position_high)[4]
    q = GO2.stand_pose.copy()
    q[4] = end + sign * 0.5
    asked = command(q=q, kp=20.0)
    readings = CommandEnvelope(GO2).measure(healthy_inputs(0, command=asked), 0)
    far = abs(float(q[4] - GO2.stand_pose[4]))
    thigh = GO2.joint_names[4]
    assert readings["command_excess_rad"] == Reading(pytest.approx(0.5, abs=1e-5), thigh)
    assert readings["tracking_error_rad"] == Reading(pytest.approx(far, abs=1e-5), thigh)
    share = 20.0 * far / float(GO2.torque_limit[4])
    assert readings["command_torque"] == Reading(pytest.approx(share, rel=1e-4), thigh)


def test_a_gain_of_nothing_pushes_nothing() -> None:
    asked = healthy_inputs(0, command=command(kp=0.0, kd=0.0))
    assert value(CommandEnvelope(GO2), "command_gain", asked) == 0.0


def test_a_damping_gain_is_a_share_of_the_largest_there_is() -> None:
    asked = healthy_inputs(0, command=command(kd=np.where(np.arange(12) == 3, 20.0, 1.0)))
    readings = CommandEnvelope(GO2).measure(asked, 0)
    assert readings["command_gain"] == Reading(pytest.approx(2.0), "FL_hip_joint")


@pytest.mark.parametrize("gain", ["kp", "kd"])
def test_a_gain_below_zero_pushes_a_joint_away_and_is_beyond_all_bounds(gain: str) -> None:
    slight = np.where(np.arange(12) == 7, -0.1, 1.0)
    readings = CommandEnvelope(GO2).measure(healthy_inputs(0, command=command(**{gain: slight})), 0)
    assert readings["command_gain"] == Reading(math.inf, "RR_thigh_joint")


def test_a_command_between_two_states_is_judged_at_the_last_one() -> None:
    monitor = CommandEnvelope(GO2)
    monitor.measure(healthy_inputs(0), 0)
    pushing = healthy_inputs(0, state=None, command=command(torque=30))
    assert value(monitor, "command_torque", pushing) > 1


def test_speeds_are_averaged_over_an_eighth_of_a_second() -> None:
    """A step of the turning rate is followed by 1 - 1/e within the filter's time, 0.12 s."""
    motion = MotionMonitor(GO2)
    motion.measure(with_state(), 0)
    turning = floats(0.0, 0.0, 1.0)
    seen = []
    for tick in range(1, 61):
        inputs = with_state(tick * TICK, gyroscope=turning)
        seen.append(value(motion, "turning_rate", inputs, tick * TICK))
    assert seen[-1] == pytest.approx(1 - math.exp(-1), abs=0.005)
    assert seen == sorted(seen), "it does not swing"


def carried(newtons: float, feet: int = 4) -> dict[str, Any]:
    """A robot that rolls forward, with so much load shared by the first of its feet."""
    state = rolling(0.5)
    joints = [joint for leg in legs_of(GO2)[:feet] for joint in leg.joints]
    torque = np.zeros(12, np.float32)
    torque[joints] = state["torque"][joints] * np.float32(newtons / (37.0 * feet))
    return state | {"torque": torque}


@pytest.mark.parametrize(("newtons", "feet", "hangs"), [(40.5, 4, False), (39.5, 1, True)])
def test_a_robot_hangs_whose_feet_together_carry_less_than_40_newtons(
    newtons: float, feet: int, hangs: bool
) -> None:
    motion = MotionMonitor(GO2)
    for tick in range(100):
        inputs = with_state(tick * TICK, **carried(newtons, feet))
        readings = motion.measure(inputs, tick * TICK)
    assert ("speed" not in readings) is hangs


def test_a_robot_hangs_after_a_tenth_of_a_second_without_load() -> None:
    motion = MotionMonitor(GO2)
    motion.measure(with_state(**rolling(0.5)), 0)
    known = [
        "speed" in motion.measure(with_state(tick * TICK, **carried(0.0)), tick * TICK)
        for tick in range(1, 60)
    ]
    assert sum(known) in (49, 50)
    assert known == sorted(known, reverse=True)


def test_a_robot_that_hangs_from_the_start_has_no_speed_after_a_tenth_of_a_second() -> None:
    motion = MotionMonitor(GO2)
    known = [
        "speed" in motion.measure(with_state(tick * TICK, **carried(0.0)), tick * TICK)
        for tick in range(60)
    ]
    assert sum(known) in (50, 51)


def test_feet_that_pull_take_nothing_from_the_load_of_those_that_carry() -> None:
    motion, one = MotionMonitor(GO2), carried(42.0, feet=1)
    pulling = [joint for leg in legs_of(GO2)[1:] for joint in leg.joints]
    one["torque"][pulling] = rolling(0.5)["torque"][pulling] * np.float32(-5.0 / 37.0)
    for tick in range(100):
        readings = motion.measure(with_state(tick * TICK, **one), tick * TICK)
    assert "speed" in readings


def test_sideways_is_averaged_as_forwards_and_a_pause_in_driving_begins_anew() -> None:
    seen = []
    for move in (rolling(0.5), rolling(0.0, 0.5)):
        motion = MotionMonitor(GO2)
        inputs = [with_state(tick * TICK, **move) for tick in range(100)]
        seen.append([value(motion, "speed", given, 0) for given in inputs])
        assert motion.measure(replace(inputs[-1], report=None), 0) == {}
        later = motion.measure(with_state(300 * TICK, **move), 0)
        assert later == {"turning_rate": Reading(0.0), "speed": Reading(0.0)}
    assert seen[0] == pytest.approx(seen[1], abs=0.01)
    assert seen[0][-1] > 0.35


def test_a_state_from_before_the_last_one_changes_no_speed() -> None:
    motion = MotionMonitor(GO2)
    for tick in range(20):
        seen = value(motion, "turning_rate", with_state(tick * TICK, gyroscope=floats(0, 0, 1)), 0)
    before = with_state(0, gyroscope=floats(0, 0, -1))
    assert value(motion, "turning_rate", before) == seen


def test_a_robot_that_lands_has_none_of_the_speed_from_before_it_flew() -> None:
    motion = MotionMonitor(GO2)
    states = [rolling(0.5)] * 200 + [carried(0.0)] * 100 + [rolling(0.0)]
    for tick, state in enumerate(states):
        readings = motion.measure(with_state(tick * TICK, **state), tick * TICK)
    assert readings["speed"].value < 0.05


def test_the_target_of_a_joint_without_stiffness_counts_for_nothing() -> None:
    slack = np.arange(12) == 4
    far = GO2.stand_pose + np.float32(4.0) * slack
    asked = command(q=far, kp=np.where(slack, 0.0, 20.0))
    readings = CommandEnvelope(GO2).measure(healthy_inputs(0, command=asked), 0)
    assert readings["command_excess_rad"].value == 0.0
    assert readings["tracking_error_rad"].value == 0.0
    limp = CommandEnvelope(GO2).measure(healthy_inputs(0, command=command(q=far, kp=0.0)), 0)
    assert limp["command_excess_rad"].value == limp["tracking_error_rad"].value == 0.0
    soft = healthy_inputs(0, command=command(q=far, kp=1.0))
    assert value(CommandEnvelope(GO2), "tracking_error_rad", soft) == pytest.approx(4.0)
    assert value(CommandEnvelope(GO2), "command_excess_rad", soft) > 0.5


def test_a_fast_stream_shows_as_the_share_that_is_too_much() -> None:
    monitor = StateMonitor(GO2)
    for tick in range(1000):
        counters = LinkCounters(received=round(tick * 1.3))
        inputs = healthy_inputs(tick * TICK, counters=counters)
        excess = monitor.measure(inputs, tick * TICK)["state_rate_excess"]
    assert excess is not None
    assert excess.value == pytest.approx(0.3, abs=0.01)
