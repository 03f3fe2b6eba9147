"""The URDF says of a robot what its MJCF says: MuJoCo reads both."""

import re

import mujoco
import numpy as np
import pytest

from sim2real_deploy.paths import config_file
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.floors import named_floor
from sim2real_deploy.twin.model import BASE, build_model
from sim2real_deploy.twin.urdf import BASE_LINK, IMU_LINK, urdf

ROBOTS = ["go2", "g1"]
KEEP = '<mujoco><compiler fusestatic="false" discardvisual="false" strippath="true"/></mujoco>'


def compiled(name: str) -> mujoco.MjModel:
    text = config_file(f"robots/{name}.urdf").read_text(encoding="utf-8")
    return mujoco.MjModel.from_xml_string(re.sub(r"(<robot[^>]*>)", rf"\1{KEEP}", text, count=1))


@pytest.mark.parametrize("name", ROBOTS)
def test_the_file_is_what_the_model_gives_today(name: str) -> None:
    assert config_file(f"robots/{name}.urdf").read_text(encoding="utf-8") == urdf(load_robot(name))


@pytest.mark.parametrize("name", ROBOTS)
def test_masses_and_inertias_are_those_of_the_twin(name: str) -> None:
    twin, ours = build_model(load_robot(name), named_floor("flat")), compiled(name)
    for body in range(twin.body(BASE).id, twin.nbody):
        link = ours.body(_link(twin.body(body).name))
        assert link.mass == pytest.approx(twin.body_mass[body], rel=1e-5)
        np.testing.assert_allclose(link.ipos, twin.body_ipos[body], atol=1e-6)
        np.testing.assert_allclose(
            np.sort(link.inertia), np.sort(twin.body_inertia[body]), rtol=1e-3, atol=1e-7
        )
        np.testing.assert_allclose(_tensor(link), _tensor(twin.body(body)), rtol=2e-3, atol=2e-7)


@pytest.mark.parametrize("name", ROBOTS)
def test_every_link_is_where_the_twin_has_it(name: str) -> None:
    robot = load_robot(name)
    twin, ours = build_model(robot, named_floor("flat")), compiled(name)
    there, here = mujoco.MjData(twin), mujoco.MjData(ours)
    rng = np.random.default_rng(1)
    for _ in range(20):
        angles = rng.uniform(robot.position_low, robot.position_high)
        there.qpos[:7] = (0, 0, 0, 1, 0, 0, 0)
        for joint, angle in zip(robot.joint_names, angles, strict=True):
            there.joint(joint).qpos[0] = here.joint(joint).qpos[0] = angle
        mujoco.mj_kinematics(twin, there)
        mujoco.mj_kinematics(ours, here)
        for body in range(twin.body(BASE).id, twin.nbody):
            link = _link(twin.body(body).name)
            np.testing.assert_allclose(here.body(link).xpos, there.xpos[body], atol=1e-5)
            np.testing.assert_allclose(here.body(link).xmat, there.xmat[body], atol=1e-5)
        np.testing.assert_allclose(here.body(IMU_LINK).xpos, there.site("imu").xpos, atol=1e-5)
        for leg in robot.legs.values():
            foot = here.body(f"{leg.foot}_link").xpos
            np.testing.assert_allclose(foot, there.geom(leg.foot).xpos, atol=1e-5)


def test_limits_are_the_robots() -> None:
    robot, ours = load_robot("go2"), compiled("go2")
    for joint in robot.joints:
        np.testing.assert_allclose(ours.joint(joint.name).range, joint.position, atol=1e-6)


def _link(body: str) -> str:
    return BASE_LINK if body == BASE else body


def _tensor(body: object) -> np.ndarray:
    """The inertia about the centre of mass, in the body's axes."""
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, body.iquat)
    turn = turn.reshape(3, 3)
    return turn @ np.diag(body.inertia) @ turn.T
