"""From what was seen to figures, from figures to rows, from rows to a verdict in words."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2real_deploy.checks import exit_code
from sim2real_deploy.control.limits import Limit
from sim2real_deploy.gate.engines import FIRST, open_robot
from sim2real_deploy.gate.episodes import Episode
from sim2real_deploy.gate.figures import EpisodeFigures, Record
from sim2real_deploy.gate.record import load_record
from sim2real_deploy.gate.scenarios import load_scenarios
from sim2real_deploy.gate.verdict import compared, judge, store_rows, summarise, wilson
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.contract import bundle_folder
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor

GO2 = load_robot("go2")
FLAT, TURN = load_scenarios(["flat", "turn"])
GOOD = EpisodeFigures(
    velocity=(1.0, 0.0, 0.0),
    error=(0.05, 0.02, 0.03),
    distance=10.0,
    cost_of_transport=0.8,
    torque=0.6,
    temperature=31.0,
    surprise=1.0,
    smoothness=0.03,
    slip=0.1,
    lift=0.06,
    clearance=0.04,
    knocks=0.0,
    limits={"step": 0.01},
)


def episodes(*figures: EpisodeFigures, failed: int = 0) -> list[Episode]:
    good = [Episode("flat", i, True, "", False, None, f) for i, f in enumerate(figures)]
    bad = [
        Episode("flat", len(good) + i, False, f"fell after {i}.0 s", True, float(i), GOOD)
        for i in range(failed)
    ]
    return good + bad


def test_an_interval_is_that_of_the_books() -> None:
    assert wilson(19, 20) == pytest.approx((0.7639, 0.9911), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)


@given(runs=st.integers(1, 2000), share=st.floats(0, 1))
def test_an_interval_holds_its_rate(runs: int, share: float) -> None:
    successes = round(share * runs)
    low, high = wilson(successes, runs)
    assert 0 <= low <= successes / runs <= high <= 1
    assert high - low < wilson(1, 2)[1] - wilson(1, 2)[0] + 1e-9


def test_a_row_counts_and_says_why() -> None:
    row = summarise(FLAT, FIRST, episodes(*[GOOD] * 17, failed=3), 0.85)
    assert (row.runs, row.successes, row.falls, row.rate) == (20, 17, 3, 0.85)
    assert row.passes(0.85)
    assert row.reasons == {"fell": 3}
    assert row.flags == ()
    worse = summarise(FLAT, FIRST, episodes(*[GOOD] * 16, failed=4), 0.85)
    assert not worse.passes(0.85)
    assert worse.flags[0].startswith("16 of 20 succeed: it does not walk as told")
    assert [check.ok for check in judge([row, worse], 0.85)] == [True, False]
    assert exit_code(judge([row], 0.85)) == 0


def test_a_scenario_in_which_nothing_ever_walked_fails_without_figures() -> None:
    never = [Episode("flat", 0, False, "the twin would not stand: low", False, 0.0, None)]
    row = summarise(FLAT, FIRST, never, 0.85)
    assert (row.rate, row.error, row.torque) == (0.0, None, None)
    assert row.reasons == {"the twin would not stand: low": 1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lift": 0.005}, "shuffles: feet lift 0.5 cm - the gait reward"),
        ({"smoothness": 0.3}, "jerks"),
        ({"torque": 0.99}, "99% of its torque"),
        ({"limits": {"range": 0.2}}, "the range limit acts 20% of the time"),
        ({"slip": 0.7}, "feet slide 0.7 m"),
        ({"knocks": 0.1}, "knees or trunk touch"),
        ({"surprise": 5.0}, "not trained on"),
        ({"velocity": (0.6, 0.0, 0.0)}, "forward: told 1, does 0.60"),
        ({"velocity": (1.0, 0.0, 0.3)}, "turning: told 0, does 0.30"),
    ],
)
def test_each_red_flag_is_said_in_words(change: dict, words: str) -> None:
    row = summarise(FLAT, FIRST, episodes(replace(GOOD, **change)), 0.85)
    assert len(row.flags) == 1
    assert words in row.flags[0]


def test_a_policy_that_fails_in_the_other_engine_is_flagged_not_failed() -> None:
    here = summarise(FLAT, FIRST, episodes(*[GOOD] * 20), 0.85)
    there = summarise(FLAT, "drake", episodes(*[GOOD] * 15, failed=5), 0.85)
    first, second = compared([here, there], FIRST)
    assert "in drake only 15 of 20 succeed" in first.flags[0]
    assert second.flags == there.flags
    near = summarise(FLAT, "drake", episodes(*[GOOD] * 18, failed=2), 0.85)
    assert compared([here, near], FIRST)[0].flags == ()


def test_a_robot_that_turns_on_the_spot_does_not_shuffle() -> None:
    turning = replace(GOOD, lift=0.005, slip=None, velocity=(0.0, 0.0, 0.5))
    assert summarise(TURN, FIRST, episodes(turning), 0.85).flags == ()


def test_a_verdict_is_stored_in_its_bundle_and_found_there(tmp_path: Path) -> None:
    folder = tmp_path / "go2_walk"
    shutil.copytree(bundle_folder("go2_walk"), folder)
    bundle = load_bundle(folder, GO2)
    rows = [
        summarise(FLAT, FIRST, episodes(*[GOOD] * 17, failed=3), 0.85),
        summarise(FLAT, "drake", episodes(*[GOOD] * 9, failed=11), 0.85),
    ]
    store_rows(bundle, rows, 0.85, FIRST)
    stored = load_record(folder)
    assert stored.sha256 == bundle.contract.sha256
    assert [(row.engine, row.successes) for row in stored.rows] == [("mujoco", 17), ("drake", 9)]
    flat = stored.judged()["flat"]
    assert (flat.rate, flat.interval) == (0.85, rows[0].interval)
    assert flat.content == load_scenarios(["flat"])[0].digest("go2")


def test_figures_of_a_known_motion() -> None:
    """0.8 m/s where 1.0 is asked for, one foot dragged along, one lifted."""
    robot = open_robot(FIRST, GO2, Floor(), load_imperfections(), payload=2.0)
    still, rate = robot.truth, 50.0
    record = Record(rate, torque=np.full(GO2.joint_count, 5.0), ticks=100, temperature=40.0)
    feet = np.zeros((4, 3))
    for look in range(200):
        at = look / rate
        feet = feet.copy()
        feet[0, 0], feet[1, 2] = 0.8 * at, 0.05 * (look % 2)
        record.truths.append(
            replace(
                still,
                position=np.array([0.8 * at, 0.0, 0.3]),
                quaternion=np.array([1.0, 0.0, 0.0, 0.0]),
                velocity=np.array([0.8, 0.0, 0.0]),
                rate=np.array([0.0, 0.0, 0.1]),
                joint_torque=np.full(GO2.joint_count, 2.0),
                joint_velocity=np.full(GO2.joint_count, -3.0),
                foot_force=np.array([50.0, 0.0, 50.0, 50.0]),
                foot_position=feet,
                contacts=("trunk",) if look < 20 else (),
            )
        )
        record.commands.append((1.0, 0.0, 0.0))
        record.command_age.append(at)
        record.targets.append(np.full(GO2.joint_count, 0.1 * (look % 2), np.float32))
        record.surprise.append(1.5)
    record.limited[Limit.STEP | Limit.TORQUE] = 10
    record.limited[Limit.TORQUE] = 5
    figures = record.figures(robot)
    assert figures.velocity == pytest.approx((0.8, 0.0, 0.1))
    assert figures.error == pytest.approx((0.2, 0.0, 0.1))
    assert figures.distance == pytest.approx(0.8 * 199 / 50)
    power, speed = GO2.joint_count * 6.0, 0.8 * 199 / 200
    assert figures.cost_of_transport == pytest.approx(power / (robot.mass * 9.81 * speed))
    assert robot.mass == pytest.approx(
        2.0 + open_robot(FIRST, GO2, Floor(), load_imperfections()).mass
    )
    assert figures.slip == pytest.approx(1.0)
    assert figures.lift == pytest.approx(0.05 / 4)
    assert figures.clearance == pytest.approx(0.05 / 2)  # of the one foot that does not stand
    assert figures.knocks == pytest.approx(0.1)
    assert figures.smoothness == pytest.approx(0.2)
    assert figures.surprise == pytest.approx(1.5)
    assert figures.limits == pytest.approx({"step": 0.1, "torque": 0.15})
    assert figures.torque == pytest.approx(5.0 / GO2.torque_limit.min())


def test_each_command_is_tracked_by_itself_and_has_time_to_settle() -> None:
    robot = open_robot(FIRST, GO2, Floor(), load_imperfections())
    record = Record(50.0, torque=np.zeros(GO2.joint_count))
    for asked in ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0)):
        for look in range(200):
            settled = look >= 75  # 1.5 s
            speed = asked[0] + 0.1 if settled else 9.0
            velocity = np.array([speed, 0.0, 0.0])
            level = np.array([1.0, 0.0, 0.0, 0.0])
            record.truths.append(replace(robot.truth, velocity=velocity, quaternion=level))
            record.commands.append(asked)
            record.command_age.append(look / 50)
    assert record.figures(robot).error[0] == pytest.approx(0.1)
