"""unitree_rl_lab's deploy.yaml: every value ends on the joint and in the place it was meant for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sim2real_deploy.errors import Refusal
from support.import_samples import (
    GO2,
    ISAAC,
    JOINTS,
    bring_in,
    bring_in_with_notes,
    deploy_content,
    pose,
    write_deploy,
)
from support.policy_samples import make_state, network


def test_gains_move_from_motor_order_to_policy_order(tmp_path: Path) -> None:
    contract = bring_in(write_deploy(tmp_path / "in", deploy_content()), tmp_path / "out").contract
    motors = [GO2.joint_names.index(name) for name in contract.joints]
    assert list(contract.joints) == ISAAC
    assert contract.kp == tuple(20.0 + motor for motor in motors)
    assert contract.kd == tuple(0.5 + 0.01 * motor for motor in motors)
    assert contract.default_position == tuple(pose(ISAAC))
    assert contract.rate_hz == 50.0
    assert contract.command_ranges.vy == (-0.4, 0.4)


def test_it_runs_as_it_was_imported(tmp_path: Path) -> None:
    """The network is linear, so the targets can be worked out by hand."""
    weights = np.random.default_rng(5).standard_normal((9 + 3 * JOINTS, JOINTS)) * 0.1
    model = network(9 + 3 * JOINTS, JOINTS, weights=weights)
    source = write_deploy(tmp_path / "in", deploy_content(), model)
    policy = bring_in(source, tmp_path / "out").open()
    q = GO2.stand_pose + np.linspace(-0.1, 0.1, JOINTS, dtype=np.float32)
    dq = np.linspace(-1, 1, JOINTS, dtype=np.float32)
    gyroscope = np.array([0.1, -0.2, 0.3], np.float32)
    command = np.array([0.5, 0.1, -0.4], np.float32)
    policy.observe(make_state(GO2, q=q, dq=dq, gyroscope=gyroscope), command)
    targets = policy.infer()
    order = [GO2.joint_names.index(name) for name in ISAAC]
    seen = np.concatenate(
        [
            0.2 * gyroscope,
            [0, 0, -1],
            command,
            q[order] - pose(ISAAC),
            0.05 * dq[order],
            np.zeros(JOINTS),
        ]
    )
    expected = np.array(pose(ISAAC)) + 0.25 * (seen @ weights)
    np.testing.assert_allclose(targets[order], expected, atol=1e-5)


def test_the_clip_is_one_of_the_target(tmp_path: Path) -> None:
    content = deploy_content()
    content["actions"]["JointPositionAction"]["clip"] = [[-1.0, 2.0]] * JOINTS
    action = bring_in(write_deploy(tmp_path / "in", content), tmp_path / "out").contract.action
    assert action.clip is not None
    assert action.observed == "raw"
    for (low, high), scale, offset in zip(action.clip, action.scale, action.offset, strict=True):
        assert offset + scale * low == pytest.approx(-1.0)
        assert offset + scale * high == pytest.approx(2.0)


def test_history_groups_and_flags(tmp_path: Path) -> None:
    terms = deploy_content()["observations"]
    for term in terms.values():
        term["history_length"] = 3
    content = deploy_content(
        observations={"obs": {"scale_first": True, "use_gym_history": True, **terms}}
    )
    model = network(3 * (9 + 3 * JOINTS), JOINTS)
    (group,) = bring_in(
        write_deploy(tmp_path / "in", content, model), tmp_path / "out"
    ).contract.observations
    assert (group.input, group.layout, group.newest, group.start) == (
        "obs",
        "by_frame",
        "last",
        "repeat",
    )
    assert not group.clip_first
    assert {term.history for term in group.terms} == {3}


def test_gait_phase_keeps_its_period(tmp_path: Path) -> None:
    terms = deploy_content()["observations"]
    terms["gait_phase"] = {"params": {"period": 0.6}, "clip": None, "scale": [1.0, 1.0]}
    model = network(11 + 3 * JOINTS, JOINTS)
    source = write_deploy(tmp_path / "in", deploy_content(observations=terms), model)
    (group,) = bring_in(source, tmp_path / "out").contract.observations
    assert group.terms[-1].params == {"period": 0.6}


def test_the_slice_tag_is_read_without_running_anything(tmp_path: Path) -> None:
    source = write_deploy(tmp_path / "in", deploy_content())
    file = source / "params" / "deploy.yaml"
    everything = "!!python/object/apply:builtins.slice [null, null, null]"
    file.write_text(file.read_text().replace("joint_ids: null", f"joint_ids: {everything}"))
    assert bring_in(source, tmp_path / "out").contract.rate_hz == 50.0


def test_another_tag_is_refused_and_not_run(tmp_path: Path) -> None:
    source = write_deploy(tmp_path / "in", deploy_content())
    file = source / "params" / "deploy.yaml"
    marker = tmp_path / "ran"
    code = f"!!python/object/apply:os.system ['touch {marker}']"
    file.write_text(file.read_text().replace("joint_ids: null", f"joint_ids: {code}"))
    with pytest.raises(Refusal, match=r"object/apply:os\.system"):
        bring_in(source, tmp_path / "out")
    assert not marker.exists()


def test_a_bomb_of_aliases_is_refused_quickly(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 20)]
    (tmp_path / "deploy.yaml").write_text("\n".join(lines))
    with pytest.raises(Refusal, match="aliases expand"):
        bring_in(tmp_path, tmp_path / "out")


def test_an_alias_into_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deploy.yaml").write_text("a: &a [*a]\n")
    with pytest.raises(Refusal, match="refers to itself"):
        bring_in(tmp_path, tmp_path / "out")


def change(*path: str, to: Any) -> dict[str, Any]:
    content = yaml.safe_load(yaml.safe_dump(deploy_content(), sort_keys=False))
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return content


ACTION = ("actions", "JointPositionAction")
WRONG = {
    "joint_ids_map": (change("joint_ids_map", to=[0] * JOINTS), "joint_ids_map"),
    "joint_ids_map with words": (change("joint_ids_map", to=["x"]), r"joint_ids_map\.0"),
    "stiffness too short": (change("stiffness", to=[20.0]), "stiffness"),
    "stiffness of a wall": (change("stiffness", to=[5e4] * JOINTS), r"kp\.0"),
    "step_dt zero": (change("step_dt", to=0), "step_dt"),
    "pose outside": (change("default_joint_pos", to=[9.0] * JOINTS), "default_position"),
    "scale too short": (change(*ACTION, "scale", to=[0.25]), "scale"),
    "a slice of joints": (change(*ACTION, "joint_ids", to=[0, 1]), "joint_ids"),
    "another action": (change("actions", "JointVelocityAction", to={}), "JointVelocityAction"),
    "a term nobody knows": (
        change("observations", "smell", to={"params": {}, "scale": [1.0] * 3}),
        "smell.*policy new",
    ),
    "a motion to follow": (
        change("observations", "motion_command", to={"params": {}, "scale": [1.0] * 3}),
        "follows a recorded motion.*--set motion=FILE",
    ),
    "a scale too long": (
        change("observations", "base_ang_vel", "scale", to=[0.2] * 4),
        r"observations\.0\.terms\.0\.scale",
    ),
    "an observation too many": (
        change("observations", "gait_phase", to={"params": {"period": 0.6}, "scale": [1.0] * 2}),
        r"observations\.0",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_by_its_key(what: str, tmp_path: Path) -> None:
    content, named = WRONG[what]
    with pytest.raises(Refusal, match=named):
        bring_in(write_deploy(tmp_path / "in", content), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(Refusal, match="not empty"):
        bring_in(write_deploy(tmp_path / "in", deploy_content()), tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_gains_in_the_policys_order_are_known_by_left_and_right(tmp_path: Path) -> None:
    """A hand-made file: as motors, a hip on one side would have a calf's gain."""
    gains = {"hip": 20.0, "thigh": 30.0, "calf": 40.0}
    by_policy = [gains[name.split("_")[1]] for name in ISAAC]
    content = deploy_content(stiffness=by_policy, damping=[1.0] * JOINTS)
    imported = bring_in_with_notes(write_deploy(tmp_path / "run", content), tmp_path / "out")
    assert list(imported.bundle.contract.kp) == by_policy
    assert imported.assumed == (
        "stiffness in the policy's order: as motors, left and right would differ",
    )
    by_motor = [gains[name.split("_")[1]] for name in GO2.joint_names]
    content = deploy_content(stiffness=by_motor, damping=[1.0] * JOINTS)
    again = bring_in_with_notes(write_deploy(tmp_path / "usual", content), tmp_path / "out2")
    assert list(again.bundle.contract.kp) == by_policy
    assert not again.assumed
