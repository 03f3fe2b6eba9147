"""What the loop tells about its own timing."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from sim2real_deploy.control.ticks import COLUMNS
from sim2real_deploy.nodes.statistics import _timing

PERIOD_NS = 2_000_000


@pytest.mark.parametrize(("walked", "told"), [(500, "50.0 Hz"), (350, "50.0 Hz"), (5, None)])
def test_the_policys_rate_is_of_the_time_in_which_it_walked(walked: int, told: str | None) -> None:
    figures = np.zeros((500, len(COLUMNS)))
    figures[:, COLUMNS.index("now_ns")] = np.arange(500) * PERIOD_NS
    figures[:walked:10, COLUMNS.index("policy_stepped")] = 1
    facts = _timing(figures, PERIOD_NS)
    assert facts["rate"] == "500.0 Hz"
    assert facts.get("policy rate") == told
