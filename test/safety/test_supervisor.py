"""The state machine: every stop, the latch, the reset, the takeover. Time is an argument."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.safety.chain import CLEAR, Stop
from sim2real_deploy.safety.events import Reaction
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.safety.supervisor import CycleResult, Supervisor, is_damping
from sim2real_deploy.wire import remote
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

EVENTS = load_events(GO2, "indoor")
S = 1_000_000_000
OBEYING: dict[str, Any] = {"report": DAMPING, "command_damping": True}
UPSIDE_DOWN = np.array([0, 1, 0, 0], np.float32)


class World:
    """A supervisor and a robot, cycle by cycle."""

    def __init__(self) -> None:
        self.supervisor = Supervisor(GO2, EVENTS)
        self.now_ns = 0
        self.keys: list[str] = []  # events in the order they came
        self.decision: CycleResult = self.cycle()

    def cycle(
        self, state: dict[str, Any] | None = None, silent: bool = False, **changes: Any
    ) -> CycleResult:
        self.now_ns += TICK
        if silent:
            changes["state"] = None
        elif state is not None:
            changes["state"] = healthy_state(self.now_ns, **state)
        self.decision = self.supervisor.update(healthy_inputs(self.now_ns, **changes), self.now_ns)
        self.keys += [change.event.key for change in self.decision.changes if change.raised]
        return self.decision

    def run(self, seconds: float, **changes: Any) -> CycleResult:
        for _ in range(round(seconds * 1e9 / TICK)):
            self.cycle(**changes)
        return self.decision

    def until_stop(self, limit_s: float = 5.0, **changes: Any) -> float:
        """Seconds until something is latched."""
        start_ns = self.now_ns
        while not self.supervisor.latched:
            self.cycle(**changes)
            assert self.now_ns - start_ns < limit_s * 1e9, "nothing was latched"
        return (self.now_ns - start_ns) / 1e9


def test_a_healthy_robot_is_left_alone() -> None:
    world = World()
    world.run(5.0)
    assert world.keys == []
    assert world.decision == CycleResult(CLEAR, (), False, False, "")


def test_no_button_need_be_held_where_none_was_asked_for() -> None:
    world = World()
    world.run(0.1, **OBEYING)
    world.run(5.0, report=WALKING)
    assert world.keys == []


JOINT = np.arange(12) == 4
FAULTS: list[tuple[str, dict[str, Any], float]] = [
    ("estop_called", {"pressed": frozenset({"estop"})}, 0.002),
    ("stop_called", {"pressed": frozenset({"stop"})}, 0.002),
    ("remote_estop", {"state": {"remote": b"\0\0\x20\x02" + bytes(36)}}, 0.002),
    ("state_not_finite", {"counters": LinkCounters(not_finite=1)}, 0.002),
    ("state_corrupt", {"counters": LinkCounters(bad_crc=26)}, 0.002),
    ("imu_quaternion", {"state": {"quaternion": np.zeros(4, np.float32)}}, 0.004),
    ("imu_spike", {"state": {"gyroscope": np.full(3, 30, np.float32)}}, 0.02),
    ("fall", {"state": {"quaternion": UPSIDE_DOWN, "accelerometer": np.float32([0, 0, -9.8])}},
     0.06),
    ("free_fall", {"state": {"accelerometer": np.float32([0, 0, 0.2])}}, 0.15),
    ("joint_range", {"state": {"q": GO2.stand_pose + np.float32(3.0) * JOINT}}, 0.006),
    ("joint_speed", {"state": {"dq": np.float32(31.0) * JOINT}}, 0.01),
    ("joint_torque", {"state": {"torque": np.float32(-23.7) * JOINT}}, 0.4),
    ("motor_lost", {"state": {"lost": np.uint32(11) * JOINT}}, 0.002),
    ("motor_too_hot", {"state": {"temperature": np.full(12, 81, np.int8)}}, 0.5),
    ("motor_limit", {"state": {"temperature": np.full(12, 91, np.int8)}}, 0.2),
    ("battery_empty", {"state": {"battery_percent": 9}}, 1.0),
    ("voltage_sag", {"state": {"voltage": 23.9}}, 0.3),
    ("policy_not_finite", {"report": replace(WALKING, policy_not_finite=True)}, 0.002),
    ("control_failed", {"report": replace(WALKING, failed=True)}, 0.002),
    ("policy_astray", {"report": replace(WALKING, out_of_distribution=13.0)}, 0.2),
    ("deadlines_lost", {"report": replace(WALKING, deadline_misses=151)}, 0.5),
    ("control_gone", {"control_silence_s": 0.037}, 0.002),
    ("command_not_finite", {"command_not_finite": 1}, 0.002),
    ("second_writer", {"rivals": ("rogue on host",)}, 0.002),
    ("second_state", {"counters": LinkCounters(foreign=5)}, 0.002),
    ("motor_off", {"state": {"motor_mode": np.uint8(1) - np.uint8(1) * JOINT}}, 0.05),
    ("command_range", {"command": command(q=GO2.stand_pose + np.float32(4) * JOINT, kp=1)}, 0.002),
    ("command_gain", {"command": command(kp=1000)}, 0.002),
    ("command_torque", {"command": command(kp=20, torque=30)}, 0.02),
    ("joint_astray", {"command": command(q=GO2.stand_pose + np.float32(1.0) * JOINT, kp=20)}, 0.3),
    ("sport_mode", {"sport_mode": True}, 0.002),
]  # fmt: skip


@pytest.mark.parametrize(("key", "fault", "within_s"), FAULTS, ids=[f[0] for f in FAULTS])
def test_each_fault_stops_the_robot_in_its_time(
    key: str, fault: dict[str, Any], within_s: float
) -> None:
    world = World()
    world.run(0.2)
    took_s = world.until_stop(**fault)
    event = world.supervisor.watches[key].event
    assert world.supervisor.watches[key].active
    assert within_s - 1e-9 <= took_s <= within_s + 0.1 * (key.startswith("motor_")) + 0.0021
    assert world.supervisor.latched is event.reaction.stop
    assert world.decision.stopped
    verdict = world.decision.verdict
    assert (verdict.stop, verdict.may_start, verdict.healthy) == (event.reaction.stop, False, True)
    assert (
        verdict.reason
        == world.supervisor.latched_reason
        == event.describe(world.decision.changes[-1].value, _where(world, key))
    )
    before = world.decision
    world.run(1.0)
    assert world.supervisor.latched >= before.verdict.stop, "a stop went away by itself"
    assert not world.decision.stopped


def _where(world: World, key: str) -> str:
    reading = world.supervisor.watches[key].reading
    return reading.where if reading else ""


def test_a_silent_robot_stops_control_in_time() -> None:
    world = World()
    world.run(0.1)
    assert world.until_stop(silent=True) == pytest.approx(0.036)
    assert world.decision.verdict.reason == "no state from the robot for 0.036 s"
    assert world.supervisor.latched is Stop.ESTOP


def test_a_frozen_robot_stops_control_in_time() -> None:
    world = World()
    still = {"gyroscope": np.zeros(3, np.float32), "dq": np.zeros(12, np.float32)}
    world.run(0.1)
    assert world.until_stop(state=still) == pytest.approx(0.034)
    assert world.keys == ["state_frozen"]
    assert world.supervisor.latched is Stop.ESTOP


def test_a_slow_robot_is_made_to_sit() -> None:
    world = World()
    for count in range(1000):
        world.cycle(counters=LinkCounters(received=count * 6 // 10))
        if world.supervisor.latched:
            break
    assert world.keys == ["state_slow"]
    assert world.now_ns / 1e9 == pytest.approx(0.9 + 0.5, abs=0.01)
    assert world.supervisor.latched is Stop.STOP


def test_accelerometer_against_orientation_makes_it_sit() -> None:
    world = World()
    world.until_stop(state={"accelerometer": np.array([7.0, 0, 7.0], np.float32)})
    assert world.keys == ["imu_gravity"]


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (
            "tilt",
            {
                "state": {
                    "quaternion": np.float32([0.94, 0.34, 0, 0]),
                    "accelerometer": np.float32([0, 6.27, 7.54]),
                }
            },
        ),
        ("motor_warm", {"state": {"temperature": np.full(12, 66, np.int8)}}),
        ("battery_low", {"state": {"battery_percent": 24}}),
        ("cell_imbalance", {"state": {"cell_millivolts": np.uint16([3900, 3500])}}),
        ("policy_unfamiliar", {"report": replace(WALKING, out_of_distribution=5.0)}),
        ("command_silent", {"report": replace(WALKING, command_age_s=0.6)}),
        ("recorder_gone", {"recorder_silence_s": 3.1}),
        ("disk_low", {"disk_free_gb": 0.9}),
        ("stranger", {"lingering": ("app on robot",), "report": None}),
        ("remote_lost", {"state": {"remote": bytes(40)}}),
        ("mode_unknown", {"mode_silence_s": 6.0}),
        ("unfit", {"unfit": "no real-time priority"}),
        ("state_absent", {"report": None, "silent": True}),
        ("clock_jump", {"wall_ns": 0}),
    ],
)
def test_lesser_faults_are_told_and_stop_nothing(key: str, fault: dict[str, Any]) -> None:
    world = World()
    world.run(2.5, **fault)
    assert key in world.keys
    assert world.supervisor.latched is Stop.NONE
    refuses = world.supervisor.watches[key].event.reaction is Reaction.REFUSE_START
    assert world.decision.verdict.may_start is not refuses
    assert bool(world.decision.verdict.reason) is refuses


def test_a_remote_that_fell_silent_is_told() -> None:
    world = World()
    world.run(1.1, state={"remote": bytes(40)})
    assert world.keys == ["remote_lost"]


def test_two_robots_on_the_bus_may_not_be_driven() -> None:
    world = World()
    for count in range(20):
        world.cycle(counters=LinkCounters(received=count, leaps=count), report=None)
    assert world.keys == ["second_state_idle"]
    assert not world.decision.verdict.may_start


def test_a_computer_that_slept_or_a_robot_that_restarted_is_no_robot_to_drive() -> None:
    """The monotonic clock rests while a computer sleeps: afterwards nothing looked late, and the
    walk went on with a state from half a minute later."""
    world = World()
    world.run(0.2)
    assert world.until_stop(counters=LinkCounters(leaps=1)) == pytest.approx(0.002)
    assert world.supervisor.latched is Stop.ESTOP
    assert world.supervisor.latched_reason == "no state from the robot for 1 s"
    lying = World()
    lying.run(0.2, **OBEYING)
    lying.run(1.0, counters=LinkCounters(leaps=1), **OBEYING)
    assert lying.keys == [], "a robot that is not driven may restart"


def test_more_states_than_a_robot_sends_are_a_second_robots() -> None:
    world = World()
    for count in range(1000):
        world.cycle(counters=LinkCounters(received=count * 2))
        if world.supervisor.latched:
            break
    assert world.keys == ["state_flood"]
    assert world.supervisor.latched is Stop.STOP


def test_a_lossy_stream_is_told() -> None:
    world = World()
    for count in range(1500):
        world.cycle(counters=LinkCounters(received=count * 9 // 10))
    assert world.keys == ["state_lossy"]


def test_some_missed_deadlines_are_told() -> None:
    world = World()
    for count in range(1000):
        world.cycle(report=replace(WALKING, deadline_misses=count // 20))
    assert world.keys == ["deadline_misses"]


def test_an_event_is_told_when_it_comes_and_when_it_goes() -> None:
    world = World()
    world.cycle(disk_free_gb=0.5)
    (came,) = world.decision.changes
    assert (came.event.key, came.raised, came.value, came.now_ns) == (
        *("disk_low", True, 0.5),
        world.now_ns,
    )
    assert came.text == "only 0.5 GB left on the disk"
    world.run(0.4)
    assert world.decision.changes == ()
    changes = [c for _ in range(200) for c in world.cycle().changes]
    assert [(c.event.key, c.raised) for c in changes] == [("disk_low", False)]
    assert world.decision.verdict == CLEAR


def test_an_event_that_goes_for_want_of_a_reading_is_told() -> None:
    world = World()
    world.run(0.2, report=replace(WALKING, out_of_distribution=5.0))
    world.run(0.3, report=replace(WALKING, out_of_distribution=5.0))
    gone = [c for _ in range(600) for c in world.cycle(report=DAMPING).changes]
    assert [(c.event.key, c.raised) for c in gone] == [("policy_unfamiliar", False)]


def test_the_dead_man_option_stops_a_walk_without_a_hand_on_it() -> None:
    world = World()
    world.supervisor = Supervisor(GO2, EVENTS, dead_man="R2")
    world.run(1.0, state={"remote": remote.HEADER + b"\x10" + bytes(37)})
    assert world.until_stop() == pytest.approx(0.302)
    assert world.supervisor.latched is Stop.STOP
    assert world.keys == ["dead_man"]


# severity and latch


def test_the_most_severe_stop_wins_and_a_milder_one_does_not_replace_it() -> None:
    world = World()
    assert world.cycle(pressed=frozenset({"stop"})).stopped
    assert world.supervisor.latched_reason == "stop was called"
    assert world.cycle(pressed=frozenset({"estop"})).stopped
    assert world.supervisor.latched is Stop.ESTOP
    assert not world.cycle(pressed=frozenset({"stop"})).stopped
    assert world.supervisor.latched is Stop.ESTOP
    assert world.supervisor.latched_reason == "emergency stop was called"


def test_both_at_once_is_the_more_severe() -> None:
    world = World()
    world.cycle(pressed=frozenset({"stop", "estop"}))
    assert world.supervisor.latched is Stop.ESTOP
    assert world.supervisor.latched_reason == "emergency stop was called"


@settings(deadline=None)
@given(st.lists(st.sampled_from([(), ("stop",), ("estop",)]), min_size=1, max_size=12))
def test_no_sequence_of_calls_makes_a_stop_milder(calls: list[tuple[str, ...]]) -> None:
    world = World()
    worst = Stop.NONE
    for call in calls:
        decision = world.cycle(pressed=frozenset(call), **OBEYING)
        worst = max(worst, Stop.ESTOP if "estop" in call else Stop.STOP if call else Stop.NONE)
        assert decision.verdict.stop is worst


# reset


def stopped_world() -> World:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    world.run(0.6, **OBEYING)
    return world


def test_a_reset_clears_the_latch_and_starts_nothing() -> None:
    world = stopped_world()
    decision = world.cycle(reset_asked=True, **OBEYING)
    assert decision == CycleResult(CLEAR, (), False, False, "")
    assert world.supervisor.resets == 1
    assert world.supervisor.latched_reason == ""


def test_without_a_reset_nothing_is_reset() -> None:
    world = stopped_world()
    assert world.cycle(**OBEYING).verdict.stop is Stop.ESTOP
    assert world.supervisor.resets == 0


def test_every_reset_counts() -> None:
    world = stopped_world()
    world.supervisor.taken_over = True
    for number in (1, 2):
        world.cycle(reset_asked=True, **OBEYING)
        assert world.supervisor.resets == number, "control knows a reset by its number"
    assert world.supervisor.taken_over is False


def test_a_cause_for_sitting_down_stands_against_a_reset_as_well() -> None:
    world = World()
    empty = {"battery_percent": 2}
    world.run(10.0, state=empty, **OBEYING)
    assert world.supervisor.latched is Stop.STOP
    decision = world.cycle(state=empty, reset_asked=True, **OBEYING)
    assert decision.reset_refused.startswith("battery")
    assert decision.verdict.stop is Stop.STOP


def test_the_first_look_knows_of_no_time_before_it() -> None:
    supervisor = Supervisor(GO2, EVENTS)
    speed = supervisor.watches["joint_speed"].event
    assert 0 < speed.time_s <= 0.02
    fast = healthy_state(S, dq=np.full(12, 100, np.float32))
    assert supervisor.update(healthy_inputs(S, state=fast), S).verdict.stop is Stop.NONE
    in_time = S + round(speed.time_s * 1e9)
    assert supervisor.update(healthy_inputs(S, state=fast), in_time).verdict.stop is Stop.ESTOP


def test_a_look_between_two_states_has_still_seen_the_robot() -> None:
    world = World()
    world.run(0.1)
    between = world.cycle(silent=True)
    assert between.verdict.may_start
    assert world.cycle(silent=True, reset_asked=True, **OBEYING).reset_refused == ""


def test_a_reset_is_refused_while_the_cause_is_there() -> None:
    world = stopped_world()
    world.run(0.1, state={"quaternion": UPSIDE_DOWN}, **OBEYING)
    decision = world.cycle(state={"quaternion": UPSIDE_DOWN}, reset_asked=True, **OBEYING)
    assert decision.reset_refused == (
        "fell: tilted by 3.14 rad; set it on its feet, then call reset"
    )
    assert decision.verdict.stop is Stop.ESTOP
    assert world.supervisor.resets == 0


def test_a_warning_does_not_stand_against_a_reset() -> None:
    world = stopped_world()
    world.run(0.1, disk_free_gb=0.5, **OBEYING)
    decision = world.cycle(disk_free_gb=0.5, reset_asked=True, **OBEYING)
    assert decision.reset_refused == ""
    assert decision.verdict.reason == "only 0.5 GB left on the disk"
    assert (decision.verdict.stop, decision.verdict.may_start) == (Stop.NONE, False)


def test_an_estop_beats_a_reset_under_way() -> None:
    world = stopped_world()
    decision = world.cycle(reset_asked=True, pressed=frozenset({"estop"}), **OBEYING)
    assert decision.reset_refused == "emergency stop was called; call reset when it is safe"
    assert decision.verdict.stop is Stop.ESTOP
    world.run(0.4, **OBEYING)
    assert world.cycle(reset_asked=True, **OBEYING).reset_refused
    world.run(0.2, **OBEYING)
    assert world.cycle(reset_asked=True, **OBEYING).reset_refused == ""


def test_a_controlled_stop_is_an_obstacle_to_reset_while_it_goes_on() -> None:
    world = World()
    world.cycle(pressed=frozenset({"stop"}))
    world.run(0.6, report=replace(WALKING, mode="sit"))
    decision = world.cycle(report=replace(WALKING, mode="sit"), reset_asked=True)
    assert decision.reset_refused == "control is in 'sit': it must be damping first"
    assert decision.verdict.stop is Stop.STOP
    assert world.cycle(reset_asked=True, **OBEYING).reset_refused == ""


def test_a_reset_without_control_or_robot_is_refused() -> None:
    world = stopped_world()
    refused = world.cycle(reset_asked=True, report=None).reset_refused
    assert refused == "control is not running; start it first"
    blind = Supervisor(GO2, EVENTS)
    inputs = healthy_inputs(0, state=None, reset_asked=True, **OBEYING)
    decision = blind.update(inputs, 0)
    assert decision.reset_refused == "no state from the robot yet"
    assert decision.verdict.reason == "no state from the robot yet"
    assert not decision.verdict.may_start


def test_a_reset_is_refused_while_the_wire_drives_whatever_control_says() -> None:
    world = World()
    world.cycle(pressed=frozenset({"stop"}))
    world.run(0.6, **OBEYING)
    drives = {"report": DAMPING, "command_damping": False, "command_age_s": 0.002}
    decision = world.cycle(reset_asked=True, **drives)
    assert decision.reset_refused.startswith("control says that it damps, but what it sends")
    assert decision.verdict.stop is Stop.STOP
    assert world.supervisor.resets == 0


def test_a_reset_of_nothing_is_counted_all_the_same() -> None:
    world = World()
    assert world.cycle(reset_asked=True, **OBEYING).reset_refused == ""
    assert world.supervisor.resets == 1


# heat


def test_a_hot_motor_gets_less_torque_before_it_stops() -> None:
    world = World()
    fractions = []
    for temperature in (70, 72, 74, 76, 80):
        world.run(0.8, state={"temperature": np.full(12, temperature, np.int8)})
        fractions.append(world.decision.verdict.torque_fraction)
        assert world.supervisor.latched is Stop.NONE
    assert fractions == pytest.approx([1.0, 1.0, 0.875, 0.75, 0.5])
    world.run(0.6, state={"temperature": np.full(12, 81, np.int8)})
    assert world.supervisor.latched is Stop.STOP
    assert world.decision.verdict.torque_fraction == pytest.approx(0.5)


def test_a_motor_that_is_hot_for_a_moment_keeps_its_torque() -> None:
    world = World()
    world.run(0.8, state={"temperature": np.full(12, 70, np.int8)})
    world.run(0.2, state={"temperature": np.full(12, 76, np.int8)})
    assert world.decision.verdict.torque_fraction == 1.0, "motor_hot waits for half a second"


def test_a_file_may_derate_and_sit_at_one_temperature() -> None:
    world = World()
    hot = [replace(e, threshold=80.0) if e.key == "motor_hot" else e for e in EVENTS]
    world.supervisor = Supervisor(GO2, hot)
    world.run(0.8, state={"temperature": np.full(12, 80, np.int8)})
    assert world.decision.verdict.torque_fraction == 1.0
    world.run(0.8, state={"temperature": np.full(12, 81, np.int8)})
    assert world.decision.verdict.torque_fraction == 0.5
    assert "motor_too_hot" in world.keys


# adaptation


def test_adaptation_at_its_bound_is_switched_off_until_a_reset() -> None:
    world = World()
    assert world.decision.verdict.may_adapt
    world.run(3.0, report=replace(WALKING, adaptation_strain=1.1))
    assert world.decision.verdict.may_adapt, "a bound that is just reached does its work"
    world.run(1.2, report=replace(WALKING, adaptation_strain=1.3))
    assert world.keys == ["adaptation_bound"]
    assert not world.decision.verdict.may_adapt
    assert world.decision.verdict.stop is Stop.NONE, "walking goes on without it"
    world.run(2.0, report=WALKING)
    assert not world.decision.verdict.may_adapt
    world.run(0.5, **OBEYING)
    world.cycle(reset_asked=True, **OBEYING)
    assert world.decision.verdict.may_adapt


# takeover


def test_control_that_does_not_obey_is_replaced_after_its_time() -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    latched_ns = world.now_ns
    while not world.decision.take_over:
        world.cycle()
        assert world.now_ns - latched_ns <= 20 * MS
    assert world.now_ns - latched_ns == 20 * MS
    assert world.keys[-1] == "control_disobeys"
    assert world.supervisor.taken_over
    assert not world.cycle().take_over, "it is taken over once"


def test_control_that_obeys_is_left_alone() -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    world.run(0.015)
    world.run(2.0, **OBEYING)
    assert not world.supervisor.taken_over
    assert "control_disobeys" not in world.keys


@pytest.mark.parametrize(
    "wire",
    [
        {"command_damping": True, "command_age_s": 0.02},
        {"command_damping": False, "command_age_s": 0.001},
    ],
)
def test_obeying_means_damping_seen_on_the_wire_of_late(wire: dict[str, Any]) -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    world.run(0.1, report=DAMPING, **wire)
    assert world.supervisor.taken_over


def test_a_pause_after_damping_was_seen_is_no_disobedience() -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    world.run(0.1, **OBEYING)
    world.run(0.05, **(OBEYING | {"command_age_s": 0.05}))
    assert not world.supervisor.taken_over


def test_control_that_leaves_after_damping_may_fall_silent() -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    leaving = replace(DAMPING, leaving=True)
    world.run(0.1, report=leaving, command_damping=True, command_age_s=0.05)
    assert not world.supervisor.taken_over
    world.cycle(report=leaving, command_damping=False, command_age_s=0.05)
    assert world.supervisor.taken_over, "but it must have damped"


SITTING = replace(WALKING, mode="sitting_down")


def test_a_controlled_stop_may_take_its_time() -> None:
    world = World()
    world.cycle(pressed=frozenset({"stop"}))
    world.run(0.09)
    world.run(1.0, report=replace(WALKING, mode="slowing_down"))
    world.run(4.5, report=SITTING)
    world.run(1.0, **OBEYING)
    assert world.supervisor.latched is Stop.STOP
    assert not world.supervisor.taken_over


@pytest.mark.parametrize("mode", ["walking", "standing", "standing_up"])
def test_a_stop_that_control_ignores_becomes_an_estop_and_then_a_takeover(mode: str) -> None:
    world = World()
    world.cycle(pressed=frozenset({"stop"}))
    latched_ns, defiant = world.now_ns, replace(WALKING, mode=mode)
    world.run(0.1, report=defiant)
    assert world.supervisor.latched is Stop.STOP
    world.cycle(report=defiant)
    assert world.supervisor.latched is Stop.ESTOP
    assert world.keys[-1] == "stop_ignored"
    assert mode in world.supervisor.latched_reason
    world.run(0.19 - (world.now_ns - latched_ns) / 1e9, report=defiant)
    assert world.supervisor.taken_over


def test_a_stop_that_never_ends_in_damping_becomes_an_estop() -> None:
    world = World()
    world.cycle(pressed=frozenset({"stop"}))
    world.run(5.9, report=SITTING)
    assert world.supervisor.latched is Stop.STOP
    world.run(0.2, report=SITTING)
    assert world.supervisor.latched is Stop.ESTOP
    assert "sat down" in world.supervisor.latched_reason


def test_a_stop_after_which_the_robot_still_goes_becomes_an_estop() -> None:
    """By the supervisor's own odometry, whatever control says it is doing."""
    world = World()
    world.cycle(pressed=frozenset({"stop"}))
    world.run(1.7, report=SITTING, state=rolling(0.5))
    assert world.supervisor.latched is Stop.STOP
    world.run(0.2, report=SITTING, state=rolling(0.5))
    assert world.supervisor.latched is Stop.ESTOP
    assert "still goes" in world.supervisor.latched_reason


def test_a_trunk_that_shifts_while_it_sits_down_obeys() -> None:
    world = World()
    world.cycle(pressed=frozenset({"stop"}))
    world.run(3.0, report=SITTING, state=rolling(0.2))
    assert world.supervisor.latched is Stop.STOP


def test_a_policy_that_runs_away_is_stopped_by_the_supervisors_own_odometry() -> None:
    """Twice as fast as its stage allows, and control reports nothing wrong."""
    world = World()
    world.run(1.0, state=rolling(0.6))
    assert world.keys == []
    assert world.until_stop(state=rolling(1.2)) < 0.5
    assert world.keys == ["overspeed"]


@pytest.mark.parametrize("left", [1.2, -1.2])
def test_sideways_is_as_fast_as_forwards(left: float) -> None:
    world = World()
    world.run(1.0, state=rolling(0.0, left / 2))
    assert world.keys == []
    assert world.until_stop(state=rolling(0.0, left)) < 0.5
    assert world.keys == ["overspeed"]


@pytest.mark.parametrize("turn", [2.2, -2.2])
def test_a_robot_that_spins_is_stopped(turn: float) -> None:
    world = World()
    world.run(1.0, state={"gyroscope": np.array([0.001, 0, turn / 2], np.float32)})
    assert world.keys == []
    spin = {"gyroscope": np.array([0.001, 0, turn], np.float32)}
    assert world.until_stop(state=spin) < 0.5
    assert world.keys == ["overturn"]


def test_a_robot_in_the_air_has_no_speed() -> None:
    """On the hoist no foot carries load, and integrated acceleration is drift."""
    world = World()
    pushed = {"accelerometer": np.array([5.0, 0, 9.81], np.float32)}
    world.run(0.5, state=pushed)
    assert "overspeed" not in world.keys


def test_control_at_another_stage_may_not_start() -> None:
    world = World()
    world.supervisor = Supervisor(GO2, EVENTS, stage="indoor")
    world.run(0.1, report=replace(DAMPING, stage="indoor"))
    assert world.decision.verdict.may_start
    world.cycle(report=replace(DAMPING, stage="field"))
    assert world.decision.verdict.reason.endswith("control field, safety indoor")
    assert not world.decision.verdict.may_start


@pytest.mark.parametrize(("safety", "control"), [("", "field"), ("indoor", "")])
def test_a_stage_that_one_side_does_not_name_is_no_mismatch(safety: str, control: str) -> None:
    world = World()
    world.supervisor = Supervisor(GO2, EVENTS, stage=safety)
    world.run(0.1, report=replace(DAMPING, stage=control))
    assert world.decision.verdict.may_start


def test_a_row_that_no_monitor_feeds_does_not_load() -> None:
    typo = replace(EVENTS[0], key="typo", watches="joint_exces_rad")
    with pytest.raises(Refusal, match="'typo' watches 'joint_exces_rad', which no monitor"):
        Supervisor(GO2, [*EVENTS, typo])


def test_every_row_of_the_table_is_fed() -> None:
    Supervisor(GO2, EVENTS)
    Supervisor(load_robot("g1"), load_events(load_robot("g1"), "tether"))


def test_a_robot_that_lies_folded_beyond_its_published_range_may_stand_up() -> None:
    """Calves of real Go2 lie at -2.795 to -2.818, the data sheet ends at -2.7227."""
    world = World()
    folded = GO2.sit_pose.copy()
    folded[2::3] = -2.818
    world.run(1.0, state={"q": folded}, **OBEYING)
    assert world.keys == []
    assert world.decision.verdict.may_start
    world.run(0.5, state={"q": folded})
    assert world.keys == [], "nor while it begins to stand up"


def test_beyond_its_stops_a_robot_may_lie_but_not_be_driven() -> None:
    """A robot may fold further than the ones that were measured."""
    folded = GO2.sit_pose.copy()
    folded[2::3] = GO2.stop_low[2::3] - np.float32(0.2)
    world = World()
    world.run(1.0, state={"q": folded}, **OBEYING)
    assert world.keys == []
    world.run(0.1, state={"q": folded})
    assert "joint_range" in world.keys


def test_temperatures_below_zero_are_cold() -> None:
    world = World()
    world.run(2.0, state={"temperature": np.full(12, -5, np.int16)})
    assert world.keys == []


def test_an_estop_without_control_takes_nothing_over() -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}), report=None)
    world.run(1.0, report=None, command_age_s=9.0)
    assert not world.supervisor.taken_over


def test_control_that_never_moved_the_robot_owes_no_command() -> None:
    world = World()
    quiet: dict[str, Any] = {"report": DAMPING, "command_damping": False, "command_age_s": 9.0}
    world.run(1.0, **quiet)
    world.cycle(pressed=frozenset({"estop"}), **quiet)
    world.run(0.5, **quiet)
    assert not world.supervisor.taken_over
    world.cycle(**quiet | {"command_age_s": 0.0})
    assert world.supervisor.taken_over, "but it may not start to move it now"


@pytest.mark.parametrize(
    ("idle", "silence_s", "taken"),
    [(False, 0.036, False), (False, 0.037, True), (True, 1.0, False), (True, 1.01, True)],
)
def test_control_that_is_gone_is_replaced_at_once(
    idle: bool, silence_s: float, taken: bool
) -> None:
    world = World()
    how = OBEYING if idle else {}
    decision = world.cycle(control_silence_s=silence_s, **how)
    assert decision.take_over is taken
    assert (world.supervisor.latched is Stop.ESTOP) is taken


@pytest.mark.parametrize(("damping", "idle"), [(False, False), (True, True)])
@pytest.mark.parametrize("silence_s", [1.1, math.inf])
def test_control_that_says_it_leaves_and_drives_on_is_replaced(
    damping: bool, idle: bool, silence_s: float
) -> None:
    """It hangs, or has ended, and the boards hold its last command."""
    world = World()
    world.run(0.1)
    report = replace(DAMPING, damping=damping, leaving=True)
    age_s = 9.0 if idle else 0.01
    last: dict[str, Any] = {"command": command(kp=20.0), "command_age_s": age_s}
    assert world.cycle(report=report, control_silence_s=silence_s, **last).take_over


@pytest.mark.parametrize("last", [None, command()])
def test_control_that_leaves_in_order_may_fall_silent(last: JointCommand | None) -> None:
    """It damps, or never sent anything."""
    world = World()
    world.run(0.1, **OBEYING)
    rests = {"command": last, "command_damping": last is not None, "command_age_s": 9.0}
    world.run(2.0, report=replace(DAMPING, leaving=True), control_silence_s=9.0, **rests)
    assert world.keys == []


def test_the_wire_is_handed_back_only_by_a_reset_with_a_new_control() -> None:
    world = World()
    world.cycle(control_silence_s=0.1)
    assert world.supervisor.taken_over
    world.run(1.0, report=None)
    assert world.cycle(report=None, reset_asked=True).reset_refused
    anew = {"report": replace(DAMPING, pid=99), "command_damping": True}
    world.run(1.0, **anew)
    assert world.supervisor.taken_over
    assert world.cycle(reset_asked=True, **anew).reset_refused == ""
    assert not world.supervisor.taken_over
    world.run(1.0, **anew)
    assert not world.supervisor.taken_over


def test_a_second_takeover_works_as_the_first() -> None:
    world = World()
    for _ in range(2):
        assert world.cycle(control_silence_s=0.1).take_over
        world.run(1.0, **OBEYING)
        assert world.cycle(reset_asked=True, **OBEYING).reset_refused == ""


# damping, as it looks on the wire


def test_damping_is_resistance_and_nothing_else() -> None:
    assert is_damping(JointCommand.damping(12, 3.0))
    assert is_damping(JointCommand.damping(12, 0.5)), "a soft one, too"
    assert not is_damping(JointCommand.damping(12, 0.49)), "one that lets the robot drop"
    for field in ("kp", "torque", "dq"):
        command = JointCommand.damping(12, 3.0)
        getattr(command, field).flags.writeable = True
        setattr(command, field, getattr(command, field).copy())
        getattr(command, field)[7] = -0.5
        assert not is_damping(command), field
    hardest = JointCommand.damping(12, 10.0)
    assert is_damping(hardest)
    hardest.kd[5] = 10.1
    assert not is_damping(hardest), "a gain that shakes the joint"
    limp = JointCommand.damping(12, 3.0)
    limp.kd[11] = 0.0
    assert not is_damping(limp)
    anywhere = JointCommand.damping(12, 3.0)
    anywhere.q = GO2.stand_pose
    assert is_damping(anywhere)


def test_getting_up_has_a_time_limit() -> None:
    world = World()
    world.supervisor = Supervisor(GO2, EVENTS)
    getting_up = replace(WALKING, mode="recovering")
    world.run(11.9, report=getting_up)
    assert world.supervisor.latched is Stop.NONE
    world.run(0.2, report=getting_up)
    assert "recovery_too_long" in world.keys
    assert world.supervisor.latched is Stop.ESTOP


def test_speed_is_measured_afresh_when_driving_begins_again() -> None:
    world = World()
    world.run(1.0, state=rolling(0.6))
    world.run(0.1, **OBEYING)
    world.cycle()
    reading = world.supervisor.watches["overspeed"].reading
    assert reading is not None
    assert reading.value < 0.1


def test_a_stop_forbids_a_start_after_its_cause_has_gone() -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    world.run(1.0, **OBEYING)
    assert not world.supervisor.watches["estop_called"].active
    assert not world.decision.verdict.may_start
    assert world.decision.verdict.reason == world.supervisor.latched_reason


def test_control_that_was_replaced_disobeys_nobody() -> None:
    """After a takeover the supervisor damps; what control still sends is not held against it."""
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    world.run(0.1)
    assert world.supervisor.taken_over
    world.run(1.0)
    assert not world.supervisor.watches["control_disobeys"].active


def test_a_single_hot_sample_takes_no_torque_away() -> None:
    world = World()
    world.cycle(state={"temperature": np.full(12, 79, np.int8)})
    assert not world.supervisor.watches["motor_hot"].active
    assert world.decision.verdict.torque_fraction == 1.0


def test_damping_seen_just_in_time_is_obedience() -> None:
    world = World()
    world.cycle(pressed=frozenset({"estop"}))
    world.run(0.1, **(OBEYING | {"command_age_s": 0.019}))
    assert not world.supervisor.taken_over


def test_a_stop_before_control_was_ever_heard_is_ignored_by_nobody() -> None:
    world = World()
    world.run(0.3, report=None, command=command(kp=20.0), pressed=frozenset({"stop"}))
    assert "stop_ignored" not in world.keys
