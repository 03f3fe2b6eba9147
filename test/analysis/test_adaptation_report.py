"""A run with adaptation on: its policy replays bit for bit, and its report shows the beliefs."""

import json

import numpy as np
import pytest

from sim2real_deploy.analysis.policy_replay import replay_policy
from sim2real_deploy.analysis.report import write_report
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded, labelled
from sim2real_deploy.topics import ADAPTATION
from support.simulated_run import record_walk


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """An ideal twin: its calves are stronger than those of a real Go2, and gains are taken back."""
    path = tmp_path_factory.mktemp("adapted") / "bag"
    record_walk(path, 3.0, adaptation="all")
    return Bag(path)


def test_the_policy_replays_bit_for_bit_with_adaptation_on(bag):
    recorded = Recorded(bag)
    names, rows = labelled(recorded.load((ADAPTATION,))[ADAPTATION])
    gains = rows[:, [index for index, name in enumerate(names) if name.startswith("gain.")]]
    assert gains.min() == pytest.approx(0.86, abs=0.02), "adaptation was at work"
    replay = replay_policy(recorded)
    assert replay.steps >= 150
    assert replay.values_different == 0


def test_the_report_shows_what_it_believed(bag, tmp_path):
    page = write_report(bag, tmp_path / "report.html").read_text(encoding="utf-8")
    data = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    section = next(s for s in data["sections"] if s["title"] == "Adaptation")
    by_joint = {row[0]: row for row in section["tables"][1]["rows"]}
    assert by_joint["FR_calf_joint"][1] == pytest.approx(1 / 0.86, rel=0.03)
    assert by_joint["FR_hip_joint"][1] == pytest.approx(1.0, abs=0.03)
    assert np.isfinite(section["tables"][0]["rows"][0][1])
