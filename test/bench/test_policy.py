"""`bench policy`: what is measured, and what of it counts."""

import numpy as np
import pytest

from sim2real_deploy.bench.policy import MOST, Taken, measure
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot


@pytest.mark.parametrize("rested", [False, True])
def test_every_second_is_measured_until_enough_of_them_count(rested: bool) -> None:
    spec = load_robot("go2")
    policy = load_bundle("go2_walk", spec).open()
    done: list[float] = []
    taken = measure(policy, spec.wire.rate_hz, 1, rested, done.append)
    seconds = len(taken.all) / policy.contract.rate_hz
    assert seconds == len(done) <= MOST
    assert len(taken.counted) in (0, 50)
    assert done[-1] == 1.0
    assert np.all(taken.all > 0)


def test_where_no_second_counts_all_of_them_are_told() -> None:
    assert Taken(np.array([1.0, 3.0]), np.array([1.0, 3.0, 9.0])).percentiles()[2] == 3.0
    assert Taken(np.array([]), np.array([1.0, 3.0, 9.0])).percentiles()[2] == 9.0
