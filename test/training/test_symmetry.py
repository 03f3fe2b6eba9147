"""The left-right mirror: doing it twice changes nothing, and physics agrees with it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Term
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import Symmetry, load_training
from sim2real_deploy.training.environment import Environment
from sim2real_deploy.training.symmetry import joint_mirror, observation_mirror

CONFIG = load_training("go2_walk")
ROBOT = load_robot("go2")
JOINTS = joint_mirror(ROBOT, CONFIG.symmetry)
OBSERVATION = observation_mirror(CONFIG.observation, JOINTS)
values = st.floats(-10, 10, width=32)


@given(arrays(np.float32, len(JOINTS.signs), elements=values))
def test_joints_twice_mirrored_are_the_joints(q: np.ndarray) -> None:
    assert (JOINTS(JOINTS(q)) == q).all()


@given(arrays(np.float32, len(OBSERVATION.signs), elements=values))
def test_observations_twice_mirrored_are_the_observations(seen: np.ndarray) -> None:
    assert (OBSERVATION(OBSERVATION(seen)) == seen).all()


def test_the_default_pose_is_its_own_mirror_image() -> None:
    assert (JOINTS(ROBOT.stand_pose) == ROBOT.stand_pose).all()


def test_a_right_hip_becomes_the_left_hip_turned_the_other_way() -> None:
    q = np.zeros(len(ROBOT.joints), np.float32)
    q[ROBOT.joint_names.index("FR_hip_joint")] = 0.3
    q[ROBOT.joint_names.index("RL_calf_joint")] = -1.1
    mirrored = JOINTS(q)
    assert mirrored[ROBOT.joint_names.index("FL_hip_joint")] == np.float32(-0.3)
    assert mirrored[ROBOT.joint_names.index("RR_calf_joint")] == np.float32(-1.1)


def test_physics_of_the_mirrored_robot_is_the_mirrored_physics() -> None:
    """Two robots, one the other's mirror image, get mirrored actions: they must stay mirrored."""
    width = CONFIG.randomisation.width.model_copy(update={"start": 0.0, "least": 0.0})
    still = CONFIG.model_copy(
        update={"randomisation": CONFIG.randomisation.model_copy(update={"width": width})}
    )
    pair = Environment(still, ROBOT, 2, seed=3)
    physics, joints = pair.physics, len(ROBOT.joints)
    physics.quaternion[:] = [1, 0, 0, 0]
    physics.state[1] = physics.state[0]
    physics.q[1] = JOINTS(physics.q[0].astype(np.float32))
    physics.velocity[1] *= [1, -1, 1]
    physics.turning[1] *= [-1, 1, -1]
    pair.command[1] = pair.command[0] * [1, -1, -1]
    pair.phase[1] = (pair.phase[0] + 0.5) % 1
    pair._age[:] = 0
    pair._next_command[:] = pair._next_push[:] = 1000
    rng = np.random.default_rng(0)
    for _ in range(10):
        action = rng.normal(0, 0.5, joints).astype(np.float32)
        outcome = pair.step(np.stack([action, JOINTS(action)]))
        assert not outcome.fell.any()
        one, other = outcome.observation
        assert np.abs(OBSERVATION(one) - other).max() < 0.05  # the trunk itself is a bit lopsided
        assert outcome.reward[0] == pytest.approx(outcome.reward[1], abs=0.01)


def test_legs_the_robot_does_not_have_are_refused() -> None:
    with pytest.raises(Refusal, match="the robot has"):
        joint_mirror(ROBOT, Symmetry(swap={"left": "right"}, negate=()))


def test_a_term_without_a_known_mirror_is_refused() -> None:
    with pytest.raises(Refusal, match="'height_scan'"):
        observation_mirror((Term(name="height_scan"),), JOINTS)
