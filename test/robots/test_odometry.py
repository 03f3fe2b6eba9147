"""Leg odometry: the kinematics against the model, the velocity against the twin's truth."""

import mujoco
import numpy as np
import pytest

from sim2real_deploy.robots import load_robot
from sim2real_deploy.robots.geometry import to_world
from sim2real_deploy.robots.legs import cross, foot_force
from sim2real_deploy.robots.odometry import LegOdometry, legs_of
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import BASE, build_model
from support.policy_samples import make_state

SPEC = load_robot("go2")


def random_poses(count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(
        SPEC.position_low, SPEC.position_high, (count, SPEC.joint_count)
    )


def test_feet_are_where_the_model_has_them():
    model = build_model(SPEC, Floor())
    data = mujoco.MjData(model)
    legs = legs_of(SPEC)
    for q in random_poses(20):
        data.qpos[3:7] = 1, 0, 0, 0
        data.qpos[7:] = q
        mujoco.mj_forward(model, data)
        base = data.body(BASE).xpos
        expected = [data.geom(leg.foot).xpos - base for leg in SPEC.legs.values()]
        np.testing.assert_allclose([leg.pose(q).foot for leg in legs], expected, atol=1e-6)


def test_the_jacobian_is_the_slope_of_the_kinematics():
    for q in random_poses(10):
        for leg in legs_of(SPEC):
            for joint, column in zip(leg.joints, leg.pose(q).columns, strict=True):
                nudge = np.zeros_like(q)
                nudge[joint] = 1e-6
                slope = np.subtract(leg.pose(q + nudge).foot, leg.pose(q - nudge).foot) / 2e-6
                np.testing.assert_allclose(column, slope, atol=1e-6)


def test_a_load_on_the_feet_is_found_in_the_torques():
    torque = np.zeros(SPEC.joint_count, np.float32)
    for leg in legs_of(SPEC):
        columns = np.array(leg.pose(SPEC.stand_pose).columns)
        torque[list(leg.joints)] = -columns @ np.array([0.0, 0.0, 37.0])
    odometry = LegOdometry(SPEC)
    odometry.update(make_state(SPEC, torque=torque))
    np.testing.assert_allclose(odometry.loads, 37.0, rtol=1e-3)


def in_the_air(seconds: float, forward: float) -> LegOdometry:
    odometry = LegOdometry(SPEC)
    push = np.array([forward, 0, 9.81], np.float32)
    for k in range(round(100 * seconds) + 1):
        odometry.update(make_state(SPEC, received_ns=k * 10_000_000, accelerometer=push))
    return odometry


def test_in_flight_it_follows_the_accelerometer():
    odometry = in_the_air(0.4, 2.0)
    np.testing.assert_allclose(odometry.velocity, [0.8, 0, 0], atol=1e-3)
    np.testing.assert_allclose(odometry.position, [0.16, 0, 0], atol=0.01)


def test_a_robot_that_lies_or_hangs_has_no_velocity():
    """Its accelerometer is a little off; for a minute that would be 6 m/s."""
    odometry = in_the_air(60.0, 0.1)
    assert odometry.velocity == (0.0, 0.0, 0.0)
    assert abs(odometry.position[0]) < 0.02


@pytest.mark.parametrize(("loaded_s", "low", "high"), [(0.04, -0.02, 0.02), (0.4, -0.11, -0.09)])
def test_a_foot_that_has_just_landed_says_little_of_the_height(loaded_s, low, high):
    """It comes back up out of the ground at 0.1 m/s: the trunk does not sink by as much."""
    legs, torque = legs_of(SPEC), np.zeros(SPEC.joint_count, np.float32)
    dq = np.zeros(SPEC.joint_count, np.float32)
    for leg in legs:
        columns = np.array(leg.pose(SPEC.stand_pose).columns)
        torque[list(leg.joints)] = -columns @ np.array([0.0, 0.0, 60.0])
        dq[list(leg.joints)] = np.linalg.solve(columns.T, [0.0, 0.0, 0.1])
    odometry = LegOdometry(SPEC)
    for k in range(round(loaded_s / 0.002) + 1):
        state = make_state(SPEC, received_ns=k * 2_000_000, q=SPEC.stand_pose, dq=dq, torque=torque)
        odometry.update(state)
    assert low < odometry.velocity[2] < high
    assert abs(odometry.velocity[0]) < 0.02


def test_a_robot_without_lengths_has_no_leg_odometry():
    legs = {name: leg.model_copy(update={"geometry": None}) for name, leg in SPEC.legs.items()}
    assert LegOdometry.possible(SPEC)
    assert not LegOdometry.possible(SPEC.model_copy(update={"legs": legs}))


@pytest.mark.parametrize("seed", range(5))
def test_the_force_at_a_foot_is_the_one_that_its_torques_make(seed):
    random = np.random.default_rng(seed)
    jacobian, force = random.standard_normal((3, 3)), random.standard_normal(3)
    found = foot_force([tuple(row) for row in jacobian], jacobian @ force)
    regular = jacobian.T @ jacobian + 1e-6 * np.eye(3)
    np.testing.assert_allclose(found, np.linalg.solve(regular, jacobian.T @ jacobian @ force))


@pytest.mark.parametrize("seed", range(5))
def test_cross_and_rotate_are_what_they_say(seed):
    random = np.random.default_rng(seed)
    a, b = random.standard_normal((2, 3))
    np.testing.assert_allclose(cross(a, b), np.cross(a, b))
    quaternion = random.standard_normal(4)
    quaternion /= np.linalg.norm(quaternion)
    expected = np.zeros(3)
    mujoco.mju_rotVecQuat(expected, a, quaternion)
    np.testing.assert_allclose(to_world(quaternion, tuple(a)), expected, atol=1e-9)
