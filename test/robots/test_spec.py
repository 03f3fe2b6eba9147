"""Robot files: the Go2's facts, and every way a robot file can be wrong."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sim2real_deploy import paths
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, load_robot
from support.places import ROOT

GO2 = paths.config_file("robots/go2.yaml")


def test_the_go2_is_as_the_vendor_documents_it() -> None:
    robot = load_robot("go2")
    legs, parts = ("FR", "FL", "RR", "RL"), ("hip", "thigh", "calf")
    assert robot.joint_names == tuple(f"{leg}_{part}_joint" for leg in legs for part in parts)
    assert tuple(robot.legs) == legs
    np.testing.assert_allclose(robot.torque_limit, [23.7, 23.7, 45.43] * 4)
    assert (robot.wire.family, robot.wire.rate_hz) == ("go", 500.0)
    assert (robot.position_low < robot.stand_pose).all()
    assert (robot.stand_pose < robot.position_high).all()
    assert robot.foot_names == ("FR_foot", "FL_foot", "RR_foot", "RL_foot")
    for array in (robot.kp, robot.kd, robot.damping, robot.velocity_limit, robot.sit_pose):
        assert array.shape == (12,)
        assert array.dtype == np.float32


def test_facts_cannot_be_changed_by_who_reads_them() -> None:
    robot = load_robot("go2")
    with pytest.raises(ValueError, match="read-only"):
        robot.torque_limit[0] = 100
    with pytest.raises(ValueError, match="frozen"):
        robot.name = "other"  # type: ignore[misc]


def test_every_robot_that_is_shipped_loads() -> None:
    names = sorted(file.stem for file in GO2.parent.glob("*.yaml"))
    assert "go2" in names
    for name in names:
        assert load_robot(name).name == name


def test_an_unknown_robot_is_refused_with_those_there_are() -> None:
    with pytest.raises(Refusal, match=r"robot 'go3'.*there are: .*go2"):
        load_robot("go3")


def change(content: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        content = content[part]
    if value is None:
        del content[last]
    else:
        content[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("joints.3.position", [1.0, -1.0], r"joints\.3: position: the lower limit 1.0 is not"),
        ("joints.3.position", [1.0], r"joints\.3\.position"),
        ("joints.0.position", [-2.0, -1.0], r"joints\.0: stand: 0.0 is outside"),
        ("joints.2.torque", -1.0, r"joints\.2\.torque: .*greater than 0 \(it is -1.0\)"),
        ("joints.2.torque", "much", r"joints\.2\.torque: .*number"),
        ("joints.2.torque", None, r"joints\.2\.torque: is missing"),
        ("joints.2.kp", float("nan"), r"joints\.2\.kp: .*finite"),
        ("joints.2.colour", "red", r"joints\.2\.colour: unknown key"),
        ("joints.11", None, "joints: 11 rows, but joint_count is 12"),
        ("joints.1.name", "FR_hip_joint", "joints: named more than once: FR_hip_joint"),
        ("legs.FL.joints.2", "FL_knee", "legs.FL.joints: there is no joint 'FL_knee'"),
        ("wire.family", "b2", "wire.family: .*'go' or 'hg'"),
        ("wire", None, "wire: is missing"),
        ("temperature.warn", 95.0, "temperature: the tiers must rise"),
        ("battery.empty_v", 40.0, "battery: empty_v 40.0 is not below"),
        ("battery.stop_percent", 60, "battery: stop_percent must be below"),
        ("battery.stop_percent", 101, "battery.stop_percent: .*100"),
        ("sources.joints", None, "sources.joints: every group of facts names its source"),
        ("speed", 3, "speed: unknown key"),
    ],
)
def test_a_mistake_is_one_error_with_file_and_key(
    tmp_path: Path, path: str, value: Any, words: str
) -> None:
    content = yaml.safe_load(GO2.read_text())
    change(content, path, value)
    file = tmp_path / "robot.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(Refusal, match=words) as refusal:
        load_robot(file)
    assert str(refusal.value).startswith(f"{file}: ")
    assert len(str(refusal.value).splitlines()) == 1


def test_more_joints_than_the_message_has_room_for_are_refused(tmp_path: Path) -> None:
    content = yaml.safe_load(GO2.read_text())
    content["joints"] = [
        {**content["joints"][0], "name": f"joint_{i}", "position": [-1.0, 1.0]} for i in range(21)
    ]
    content["joint_count"], content["legs"], content["joint_orders"] = 21, {}, {}
    file = tmp_path / "robot.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(Refusal, match="21 do not fit the 20 motor slots"):
        load_robot(file)
    content["wire"]["family"] = "hg"
    file.write_text(yaml.safe_dump(content))
    assert load_robot(file).joint_count == 21


def test_damping_resists_and_does_nothing_else() -> None:
    command = JointCommand.damping(12, 3.0)
    assert (command.kd == 3.0).all()
    for part in (command.q, command.dq, command.kp, command.torque):
        assert part.shape == (12,)
        assert not part.any()
    copy = command.copy()
    copy.kd[0] = 0.0
    assert command.kd[0] == 3.0


@pytest.mark.parametrize(
    ("pattern", "absurd"),
    [
        (r"torque: 23\.7", "torque: 1000000.0"),
        (r"damping: 3\.0", "damping: 1.0e-9"),
        (r"kd: 5\.0", "kd: 45.0"),
        (r"kp: 60\.0", "kp: 6000.0"),
        (r"velocity: 30\.1", "velocity: 3000.0"),
        (r"stop: 90\.0", "stop: 800.0"),
        (r"stops: \[-2\.82", "stops: [-4.0"),
        (r"position: \[-1\.0472", "position: [-9.0"),
    ],
)
def test_no_file_widens_the_hard_bounds(tmp_path, pattern, absurd):
    text = (ROOT / "config" / "robots" / "go2.yaml").read_text()
    changed, count = re.subn(pattern, absurd, text, count=1)
    assert count == 1
    path = tmp_path / "go2.yaml"
    path.write_text(changed)
    with pytest.raises(Refusal):
        load_robot(path)
