"""Gains make up for motors of another strength than those that a policy knows."""

from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle, load_own_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import load_training
from sim2real_deploy.training.gains import MOST, gains_for, write_with_gains
from sim2real_deploy.twin.config import Imperfections, Motors
from sim2real_deploy.twin.files import TwinFile, load_imperfections, write_twin_file

ROBOT = load_robot("go2")
WEAK = {joint: 0.7 + 0.01 * i for i, joint in enumerate(ROBOT.joint_names)}


def twin(path: Path, strength: float | dict[str, float]) -> str:
    made_of = Imperfections(motors=Motors(strength=strength))
    write_twin_file(path, TwinFile(robot="go2", about="test", sources={"all": ""}, twin=made_of))
    return str(path)


def test_gains_are_divided_by_strength_joint_by_joint(tmp_path: Path) -> None:
    known = load_imperfections().motors.strengths(ROBOT)
    times = gains_for(ROBOT, "default", twin(tmp_path / "weak.yaml", WEAK))
    assert [times[j] * WEAK[j] for j in ROBOT.joint_names] == pytest.approx(known, abs=1e-4)
    assert set(gains_for(ROBOT, "default", "default").values()) == {1.0}


def test_motors_that_hardly_pull_get_bounded_gains(tmp_path: Path) -> None:
    times = gains_for(ROBOT, "default", twin(tmp_path / "broken.yaml", 0.1))
    assert set(times.values()) == {MOST}


def test_a_policy_gets_other_gains_and_keeps_its_network(tmp_path: Path) -> None:
    policy = load_own_bundle("go2_walk")
    control = load_training("go2_walk").control.model_copy(update={"gain": {"calf_joint": 1.2}})
    write_with_gains(policy, control, "stiffer", tmp_path / "made", {"loop": {"bags": {}}})
    made = load_bundle(tmp_path / "made", ROBOT)  # record, digest and golden steps are checked
    calves = np.array(["calf" in joint for joint in made.contract.joints])
    ratio = np.array(made.contract.kp) / np.array(policy.contract.kp)
    np.testing.assert_allclose(ratio, np.where(calves, 1.2, 1.0))
    np.testing.assert_allclose(np.array(made.contract.kd), ratio * np.array(policy.contract.kd))
    assert made.contract.golden == policy.contract.golden
    assert made.contract.name == "stiffer"
    assert made.contract.provenance["steps"] == policy.contract.provenance["steps"]
    assert "loop" in made.contract.provenance


def test_gains_reach_the_physics_and_a_wrong_joint_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from sim2real_deploy.training.environment import Environment

    config = load_training("go2_walk").model_copy(update={"twin": twin(tmp_path / "w.yaml", WEAK)})
    gains = gains_for(ROBOT, "default", config.twin)
    plain = Environment(load_training("go2_walk"), ROBOT, 1, seed=0).physics
    made_up = config.model_copy(
        update={"control": config.control.model_copy(update={"gain": gains})}
    )
    physics = Environment(made_up, ROBOT, 1, seed=0).physics
    drawn = physics.drawn["kp"][0] * physics.drawn["motor_strength"][0]
    usual = plain.drawn["kp"][0] * plain.drawn["motor_strength"][0]
    np.testing.assert_allclose(  # as stiff as with the motors that the policy knows
        physics.models[0].actuator_gainprm[:, 0] / drawn,
        plain.models[0].actuator_gainprm[:, 0] / usual,
        rtol=1e-3,
    )
    wrong = config.control.model_copy(update={"gain": {"FR_knee": 1.1}})
    with pytest.raises(Refusal, match="FR_knee"):
        Environment(config.model_copy(update={"control": wrong}), ROBOT, 1, seed=0)
