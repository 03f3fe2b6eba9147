"""A recording as long as a battery lasts on hard ground: replayed and shown without patience."""

import time
from pathlib import Path

import pytest

from sim2real_deploy.analysis.policy_replay import replay_policy
from sim2real_deploy.analysis.report import write_report
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from support.simulated_run import record_walk


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_minutes_are_replayed_bit_for_bit_and_shown(tmp_path: Path) -> None:
    record_walk(tmp_path / "walk", seconds=600.0)
    replay = replay_policy(Recorded(Bag(tmp_path / "walk")))
    print(f"replayed at {replay.speed:.0f} times real time")
    assert replay.steps == 30_000
    assert replay.values_different == 0
    assert replay.values_missing == 0
    start = time.perf_counter()
    page = write_report(Bag(tmp_path / "walk"), tmp_path / "report.html")
    print(f"report of {page.stat().st_size / 1e6:.1f} MB in {time.perf_counter() - start:.1f} s")
    assert page.stat().st_size < 10_000_000
