"""Every robot by its file alone: it loads, its model is in its order, it stands and is put down."""

import ast
from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy import paths
from sim2real_deploy.control import trajectory
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.clearance import check_clearance
from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.safety.chain import CLEAR
from sim2real_deploy.wire.in_process import InProcessLink

ROBOTS = sorted(file.stem for file in paths.config_file("robots").glob("*.yaml"))
PACKAGE = Path(paths.__file__).parent


def test_there_are_eight():
    assert {"go2", "go2w", "g1", "g1_23", "h1", "h1_2", "b2", "a2"} <= set(ROBOTS)


@pytest.mark.parametrize("name", ROBOTS)
def test_the_model_has_the_joints_of_the_file_in_its_order(name):
    from sim2real_deploy.twin.floors import Floor
    from sim2real_deploy.twin.model import build_model

    spec = load_robot(name)
    model = build_model(spec, Floor())
    joints = [model.joint(k) for k in range(1, model.njnt)]
    assert tuple(joint.name for joint in joints) == spec.joint_names
    stops = np.array([joint.range for joint in joints])
    np.testing.assert_allclose(stops[:, 0], spec.stop_low, atol=1e-4)
    np.testing.assert_allclose(stops[:, 1], spec.stop_high, atol=1e-4)
    assert 10 < model.body_mass.sum() < 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_it_stands_up_and_is_put_down(name):
    """In its own imperfect twin. A humanoid leans into its hoist, and hangs on it in the end."""
    from sim2real_deploy.twin.files import load_imperfections
    from sim2real_deploy.twin.robot import TwinRobot

    spec = load_robot(name)
    robot = TwinRobot(spec, None, load_imperfections("default", name))
    link = InProcessLink(spec, robot)
    controller = Controller(spec, load_stage("field"), None)
    controller.situation.sport_released = True

    def run(seconds, until=None):
        for _ in range(int(seconds * spec.wire.rate_hz)):
            sent = controller.step(link.wait(0.002), link.now_ns(), CLEAR)
            if sent is not None:
                link.send(sent)
            if controller.mode is until:
                return

    run(0.1)
    assert controller.request(ModeEvent.STAND, link.now_ns()).accepted
    run(8.0, Mode.STANDING)
    assert controller.mode is Mode.STANDING, controller.reason
    run(1.0)
    assert robot.truth.position[2] > 0.9 * spec.base_height
    assert controller.request(ModeEvent.SIT, link.now_ns()).accepted
    run(8.0, Mode.DAMPING)
    assert controller.mode is Mode.DAMPING
    run(1.0)
    if spec.put_down == "gantry":
        assert robot.hangs
        assert robot.truth.position[2] > 0.8 * spec.base_height
    else:
        assert robot.truth.position[2] < 0.4 * spec.base_height


def test_let_down_means_softer_and_softer_in_place():
    spec = load_robot("h1_2")
    zeros = np.zeros(spec.joint_count, np.float32)
    start = JointCommand(spec.stand_pose, zeros, spec.kp, spec.kd, zeros)
    movement, out = trajectory.put_down(start, spec, 0), start.copy()
    last = spec.kp
    for tick in range(1500):
        done = movement.fill(tick * 2_000_000, out)
        assert not done
        assert (out.kp <= last).all()
        np.testing.assert_array_equal(out.q, spec.stand_pose)
        last = out.kp.copy()
    assert movement.fill(3_000_000_000, out)
    assert not out.kp.any()
    np.testing.assert_array_equal(out.kd, spec.damping)


def test_a_robot_for_the_twin_alone_is_refused_for_real(tmp_path):
    with pytest.raises(Refusal, match="'h1_2' is for the twin alone: its IMU is in the torso"):
        check_clearance("go2_walk", "h1_2", "tether", tmp_path, "", "")


def test_no_code_decides_by_a_robots_name():
    """Names are defaults of arguments; nothing is compared with one, looked up by or listed."""
    deciding = (ast.Compare, ast.Dict, ast.Subscript, ast.Set, ast.MatchValue)
    found = []
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, deciding):
                continue
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.Constant) and part.value in ROBOTS:
                    found.append(f"{file.relative_to(PACKAGE)}:{node.lineno}: {part.value}")
    assert not found
