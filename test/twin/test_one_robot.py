"""A twin is one particular robot: each joint its own figures, its trunk its own, by name."""

from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.files import (
    IdentifiedFigure,
    Provenance,
    TwinFile,
    load_imperfections,
    load_twin_file,
    write_twin_file,
)
from sim2real_deploy.twin.mount import Mount
from sim2real_deploy.twin.per_joint import per_joint, times
from sim2real_deploy.twin.robot import TwinRobot
from support.twin_support import PERIOD, ROBOT, command, decode, hung, record

NAMES = ROBOT.joint_names
HIP, THIGH, CALF = 0, 1, 2
KINDS = {"hip_joint": 1.0, "thigh_joint": 2.0, "calf_joint": 3.0}


def test_a_figure_is_one_for_all_by_ending_or_by_name_and_the_longest_wins() -> None:
    assert per_joint(0.5, ROBOT, "x").tolist() == [0.5] * 12
    figures = per_joint(KINDS | {"RL_calf_joint": 9.0}, ROBOT, "x")
    assert figures[:3].tolist() == [1.0, 2.0, 3.0]
    assert figures[-1] == 9.0
    with pytest.raises(Refusal, match=r"motors.lag: go2 has no joint knee"):
        per_joint({"knee": 1.0}, ROBOT, "motors.lag")
    with pytest.raises(Refusal, match=r"has no value for FR_calf_joint"):
        per_joint({"hip_joint": 1.0, "thigh_joint": 1.0}, ROBOT, "motors.lag")


def test_more_strength_stops_at_the_data_sheet_unless_the_robot_is_beyond_it() -> None:
    assert times({"a": 0.95, "b": 1.2}, 1.1, most=1.0) == {"a": 1.0, "b": 1.2}
    assert times(0.5, 1.5) == 0.75


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.006, 0.011])
def test_each_joint_obeys_its_own_time_after_the_board_got_the_command(delay: float) -> None:
    robot = hung(motors={"delay": {**dict.fromkeys(KINDS, 0.004), "FR_calf_joint": delay}})
    robot.model.dof_armature[6:] = 1e9
    steps = []
    for _ in range(10):
        robot.advance(command(torque=1.0))
        steps.append(robot.truth.joint_torque)
    torque = np.array(steps)  # as it is at the end of each period
    whole = int(np.ceil(np.round(delay / PERIOD, 9)))
    late = whole if round(delay / PERIOD, 9) == whole else whole - 1  # half a period on: in it
    assert torque[:, CALF].tolist() == pytest.approx([0.0] * late + [1.0] * (10 - late))
    assert torque[:, HIP].tolist() == pytest.approx([0.0] * 2 + [1.0] * 8)


def test_gains_are_as_late_as_targets() -> None:
    robot = hung(motors={"delay": 0.006})
    pose = np.array(ROBOT.stand_pose) + 0.1
    torques = record(robot, command(pose, kp=20.0, kd=0.0), 6, "torque")
    assert not torques[:3].any()
    assert torques[3:, THIGH] == pytest.approx(20.0 * 0.1, abs=0.2)


def test_strength_and_lag_of_single_joints() -> None:
    strength = {"hip_joint": 1.0, "thigh_joint": 1.0, "calf_joint": 0.8}
    lag = {"hip_joint": 0.0, "thigh_joint": 0.010, "calf_joint": 0.0}
    robot = hung(motors={"strength": strength, "lag": lag})
    robot.model.dof_armature[6:] = 1e9
    first = record(robot, command(torque=1.0), 5, "torque")[-1]  # 10 ms on
    assert first[[HIP, CALF]] == pytest.approx([1.0, 0.8], abs=1e-3)
    assert first[THIGH] == pytest.approx(1 - np.exp(-1), abs=0.05)


def test_rotors_bearings_and_trunk_are_those_of_the_file() -> None:
    made = hung(
        motors={
            "armature": {"hip_joint": 0.1, "thigh_joint": 0.2, "calf_joint": 0.3},
            "damping": {"joint": 0.5},
        },
        trunk={"mass": 2.0, "com": (0.02, 0.0, -0.01), "inertia": 1.5},
    )
    plain = hung()
    np.testing.assert_allclose(made.model.dof_armature[6:], [0.1, 0.2, 0.3] * 4)
    np.testing.assert_allclose(made.model.dof_damping[6:], 0.5)
    assert made.mass == pytest.approx(plain.mass + 2.0)
    base = plain.model.body("base").id
    shift = made.model.body_ipos[base] - plain.model.body_ipos[base]
    np.testing.assert_allclose(shift, (0.02, 0.0, -0.01))
    np.testing.assert_allclose(made.model.body_inertia[base], 1.5 * plain.model.body_inertia[base])


def test_a_joint_that_sticks_lets_go_late_and_then_slides() -> None:
    moved = []
    for torque in (0.45, 0.6):
        robot = hung(motors={"friction": 0.3, "stribeck": 0.2})
        pull = np.zeros(len(NAMES))
        pull[CALF] = torque
        start = robot.truth.joint_position[CALF]
        record(robot, command(torque=pull), 100, "q")
        moved.append(abs(robot.truth.joint_position[CALF] - start))
        friction = robot.model.dof_frictionloss[6:]
    assert moved[0] < 0.01 < 0.05 < moved[1]
    assert friction[HIP] == pytest.approx(0.5, abs=0.02)  # at rest
    assert friction[CALF] == pytest.approx(0.3, abs=0.02)  # in motion


def test_an_offset_is_read_and_acted_on_and_tau_est_has_its_own_scale() -> None:
    offset = {"hip_joint": 0.0, "thigh_joint": 0.05, "calf_joint": 0.0}
    robot = hung(encoders={"offset": offset, "torque_gain": 1.2})
    read = decode(robot.advance(command(ROBOT.stand_pose, kp=0.0, kd=0.0)))
    assert read.q[THIGH] - robot.truth.joint_position[THIGH] == pytest.approx(0.05, abs=1e-6)
    read = decode(robot.advance(command(torque=1.0)))
    assert read.torque[HIP] == pytest.approx(1.2, rel=1e-5)
    for _ in range(500):
        robot.advance(command(ROBOT.stand_pose, kp=300.0, kd=5.0))
    off = robot.truth.joint_position - ROBOT.stand_pose
    assert off[THIGH] == pytest.approx(-0.05, abs=0.01)  # the board believes its encoder


@pytest.mark.parametrize(("kind", "sways"), [("fixed", False), ("hung", True)])
def test_a_held_trunk(kind: str, sways: bool) -> None:
    mount = Mount(kind=kind, roll=0.05, pitch=-0.1)
    robot = TwinRobot(ROBOT, mount=mount)
    assert robot.hangs is sways
    start = robot.truth
    w, x, y, _ = start.quaternion
    assert (2 * x / w, 2 * y / w) == pytest.approx((0.05, -0.1), abs=0.02)
    moved = []
    for swing in np.sin(np.linspace(0, 6 * np.pi, 1000)):
        pose = np.array(ROBOT.stand_pose)
        pose[THIGH::3] += 0.5 * swing
        robot.advance(command(pose, 60.0, 2.0))
        moved.append(np.linalg.norm(robot.truth.position - start.position))
    assert not robot.truth.contacts
    assert bool(max(moved) > 1e-3) is sways
    assert max(moved) < 0.2


def test_a_twin_has_a_name_a_robot_and_sources() -> None:
    assert load_imperfections("ideal") == Imperfections()
    assert load_imperfections("default") == load_twin_file("go2", "go2").twin
    for name in ("go2", "g1"):
        file = load_twin_file("default", name)
        TwinRobot(load_robot(name), imperfections=file.twin)
        groups = {key.split(".")[0] for key in file.sources}
        assert groups >= file.twin.model_dump(exclude_defaults=True).keys() - {"command_timeout"}
    with pytest.raises(Refusal, match=r"is a twin of g1, not of go2"):
        load_imperfections("g1", "go2")
    with pytest.raises(Refusal, match=r"g1 has no joint hip_joint"):
        TwinRobot(load_robot("g1"), imperfections=load_imperfections("default", "go2"))


def test_a_twin_file_is_written_once_and_read_back(tmp_path: Path) -> None:
    found = {"motors.friction": {"FR_hip_joint": IdentifiedFigure(verdict="identified", value=0.2)}}
    provenance = Provenance(date="2026-01-01", version="1", recordings={"a": "b"}, findings=found)
    twin = Imperfections.model_validate({"motors": {"friction": dict.fromkeys(NAMES, 0.2)}})
    file = TwinFile(robot="go2", about="x", sources={}, twin=twin, identified=provenance)
    path = tmp_path / "mine.yaml"
    write_twin_file(path, file)
    assert load_twin_file(str(path), "go2") == file
    assert load_imperfections(str(path)).motors.friction["RL_calf_joint"] == 0.2  # type: ignore[index]
    with pytest.raises(Refusal, match="already exists"):
        write_twin_file(path, file)
