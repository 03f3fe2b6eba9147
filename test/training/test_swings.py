"""Swings: mean height and length of each foot's last one, counted once, when the foot lands."""

import numpy as np
import pytest

from sim2real_deploy.training.swings import Swings

UP, DOWN = False, True


def note(swings: Swings, height: float, contact: bool) -> None:
    """Two robots of two legs; the first foot of the first robot moves, the others stand."""
    heights, contacts = np.zeros((2, 2), np.float32), np.ones((2, 2), bool)
    heights[0, 0], contacts[0, 0] = height, contact
    swings.note(heights, contacts)


def test_a_swing_counts_once_when_the_foot_lands_and_its_mean_is_kept() -> None:
    swings = Swings(2, 2)
    for height in (0.02, 0.06, 0.04):
        note(swings, height, UP)
        assert not swings.ended.any()
    note(swings, 0.0, DOWN)
    assert swings.ended.tolist() == [[3, 0], [0, 0]]
    assert swings.height[0, 0] == pytest.approx(0.04)
    note(swings, 0.0, DOWN)
    note(swings, 0.1, UP)
    assert not swings.ended.any()
    assert swings.height[0, 0] == pytest.approx(0.04)


def test_a_new_episode_knows_nothing_of_the_last_one() -> None:
    swings = Swings(2, 2)
    note(swings, 0.05, UP)
    note(swings, 0.0, DOWN)
    note(swings, 0.05, UP)
    swings.reset(0)
    assert not swings.height.any()
    note(swings, 0.0, DOWN)
    assert not swings.ended.any()
