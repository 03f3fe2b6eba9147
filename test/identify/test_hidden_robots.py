"""Robots drawn at random are found again. The seeds are not those of `sim2real bench identify`."""

import pytest

from sim2real_deploy.bench import identify as bench
from sim2real_deploy.bench.hidden import draw
from sim2real_deploy.robots import load_robot

ROBOT = load_robot("go2")


@pytest.mark.slow
def test_a_walk_says_what_the_trunk_weighs_and_where() -> None:
    found = bench._one_walker(ROBOT, 1500)
    assert not found["fell"]
    assert found["mass"][0] < 0.02
    assert len(found["com"]) == 3  # of every axis, the height too
    assert max(found["com"]) < 0.005
    assert all(found["com_covered"])


@pytest.mark.slow
def test_a_delay_between_two_wire_periods_is_not_taken_for_rotor_inertia() -> None:
    seed = 124 - 1000
    assert draw(ROBOT, 124).truth.delay[0] == pytest.approx(0.007)
    found = bench._one_hidden(ROBOT, 2.0, seed)
    assert max(found["errors"]["delay"]) < 1e-6
    assert max(found["errors"]["armature"]) < 0.1
    assert all(found["covered"]["armature"])
