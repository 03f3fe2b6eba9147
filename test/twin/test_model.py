"""The MJCF says the same as config/robots, and the floors are where they say they are."""

import mujoco
import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.floors import FLOORS, Floor, named_floor
from sim2real_deploy.twin.model import BASE, build_model

ROBOT = load_robot("go2")


def test_joints_stand_in_sdk_order_with_the_limits_of_the_robot_file() -> None:
    model = build_model(ROBOT, Floor())
    names = [model.joint(i).name for i in range(1, model.njnt)]  # 0 is the free joint
    assert tuple(names) == ROBOT.joint_names
    np.testing.assert_allclose(model.jnt_range[1:, 0], ROBOT.stop_low, atol=1e-6)
    np.testing.assert_allclose(model.jnt_range[1:, 1], ROBOT.position_high, atol=1e-6)
    assert [model.actuator(i).name for i in range(model.nactuator)] == names
    np.testing.assert_allclose(model.actuator_forcerange[:, 1], ROBOT.torque_limit, rtol=1e-6)
    assert model.body_mass.sum() == pytest.approx(15.2, abs=0.1)  # the vendor says "about 15 kg"


def test_left_and_right_are_mirror_images() -> None:
    model = build_model(ROBOT, Floor())
    for right, left in (("FR", "FL"), ("RR", "RL")):
        for part in ("hip", "thigh", "calf"):
            a, b = model.body(f"{right}_{part}"), model.body(f"{left}_{part}")
            np.testing.assert_allclose(a.ipos * [1, -1, 1], b.ipos, atol=1e-9)
            np.testing.assert_allclose(a.mass, b.mass)


def test_stand_pose_has_the_base_height_of_the_robot_file() -> None:
    model = build_model(ROBOT, Floor())
    data = mujoco.MjData(model)
    data.qpos[7:] = ROBOT.stand_pose
    mujoco.mj_kinematics(model, data)
    feet = [data.geom(name).xpos[2] - model.geom(name).size[0] for name in ROBOT.foot_names]
    assert data.body(BASE).xpos[2] - min(feet) == pytest.approx(ROBOT.base_height, abs=0.04)


@pytest.mark.parametrize(("collision", "expected"), [("feet", 5), ("floor", 23), ("full", 23)])
def test_collision_sets(collision: str, expected: int) -> None:
    model = build_model(ROBOT, Floor(), collision=collision)  # type: ignore[arg-type]
    robot_geoms = model.geom_bodyid > 0
    assert np.count_nonzero(model.geom_conaffinity[robot_geoms]) == expected
    assert bool(model.geom_contype[robot_geoms].any()) == (collision == "full")


def test_position_actuators_hold_the_stand_pose() -> None:
    model = build_model(ROBOT, Floor(), collision="floor", actuators="position", kp=60.0, kd=3.0)
    data = mujoco.MjData(model)
    data.qpos[2] = 0.33
    data.qpos[7:] = data.ctrl[:] = ROBOT.stand_pose
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert data.qpos[2] == pytest.approx(ROBOT.base_height, abs=0.03)


@pytest.mark.parametrize("name", FLOORS)
def test_height_is_where_a_ray_from_above_hits(name: str) -> None:
    floor = FLOORS[name]
    model = build_model(ROBOT, floor)
    data = mujoco.MjData(model)
    data.qpos[:2] = -30.0  # the robot out of the way
    mujoco.mj_forward(model, data)
    for x, y in np.random.default_rng(1).uniform(-3, 3, (40, 2)):
        hit = mujoco.mj_ray(
            model,
            data,
            np.array([x, y, 5.0]),
            np.array([0, 0, -1.0]),
            None,
            1,
            -1,
            np.zeros(1, np.int32),
            None,
        )
        assert 5.0 - hit == pytest.approx(floor.height(x, y), abs=0.004)


def test_rough_floor_follows_its_seed_and_is_flat_at_the_start() -> None:
    floor, same, other = (Floor(kind="rough", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(floor.grid, same.grid)
    assert not np.array_equal(floor.grid, other.grid)
    assert floor.height(0.3, -0.3) == 0.0
    assert np.ptp(floor.grid) == pytest.approx(floor.roughness, rel=0.35)


def test_unknown_floor_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(Refusal, match=r"'lava'.*flat, rough.*gaps, slippery"):
        named_floor("lava")
