"""The benchmark of starting: its verdict, and that it starts the real stack."""

import pytest

from sim2real_deploy.bench.startup import Start, judge, run


def test_the_median_start_counts():
    starts = [Start({"control": 1.0}, stand_s, 5.0) for stand_s in (3.0, 3.5, 9.0)]
    assert all(check.ok for check in judge([0.2, 0.2, 0.9], starts).checks)
    assert not judge([0.3], [Start({}, 4.5, 5.0)]).checks[0].ok


@pytest.mark.slow
def test_it_starts_the_stack():
    result = run(1, lambda what, done: None)
    (start,) = result.raw["starts"]
    assert {"control", "twin", "safety_supervisor"} <= start["nodes_s"].keys()
    assert start["stand_s"] < 60
