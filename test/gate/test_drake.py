"""Drake moves the same robot as MuJoCo does, and what differs is the engine alone."""

import sys
from typing import Any

import mujoco
import numpy as np
import pytest

pytest.importorskip("pydrake", reason="the second engine is not installed")

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drake_model import build
from sim2real_deploy.gate.drake_physics import DrakePhysics
from sim2real_deploy.gate.drive import Drive, fallen, heading_velocity
from sim2real_deploy.gate.engines import FIRST, SECOND, open_robot
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.disturbances import Push, Slip
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import build_model
from sim2real_deploy.twin.physics import MujocoPhysics
from sim2real_deploy.twin.robot import TwinRobot
from support.twin_support import PERIOD, ROBOT, command, decode, stand

GRAVITY = 9.81
ENGINES = (MujocoPhysics, DrakePhysics)


def drake(floor: Floor | None = None, **imperfections: Any) -> TwinRobot:
    return TwinRobot(ROBOT, floor, Imperfections(**imperfections), physics=DrakePhysics)


def put(robot: TwinRobot, x: float = 0.0, z: float = np.nan) -> None:
    """Standing, along the slope where there is one; in the air where z is given."""
    half = -robot.floor.slope / 2 if robot.floor.kind == "slope" else 0.0
    base = np.array([x, 0.0, z, np.cos(half), 0.0, np.sin(half), 0.0])
    robot.place(base, np.zeros(6), ROBOT.stand_pose, np.zeros(ROBOT.joint_count))


def live(robot: TwinRobot, seconds: float, sample: bytes | None) -> None:
    for _ in range(round(seconds / PERIOD)):
        robot.advance(sample)


@pytest.mark.parametrize("name", ["go2", "g1"])
def test_the_mass_matrix_and_gravity_are_those_of_the_first_engine(name: str) -> None:
    """Masses, inertias, lengths, axes, frames and armatures: whatever is wrong shows here."""
    model = build_model(load_robot(name), Floor())
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    told = build(model)
    context = told.plant.CreateDefaultContext()
    for _ in range(3):
        data.qpos[:3] = rng.normal(size=3)
        data.qpos[3:7] = rng.normal(size=4)
        data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
        data.qpos[7:] = rng.uniform(*model.jnt_range[1:].T)
        mujoco.mj_forward(model, data)
        told.plant.SetPositions(context, data.qpos[told.positions])
        turn = np.eye(model.nv)  # Drake's base turns about the world's axes
        turn[3:6, 3:6] = data.body("base").xmat.reshape(3, 3).T
        inertia, order = np.zeros((model.nv, model.nv)), np.argsort(told.velocities)
        for column, unit in zip(inertia, np.eye(model.nv), strict=True):
            mujoco.mj_mulM(model, data, column, unit)
        seen = told.plant.CalcMassMatrix(context)[np.ix_(order, order)]
        np.testing.assert_allclose(turn @ seen @ turn.T, inertia, atol=1e-6)
        weight = told.plant.CalcGravityGeneralizedForces(context)[order]
        np.testing.assert_allclose(turn @ weight, -data.qfrc_bias, atol=1e-4)


def test_it_stands_as_high_and_each_foot_carries_as_much() -> None:
    seen = []
    for physics in ENGINES:
        robot = TwinRobot(ROBOT, physics=physics)
        put(robot)
        live(robot, 0.6, stand())
        seen.append(robot.truth)
        weight = robot.mass * GRAVITY
        assert robot.truth.foot_force.sum() == pytest.approx(weight, rel=0.02)
        accelerometer = decode(robot.advance(stand())).accelerometer
        np.testing.assert_allclose(accelerometer, (0, 0, GRAVITY), atol=0.7)
    first, second = seen
    assert second.position[2] == pytest.approx(first.position[2], abs=0.008)
    np.testing.assert_allclose(second.foot_force, first.foot_force, rtol=0.08)


@pytest.mark.parametrize("preset", ["ideal", "default"])
def test_a_joint_answers_a_step_alike(preset: str) -> None:
    """In free fall: the motors with their lag, friction and limits against the leg's inertia."""
    pose = ROBOT.stand_pose + np.tile((0.1, 0.3, -0.4), len(ROBOT.legs))
    paths = []
    for physics in ENGINES:
        robot = TwinRobot(ROBOT, imperfections=load_imperfections(preset), physics=physics)
        put(robot, z=5.0)
        path = []
        for _ in range(100):
            robot.advance(command(pose, 40.0, 1.0))
            path.append(robot.truth.joint_position)
        paths.append(np.array(path))
    assert np.abs(paths[0][-1] - paths[0][0]).min() > 0.05  # every joint moved
    np.testing.assert_allclose(paths[1], paths[0], atol=0.01)


def test_the_same_seed_gives_the_same_bytes() -> None:
    robot = drake(**load_imperfections().model_dump())

    def run(seed: int) -> list[bytes | None]:
        robot.reset(seed)
        return [robot.advance(stand()) for _ in range(80)]

    first = run(1)
    assert run(2) != first
    assert run(1) == first


@pytest.mark.parametrize("kind", ["flat", "slope", "stairs", "rough", "gaps", "stairs_down"])
def test_feet_stand_on_the_floor_that_there_is(kind: Any) -> None:
    floor = Floor(kind=kind, size=4.0, steps=2, run=0.6)
    robot = drake(floor)
    put(robot, x=0.8 + 3.5 * floor.run)  # of stairs, the top
    live(robot, 0.3, stand())
    mujoco.mj_kinematics(robot.model, robot.data)
    for foot in ROBOT.foot_names:
        x, y, z = robot.data.geom(foot).xpos
        radius = robot.model.geom(foot).size[0] / np.cos(floor.slope if kind == "slope" else 0)
        assert z - radius == pytest.approx(float(floor.height(x, y)), abs=0.006), foot
    assert robot.truth.foot_force.min() > 5.0


@pytest.mark.parametrize("friction", [0.1, 0.2])
def test_it_slides_down_a_slope_as_coulomb_says(friction: float) -> None:
    slope = 0.3
    robot = drake(Floor(kind="slope", slope=slope, friction=friction))
    live(robot, 0.4, command(ROBOT.sit_pose, ROBOT.kp, ROBOT.kd))
    expected = GRAVITY * (np.sin(slope) - friction * np.cos(slope)) * 0.4
    assert np.linalg.norm(robot.truth.velocity) == pytest.approx(expected, rel=0.1)


def test_a_slip_is_felt_while_it_lasts() -> None:
    robot = drake(Floor(kind="slope", slope=0.2))
    hold = command(ROBOT.sit_pose, ROBOT.kp, ROBOT.kd)
    speeds = []
    for _ in range(2):
        live(robot, 0.3, hold)
        speeds.append(float(np.linalg.norm(robot.truth.velocity)))
        robot.slip(Slip(friction=0.05, duration=10.0))
    assert speeds[0] < 0.05
    assert speeds[1] > 0.3


def test_a_push_gives_its_momentum_and_a_load_its_weight() -> None:
    robot = open_robot(SECOND, ROBOT, Floor(), Imperfections(), payload=5.0)
    assert isinstance(robot, TwinRobot)
    assert robot.mass == pytest.approx(TwinRobot(ROBOT).mass + 5.0)
    put(robot, z=5.0)
    robot.push(Push(force=60.0, direction=(0.0, 1.0, 0.0), duration=0.1))
    live(robot, 0.2, stand())
    mujoco.mj_forward(robot.model, robot.data)
    mujoco.mj_subtreeVel(robot.model, robot.data)
    velocity = robot.data.subtree_linvel[robot.model.body("base").id]
    np.testing.assert_allclose(robot.mass * velocity[:2], (0.0, 6.0), atol=0.05)
    assert velocity[2] == pytest.approx(-GRAVITY * 0.2, rel=0.01)


def test_the_hoist_holds_a_robot_that_does_not_stand() -> None:
    robot = TwinRobot(load_robot("g1"), physics=DrakePhysics)
    for _ in range(200):
        robot.advance(None)
    assert robot.hangs
    assert robot.truth.position[2] > 0.6


def test_the_policy_gets_up_and_walks_in_it_through_the_same_control() -> None:
    bundle = load_bundle("go2_walk", ROBOT)
    robot = open_robot(SECOND, ROBOT, Floor(), load_imperfections())
    robot.reset(0)
    assert robot.truth.position[2] < 0.5 * ROBOT.base_height
    drive = Drive(bundle, robot)
    drive.stand()
    assert robot.truth.position[2] > 0.9 * ROBOT.base_height
    drive.walk()
    speeds = []
    for _ in range(round(5.0 / PERIOD)):
        drive.walk_at((0.5, 0.0, 0.0))
        drive.tick()
        speeds.append(heading_velocity(robot.truth)[0])
    assert not fallen(robot, robot.truth)
    assert robot.truth.contacts == ()
    assert np.mean(speeds[len(speeds) // 3 :]) == pytest.approx(0.5, abs=0.15)


def test_an_engine_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refusal, match=r"engine 'bullet'.*there are: mujoco, drake"):
        open_robot("bullet", ROBOT, Floor(), Imperfections())
    monkeypatch.setitem(sys.modules, "pydrake", None)
    monkeypatch.delitem(sys.modules, "sim2real_deploy.gate.drake_physics")
    monkeypatch.delitem(sys.modules, "sim2real_deploy.gate.drake_model")
    for module in [name for name in sys.modules if name.startswith("pydrake.")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(Refusal, match=r"pip install .*drake"):
        open_robot(SECOND, ROBOT, Floor(), Imperfections())
    assert open_robot(FIRST, ROBOT, Floor(), Imperfections()).mass > 0
