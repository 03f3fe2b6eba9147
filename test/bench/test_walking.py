"""The judge of walking policies: right about what it sees, and it sees what is there."""

from dataclasses import replace

import numpy as np
import pytest

from sim2real_deploy.bench import walking
from sim2real_deploy.bench.walking import (
    COMMANDS,
    PUSHES,
    Trial,
    TrialRow,
    WalkRun,
    judge,
    markdown,
    roll_out,
)
from sim2real_deploy.gate.drive import heading_velocity
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.robot import TwinRobot

ROBOT = load_robot("go2")
GOOD = TrialRow(
    COMMANDS[1], 0, 20, (0.5, 0.0, 0.0), (0.02, 0.01, 0.03), 3.0, 0.5, (), 0.045, 0.01, 0.5
)


def failed(row: TrialRow) -> list[str]:
    return [check.name.split(": ")[1] for check in judge([row]) if not check.ok]


def test_a_good_row_passes() -> None:
    assert failed(GOOD) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"falls": 1}, "survived"),
        ({"error": (0.11, 0.0, 0.0)}, "error forward"),
        ({"error": (0.0, 0.11, 0.0)}, "error sideways"),
        ({"error": (0.0, 0.0, 0.16)}, "error turning"),
        ({"tilt": 6.5}, "tilt"),
        ({"torque": 0.81}, "peak torque"),
        ({"touched": ("FL_calf_lower",)}, "other contacts"),
        ({"clearance": 0.039}, "foot clearance"),
        ({"cut": 0.06}, "range limit acts"),
    ],
)
def test_each_failing_is_seen_and_named(change: dict, what: str) -> None:
    assert failed(replace(GOOD, **change)) == [what]


def test_one_fall_in_twenty_is_allowed_under_pushes_and_two_are_not() -> None:
    pushed = replace(GOOD, trial=PUSHES[0], error=(1.0, 1.0, 1.0), tilt=40.0)
    assert failed(replace(pushed, falls=1)) == []
    assert failed(replace(pushed, falls=2)) == ["survived"]


def test_rows_take_the_worst_of_what_must_not_happen() -> None:
    result = WalkRun(True, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.05, 0.3, (), 0.04, 0.0, None)
    worse = replace(result, survived=False, tilt=0.5, torque=0.9, touched=("trunk",))
    row = TrialRow.of(COMMANDS[0], [result, worse])
    assert (row.falls, row.runs, row.torque, row.touched) == (1, 2, 0.9, ("trunk",))
    assert row.tilt == pytest.approx(np.degrees(0.5))
    assert "| stand | 1/2 |" in markdown([row])


def test_velocity_is_seen_in_the_robot_s_heading_and_tilt_from_the_vertical() -> None:
    truth = TwinRobot(ROBOT).truth
    half = np.sqrt(0.5)
    facing_left = replace(
        truth,
        quaternion=np.array([half, 0.0, 0.0, half]),
        velocity=np.array([0.0, 0.7, 0.0]),
        rate=np.array([0.0, 0.0, 0.4]),
    )
    assert heading_velocity(facing_left) == pytest.approx([0.7, 0.0, 0.4])
    assert tilt(facing_left.quaternion) == pytest.approx(0.0)
    on_its_side = replace(truth, quaternion=np.array([half, half, 0.0, 0.0]))
    assert tilt(on_its_side.quaternion) == pytest.approx(np.pi / 2)


def test_the_shipped_policy_walks_where_it_is_told() -> None:
    bundle = load_bundle("go2_walk", ROBOT)
    trial = Trial("short", (0.5, 0.0, 0.0), seconds=6.0)
    result = roll_out(bundle, trial, seed=1)
    assert result.survived
    assert result.velocity[0] == pytest.approx(0.5, abs=0.15)
    assert result.touched == ()


def test_a_robot_too_weak_to_walk_is_seen_to_fall() -> None:
    bundle = load_bundle("go2_walk", ROBOT)
    weak = Trial("weak", (0.5, 0.0, 0.0), seconds=6.0, strength=0.8, conditions={"payload": 25.0})
    assert not roll_out(bundle, weak, seed=1).survived


def test_every_trial_has_a_name_of_its_own() -> None:
    names = [trial.name for trial in walking.TRIALS]
    assert len(set(names)) == len(names)
    assert walking.AT_EASE in names
