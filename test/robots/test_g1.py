"""The second robot is there by configuration alone, and agrees with itself."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from sim2real_deploy.bench.walking import Trial, roll_out
from sim2real_deploy.bringup.graph import GO2_WALK, go2_walk, resolve
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.gate.drive import Drive
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.importers.assemble import import_policy
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.robots import load_robot
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import build_model
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.in_process import InProcessLink
from support.import_samples import SHARED

G1 = load_robot("g1")


def test_the_model_has_the_motors_in_the_order_of_the_wire() -> None:
    model = build_model(G1, Floor())
    joints = [model.joint(i).name for i in range(1, model.njnt)]
    assert tuple(joints) == G1.joint_names
    assert [model.actuator(i).name for i in range(model.nactuator)] == joints
    np.testing.assert_allclose(model.jnt_range[1:, 0], G1.position_low, atol=1e-4)
    np.testing.assert_allclose(model.jnt_range[1:, 1], G1.position_high, atol=1e-4)
    assert model.body_mass.sum() == pytest.approx(33.34, abs=0.01)


def test_left_and_right_are_mirror_images() -> None:
    model = build_model(G1, Floor())
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for name in ("hip_yaw", "knee", "ankle_roll", "elbow", "wrist_yaw"):
        left, right = data.body(f"left_{name}").xpos, data.body(f"right_{name}").xpos
        np.testing.assert_allclose(left * [1, -1, 1], right, atol=1e-4)


def test_its_parts_do_not_touch_where_it_stands() -> None:
    model = build_model(G1, Floor())
    data = mujoco.MjData(model)
    data.qpos[2] = 2.0
    data.qpos[7:] = G1.stand_pose
    mujoco.mj_forward(model, data)
    assert data.ncon == 0


def test_states_arrive_over_the_hg_family() -> None:
    twin = TwinRobot(G1)
    state = InProcessLink(G1, twin).wait(0.01)
    assert state is not None
    assert len(state.q) == 29
    np.testing.assert_allclose(state.q, twin.truth.joint_position, atol=1e-3)
    assert state.whole().foot_force.size == 0


def test_the_hoist_holds_it_until_it_stands() -> None:
    """Left alone it hangs for good: nobody takes it off a robot that leans into the rope."""
    twin = TwinRobot(G1)
    for _ in range(1500):
        twin.advance(None)
    assert twin.hoist is not None
    assert twin.hoist.on
    assert twin.truth.position[2] > 0.6


def test_the_whole_stack_takes_it_by_name(tmp_path: Path) -> None:
    graph = go2_walk(resolve(GO2_WALK, {"model": "g1", "policy": str(tmp_path)}))
    assert [process.name for process in graph] == [
        "twin",
        "recorder",
        "safety_supervisor",
        "control",
    ]
    assert {process.parameters["robot"] for process in graph} == {"g1"}


def test_a_robot_that_lies_needs_no_hoist() -> None:
    assert TwinRobot(load_robot("go2")).hoist is None


def its_public_policy(folder: Path) -> Bundle:
    def unused(path: Path, size: int) -> bytes:
        raise AssertionError(path)

    return import_policy(SHARED / "unitree_rl_lab_g1", folder, Answers(), unused).bundle


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no sample policies in {SHARED}")
def test_its_public_policy_stands_by_itself_and_walks(tmp_path: Path) -> None:
    bundle = its_public_policy(tmp_path / "g1")
    twin = TwinRobot(G1)
    assert twin.hangs
    Drive(bundle, twin).stand_and_walk()
    assert not twin.hangs
    trial = Trial("forward", (0.5, 0.0, 0.0), seconds=6.0)
    result = roll_out(bundle, trial, seed=0)
    assert result.survived
    assert result.velocity[0] > 0.3
    assert result.touched == ()


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no sample policies in {SHARED}")
def test_put_down_out_of_a_walk_it_is_caught_before_it_topples(tmp_path: Path) -> None:
    """Frozen in the middle of a step it would be on the ground before its motors are soft."""
    bundle = its_public_policy(tmp_path / "g1")
    twin = TwinRobot(G1)
    drive = Drive(bundle, twin)
    drive.stand_and_walk()
    for _ in range(1000):
        drive.walk_at((0.5, 0.0, 0.0))
        drive.tick()
    assert not twin.hangs
    drive.ask(ModeEvent.SIT)
    most = 0.0
    for _ in range(2500):
        drive.tick()
        most = max(most, tilt(twin.truth.quaternion))
    assert drive.controller.mode is Mode.DAMPING
    assert twin.hangs
    assert most < 0.5
