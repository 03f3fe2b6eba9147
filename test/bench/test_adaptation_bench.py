"""The adaptation benchmark: its arithmetic, its hidden changes, and what it holds against a run."""

from dataclasses import replace

import numpy as np
import pytest

from sim2real_deploy.bench import adaptation as bench
from sim2real_deploy.bench.adaptation import AdaptationWalk
from sim2real_deploy.bench.hidden_changes import CHANGES, NOTHING, hidden_robot
from sim2real_deploy.robots import load_robot

SPEC = load_robot("go2")
HEALTHY = AdaptationWalk((0.6, 0.0, 0.0), 0.3, 1.0, 0.0, 0.0, False, False)
CHEAP = {"mean": 10.0, "slowest": 20.0}
CALF, _, _, LOAD, *_ = CHANGES


def row(change, without, with_it, count=3):
    return bench._row(change, [HEALTHY] * count, [without] * count, [with_it] * count)


def test_recovery_is_the_share_of_the_distance_that_is_gone():
    lost = replace(HEALTHY, velocity=(0.5, 0.0, 0.0), height=0.28)
    found = row(CALF, lost, replace(HEALTHY, velocity=(0.6, 0.01, 0.0)))
    assert found.lost == pytest.approx(0.1)
    assert found.recovered == pytest.approx(0.9)
    assert found.height_lost == pytest.approx(0.02)
    assert row(CALF, lost, replace(lost, velocity=(0.4, 0.0, 0.0))).recovered < 0


@pytest.mark.parametrize(
    ("with_it", "tremor", "cost", "words"),
    [
        ({"velocity": (0.57, 0.0, 0.0)}, 1.0, 20.0, "recovered"),
        ({"strength_error": 0.04}, 1.0, 20.0, "strength"),
        ({"payload_error_kg": 0.6}, 1.0, 20.0, "load"),
        ({}, 1.1, 20.0, "tremor"),
        ({}, 1.0, 60.0, "tick"),
    ],
)
def test_what_falls_short_is_named(with_it, tremor, cost, words):
    lost = replace(HEALTHY, velocity=(0.5, 0.0, 0.0))
    rows = [row(NOTHING, HEALTHY, HEALTHY), row(CALF, lost, replace(HEALTHY, **with_it))]
    failed = [c.name for c in bench._checks(rows, tremor, CHEAP | {"slowest": cost}) if not c.ok]
    assert len(failed) == 1
    assert words in failed[0]


def test_every_change_does_what_its_name_says():
    robot = hidden_robot(SPEC, 0)
    robot.exchange(())  # joints that stick get their friction anew in every period
    mass, friction = robot.mass, robot.model.dof_frictionloss.copy()
    strength = robot.boards._strength[0].copy()
    for change in CHANGES:
        change.apply(robot, 1.0)
        weaker = robot.boards._strength[0] / strength
        if change.strength:
            assert weaker == pytest.approx(change.strengths(SPEC))
        assert robot.mass - mass == pytest.approx(change.payload_kg)
        robot.carry(-change.payload_kg)
    robot.exchange(())
    rubs = robot.model.dof_frictionloss / np.maximum(friction, 1e-9)
    assert (rubs[6:9] > 1.8).all(), "of the whole, with what comes on top at rest"
    assert (rubs[9:] < 1.1).all()
