"""One episode: what chance, the world and safety do in it, and that it is the same every time."""

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.engines import FIRST, open_robot
from sim2real_deploy.gate.episodes import run_episode, watch_episode
from sim2real_deploy.gate.scenarios import Scenario
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor

GO2 = load_robot("go2")
BUNDLE = load_bundle("go2_walk", GO2)


def scenario(**changes: object) -> Scenario:
    plain = {
        "name": "short",
        "why": "",
        "if_failed": "",
        "needed_from": "indoor",
        "commands": [{"velocity": (0.5, 0.0, 0.0), "seconds": 3.0}],
        "success": {"linear_error": 0.3, "turning_error": 0.5},
    }
    return Scenario.model_validate({**plain, **changes})


def test_an_episode_is_the_same_every_time_and_another_in_another_trial() -> None:
    first, again = (run_episode(BUNDLE, FIRST, scenario(), 3) for _ in range(2))
    assert first == again
    assert first.success, first.reason
    assert first.figures is not None
    assert first.figures.velocity[0] > 0.2
    assert first.ended_s is None
    other = run_episode(BUNDLE, FIRST, scenario(), 4)
    assert other.figures != first.figures


def test_a_fall_ends_it_and_is_said() -> None:
    heavy = scenario(payload=30.0, weak_motor=0.3)
    episode = run_episode(BUNDLE, FIRST, heavy, 0)
    assert not episode.success
    assert episode.reason


def test_a_stop_by_safety_is_a_failure_in_the_event_s_own_words() -> None:
    hurt = {"at": 1.0, "target": "state", "word": "off", "duration": 0.3}
    episode = run_episode(BUNDLE, FIRST, scenario(faults=[hurt]), 0)
    assert not episode.success
    assert episode.reason.startswith("stopped by safety: no state from the robot for")
    assert episode.ended_s == pytest.approx(1.05, abs=0.05)


def test_a_robot_that_does_not_come_to_stand_fails_with_the_reason() -> None:
    hot = scenario(imperfections={"motors": {"heat": {"start": 95}}})
    episode = run_episode(BUNDLE, FIRST, hot, 0)
    assert not episode.success
    assert episode.figures is None
    assert "is at 95 C" in episode.reason


def test_what_was_asked_for_and_did_not_come_is_a_failure() -> None:
    strict = scenario(success={"linear_error": 1e-6})
    assert "speed off by" in run_episode(BUNDLE, FIRST, strict, 0).reason
    far = scenario(success={"linear_error": 9.0, "turning_error": 9.0, "distance": 50.0})
    assert "less than 50" in run_episode(BUNDLE, FIRST, far, 0).reason


def test_pushes_and_uneven_starts_move_the_robot() -> None:
    def sideways(**changes: object) -> float:
        _, record = watch_episode(BUNDLE, FIRST, scenario(spread=0.0, **changes), 1)
        return max(abs(float(truth.velocity[1])) for truth in record.truths)

    calm = sideways()
    assert sideways(pushes={"force": 80, "every": 1.0}) > calm + 0.3
    leaning = {"pose": "standing", "joints": 0.3, "tilt": 0.5, "speed": 1.5}
    assert sideways(start=leaning) > calm + 0.1


def test_what_was_dropped_comes_to_rest_before_it_stands_up() -> None:
    dropped = {"pose": "lying", "joints": 0.3, "tilt": 0.3, "drop": 0.1}
    episode = run_episode(BUNDLE, FIRST, scenario(start=dropped), 0)
    assert episode.figures is not None, episode.reason


def test_an_engine_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refusal, match="there are: mujoco, drake"):
        open_robot("gazebo", GO2, Floor(), Imperfections())
