"""The benches of estimates and of idle adaptation: their arithmetic, and what they hide."""

import numpy as np
import pytest

from sim2real_deploy.bench.adaptation_idle import IdleRow, fewer_by_chance
from sim2real_deploy.bench.estimates import UnseenRobot, _accuracy
from sim2real_deploy.robots import load_robot

SPEC = load_robot("go2")


def test_accuracy_tells_bias_from_what_is_not_seen():
    truth = np.linspace(0.0, 4.0, 9)
    bias, error, spread, slope = _accuracy(np.stack([truth, 0.5 * truth + 1.0], axis=1))
    assert (bias, slope) == pytest.approx((0.0, 0.5))
    assert error == pytest.approx(spread / 2)


def test_a_hidden_robot_is_what_it_says():
    hidden = UnseenRobot(2.0, 0.9, 0.004, 0.5)
    motors = hidden.build(SPEC, 3).imperfections.motors
    plain = UnseenRobot(0.0, 1.0, 0.0, 0.8).build(SPEC, 3).imperfections.motors
    assert motors.strengths(SPEC) == pytest.approx(0.9 * plain.strengths(SPEC))
    assert motors.delay - plain.delay == pytest.approx(0.004)
    assert UnseenRobot.of_seed(5) == UnseenRobot.of_seed(5)


def test_worse_is_more_error_with_than_without():
    assert IdleRow("flat", 3, (3, 3), (0.05, 0.04), 0.01).worse == pytest.approx(-0.01)


def test_fewer_successes_count_only_where_chance_would_hardly_give_them():
    assert fewer_by_chance(20, 20, 20) == 1.0
    assert fewer_by_chance(20, 19, 20) == pytest.approx(0.5)
    assert fewer_by_chance(20, 14, 20) == pytest.approx(0.010, abs=0.001)  # scipy's fisher_exact
    assert fewer_by_chance(10, 12, 20) > 0.5
