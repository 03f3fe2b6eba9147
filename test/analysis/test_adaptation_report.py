"""A run with adaptation on: its policy replays bit for bit, and its report shows the beliefs."""

import json

import numpy as np
import pytest

from sim2real_deploy.analysis.gap.beliefs import beliefs_of
from sim2real_deploy.analysis.gap.causes import Findings
from sim2real_deploy.analysis.gap.world_fit import World
from sim2real_deploy.analysis.policy_replay import replay_policy
from sim2real_deploy.analysis.report import write_report
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded, labelled
from sim2real_deploy.robots import load_robot
from sim2real_deploy.topics import ADAPTATION, TICKS
from sim2real_deploy.twin.robot import TwinRobot
from support.simulated_run import record_walk


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """An ideal twin: its calves are stronger than those of a real Go2, and gains are taken back.
    In mid-walk one becomes so weak that gains cannot make up for it, and velocity is lost."""
    path = tmp_path_factory.mktemp("adapted") / "bag"
    robot = load_robot("go2")
    twin = TwinRobot(robot)
    weak = np.where([name == "RL_calf_joint" for name in robot.joint_names], 0.5, 1.0)

    def weaken(_repertoire, walked_s):
        if walked_s > 5.0:
            twin.boards.weaken(weak)

    record_walk(path, 7.0, twin=twin, adaptation="all", meanwhile=weaken)
    return Bag(path)


def test_the_policy_replays_bit_for_bit_with_adaptation_on(bag):
    recorded = Recorded(bag)
    names, rows = labelled(recorded.load((ADAPTATION,))[ADAPTATION])
    gains = rows[:, [index for index, name in enumerate(names) if name.startswith("gain.")]]
    assert gains.min() == pytest.approx(0.86, abs=0.02), "adaptation was at work"
    names, rows = labelled(recorded.load((TICKS,))[TICKS])
    shifted = rows[:, [index for index, name in enumerate(names) if name.startswith("trim_")]]
    assert np.abs(shifted).max() > 0.005, "the policy was given a shifted command"
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
    section = next(s for s in data["sections"] if s["title"] == "The policy's estimates")
    told = {row[0]: row[1] for row in section["tables"][0]["rows"]}
    assert abs(told["missed_vx"]) < 0.1
    assert 0.7 < told["motor_strength"] < 1.3


def test_beliefs_stand_beside_what_was_identified(bag):
    found = Findings(World(strength=1.0, payload=0.2), {"RL_calf_joint": 0.6}, 0.002, 0.8)
    rows = {belief.name: belief for belief in beliefs_of(Recorded(bag), found)}
    assert rows["payload"].identified == 0.2
    assert rows["payload"].network is not None
    assert rows["command delay"].adaptation == pytest.approx(2.0, abs=2.0)
    assert rows["strength of RL_calf_joint"].identified == 0.6
    assert rows["strength of RL_calf_joint"].adaptation is not None
    assert "adaptation" in rows["motor strength, of the twin's"].words
