"""The events table and what a file may change of it."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.safety.chain import Stop
from sim2real_deploy.safety.events import Event, Reaction, events_for
from sim2real_deploy.safety.settings import load_events
from support.safety_world import GO2

TABLE = {event.key: event for event in events_for(GO2)}
STAGES = ("tether", "indoor", "outdoor", "field")


def written(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "safety.yaml"
    path.write_text(body)
    return path


def rules(tmp_path: Path, setting: str, robot: str = "{}") -> dict[str, Event]:
    path = written(
        tmp_path,
        f"robots: {{go2: {robot}}}\nstages: {{indoor: {setting}}}\n",
    )
    return {event.key: event for event in load_events(GO2, "indoor", path)}


def test_every_row_is_whole_and_lies_within_its_own_bounds() -> None:
    assert len(TABLE) == len(events_for(GO2)), "two rows with one key"
    for event in TABLE.values():
        low, high = event.bounds
        assert low <= event.threshold <= high, event.key
        assert 0 <= event.time_s <= event.longest_s, event.key
        assert event.weakest <= event.reaction, event.key
        assert event.remedy, event.key
        assert "{" not in event.describe(1.0, "there"), event.key


def test_what_must_stop_the_robot_cannot_be_set_to_less() -> None:
    severe = {event.key for event in TABLE.values() if event.reaction is Reaction.ESTOP}
    assert severe == {
        *("command_gain", "command_range", "command_torque", "second_state", "stop_ignored"),
        *("estop_called", "remote_estop", "state_silent", "state_frozen", "state_not_finite"),
        *(
            "imu_quaternion",
            "imu_spike",
            "fall",
            "recovery_too_long",
            "free_fall",
            "joint_range",
            "joint_speed",
        ),
        *("motor_limit", "policy_not_finite", "control_failed", "control_gone"),
        *(
            "control_idle_gone",
            "control_disobeys",
            "command_not_finite",
            "second_writer",
            "sport_mode",
        ),
    }
    assert all(TABLE[key].weakest is Reaction.ESTOP for key in severe)
    sitting = {event.key for event in TABLE.values() if event.reaction is Reaction.STOP}
    assert sitting == {
        *("state_flood", "overspeed", "overturn", "motor_off", "joint_astray"),
        *("stop_called", "dead_man", "state_slow", "state_corrupt", "imu_gravity", "joint_torque"),
        *("motor_lost", "motor_too_hot", "battery_empty", "voltage_sag", "policy_astray"),
        "deadlines_lost",
    }
    assert all(TABLE[key].weakest is Reaction.STOP for key in sitting)


def test_times_to_damping_leave_room_for_the_wire() -> None:
    for key, bound_s in (("state_silent", 0.05), ("state_frozen", 0.05), ("control_gone", 0.06)):
        event = TABLE[key]
        assert event.bounds[1] + event.longest_s <= bound_s - 0.009, key


def test_a_robots_own_limits_are_in_the_table() -> None:
    tiers = [TABLE[k].threshold for k in ("motor_warm", "motor_hot", "motor_too_hot")]
    assert tiers == [65.0, 72.0, 80.0]
    assert TABLE["motor_limit"].threshold == 90.0
    assert TABLE["battery_low"].threshold == 25
    assert TABLE["battery_empty"].threshold == 10
    assert TABLE["voltage_sag"].threshold == 24.0
    assert TABLE["cell_imbalance"].threshold == 0.3


def test_exceeding_is_strict_and_what_cannot_be_judged_exceeds() -> None:
    over, under = TABLE["fall"], TABLE["battery_low"]
    assert not over.exceeded(over.threshold)
    assert over.exceeded(math.nextafter(over.threshold, 9))
    assert not under.exceeded(under.threshold)
    assert under.exceeded(under.threshold - 1)
    assert over.exceeded(math.nan)
    assert under.exceeded(math.nan)


def test_the_words_name_value_unit_and_place() -> None:
    assert TABLE["joint_range"].describe(0.1234, "FR_calf_joint") == (
        "FR_calf_joint is 0.123 rad beyond its range"
    )
    assert TABLE["second_writer"].describe(1, "teleop") == "somebody else writes rt/lowcmd: teleop"


def test_only_stop_and_estop_stop() -> None:
    assert [reaction.stop for reaction in Reaction] == [Stop.NONE] * 4 + [Stop.STOP, Stop.ESTOP]


@pytest.mark.parametrize("stage", STAGES)
def test_the_shipped_file_holds_for_every_stage(stage: str) -> None:
    loaded = load_events(GO2, stage)
    assert [event.key for event in loaded] == list(TABLE)


def test_a_stage_is_set_over_the_robot_and_the_robot_over_the_table(tmp_path: Path) -> None:
    events = rules(
        tmp_path,
        "{fall: {threshold: 0.5, reaction: estop}, remote_lost: {reaction: stop}}",
        robot="{fall: {threshold: 0.7, time_s: 0.1}, tilt: {threshold: 0.3}}",
    )
    assert (events["fall"].threshold, events["fall"].time_s) == (0.5, 0.1)
    assert events["fall"].reaction is Reaction.ESTOP
    assert events["tilt"].threshold == 0.3
    assert events["remote_lost"].reaction is Reaction.STOP
    assert events["joint_range"] == TABLE["joint_range"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("{fall: {threshold: 1.3}}", "stages.indoor.fall.threshold: 1.3 rad is outside 0.4..1.2"),
        ("{fall: {threshold: 0.39}}", "0.39 rad is outside 0.4..1.2"),
        ("{fall: {time_s: 0.21}}", "fall.time_s: 0.21 is outside 0..0.2 s"),
        ("{fall: {time_s: -0.1}}", "fall.time_s: -0.1 is outside 0..0.2 s"),
        ("{fall: {reaction: stop}}", "fall.reaction: 'stop' is too mild; at least 'estop'"),
        ("{fall: {reaction: none}}", "is one of: note, warn, derate, refuse_start, stop, estop"),
        ("{fall: {reaction: 5}}", "is one of: note, warn"),
        ("{fall: {treshold: 1.0}}", "unknown key"),
        (
            "{fal: {threshold: 1.0}}",
            "stages.indoor.fal: there is no such event; there are: adapt",
        ),
        ("{fall: {threshold: .nan}}", "finite"),
        ("{fall: {threshold: }}", "stages.indoor.fall.threshold: has no value"),
        ("{fall: {time_s: null}}", "stages.indoor.fall.time_s: has no value"),
    ],
)
def test_a_file_that_goes_too_far_is_refused(tmp_path: Path, setting: str, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        rules(tmp_path, setting)
    assert words in str(refusal.value)


def test_a_robots_setting_that_goes_too_far_is_found_under_the_robot(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"robots\.go2\.fall\.threshold: 1\.3 rad is outside"):
        rules(tmp_path, "{}", robot="{fall: {threshold: 1.3}}")


def test_the_bounds_themselves_are_allowed(tmp_path: Path) -> None:
    assert rules(tmp_path, "{fall: {threshold: 1.2, time_s: 0.2}}")["fall"].threshold == 1.2
    assert rules(tmp_path, "{fall: {threshold: 0.4, time_s: 0}}")["fall"].time_s == 0


def test_the_file_for_another_robot_does_not_count(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "robots: {g1: {fall: {threshold: 0.5}}}\nstages: {indoor: {}}\n",
    )
    loaded = load_events(GO2, "indoor", path)
    assert {event.key: event for event in loaded} == TABLE


def test_an_unknown_stage_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no 'moon'; there are: field, indoor, outdoor, tether"):
        load_events(GO2, "moon")


def test_a_number_without_a_unit_has_no_space_behind_it() -> None:
    event = replace(TABLE["fall"], text="[{value}]", unit="")
    assert event.describe(0.5, "") == "[0.5]"
    assert replace(event, unit="rad").describe(0.5, "") == "[0.5 rad]"
