"""mjlab metadata, rl_sar, legged_gym and Isaac Lab: read by name, asked for what they lack."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import helper
from onnx.external_data_helper import convert_model_to_external_data

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import load_robot
from support.import_samples import (
    GO2,
    ISAAC,
    JOINTS,
    RANGES,
    bring_in,
    bring_in_with_notes,
    deploy_content,
    pose,
    write_deploy,
)
from support.policy_samples import network

GYM = list(GO2.joint_orders["gym"])
SIZE = 9 + 3 * JOINTS
ASKED = {"rate_hz": 50, "scales": {"joint_vel": 0.05}, "command_ranges": RANGES}


def csv(values: list[Any]) -> str:
    return ",".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in values)


def with_metadata(**changes: str) -> onnx.ModelProto:
    model = onnx.load_model_from_string(network(SIZE, JOINTS))
    metadata = {
        "run_path": "2026-01-01",
        "joint_names": csv(GYM),
        "joint_stiffness": csv([20.0 + i for i in range(JOINTS)]),
        "joint_damping": csv([1.0] * JOINTS),
        "default_joint_pos": csv(pose(GYM)),
        "command_names": "twist",
        "observation_names": "base_ang_vel,projected_gravity,command,joint_pos,joint_vel,actions",
        "action_scale": "0.25",
    }
    helper.set_model_props(model, {**metadata, **changes})
    return model


def test_mjlab_metadata_with_what_it_lacks_given(tmp_path: Path) -> None:
    onnx.save(with_metadata(), tmp_path / "policy.onnx")
    contract = bring_in(tmp_path / "policy.onnx", tmp_path / "out", ASKED).contract
    assert list(contract.joints) == GYM
    assert contract.kp == tuple(20.0 + i for i in range(JOINTS))
    (group,) = contract.observations
    assert [term.name for term in group.terms][3] == "joint_pos_rel"
    assert [term.scale for term in group.terms] == [1.0, 1.0, 1.0, 1.0, 0.05, 1.0]


def test_what_mjlab_leaves_out_is_taken_from_its_tasks_and_said(tmp_path: Path) -> None:
    onnx.save(with_metadata(), tmp_path / "policy.onnx")
    imported = bring_in_with_notes(tmp_path, tmp_path / "out")
    assert imported.bundle.contract.rate_hz == 50.0
    assert len(imported.assumed) == 3
    for key in ("rate_hz", "scales", "command_ranges"):
        assert any(f"--set {key}" in line for line in imported.assumed), key
    assert "50 Hz" in imported.bundle.contract.provenance["assumed"]


def test_the_clock_of_unitree_rl_mjlab_rests_with_the_command(tmp_path: Path) -> None:
    names = "base_ang_vel,projected_gravity,command,phase,joint_pos,joint_vel,actions"
    model = with_metadata(observation_names=names)
    model.graph.CopyFrom(onnx.load_model_from_string(network(SIZE + 2, JOINTS)).graph)
    onnx.save(model, tmp_path / "policy.onnx")
    terms = bring_in(tmp_path, tmp_path / "out").contract.observations[0].terms
    assert terms[3].params == {"period": 0.6, "zero_below": 0.1}


def test_an_answer_nobody_asked_for_is_refused(tmp_path: Path) -> None:
    onnx.save(with_metadata(), tmp_path / "policy.onnx")
    with pytest.raises(Refusal, match="kp"):
        bring_in(tmp_path, tmp_path / "out", {**ASKED, "kp": 5})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"command_names": "motion"}, "follows a recorded motion"),
        ({"joint_stiffness": "20,x"}, "joint_stiffness"),
        ({"joint_names": ""}, "joint_names"),
        ({"observation_names": "smell,joint_pos"}, "observation_names"),
    ],
)
def test_metadata_that_cannot_be_run_is_refused(
    changes: dict[str, str], named: str, tmp_path: Path
) -> None:
    onnx.save(with_metadata(**changes), tmp_path / "policy.onnx")
    with pytest.raises(Refusal, match=named):
        bring_in(tmp_path, tmp_path / "out", ASKED)


def test_weights_beside_the_file_come_along(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    model = with_metadata()
    convert_model_to_external_data(model, location="policy.onnx.data", size_threshold=0)
    onnx.save(model, source / "policy.onnx")
    bundle = bring_in(source, tmp_path / "out", ASKED)
    (source / "policy.onnx.data").unlink()
    assert np.isfinite(bundle.open().infer()).all()


@pytest.mark.parametrize("place", ["/etc/passwd", "../policy.onnx.data", ""])
def test_weights_from_anywhere_else_are_refused(place: str, tmp_path: Path) -> None:
    write_deploy(tmp_path, deploy_content())
    file = tmp_path / "exported" / "policy.onnx"
    model = onnx.load(file)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", place
    file.write_bytes(model.SerializeToString())
    with pytest.raises(Refusal, match=r"policy\.onnx"):
        bring_in(tmp_path, tmp_path / "out")


def both(changes: dict[str, Any]) -> dict[str, Any]:
    """A deploy.yaml that agrees with the metadata, but for the changes."""
    motors = [GO2.joint_names.index(name) for name in GYM]
    content = deploy_content(
        joint_ids_map=motors,
        default_joint_pos=pose(GYM),
        stiffness=[20.0 + motors.index(motor) for motor in range(JOINTS)],
        damping=[1.0] * JOINTS,
    )
    content["actions"]["JointPositionAction"]["offset"] = pose(GYM)
    return {**content, **changes}


def test_a_description_that_agrees_with_the_network_passes(tmp_path: Path) -> None:
    model = with_metadata().SerializeToString()
    bring_in(write_deploy(tmp_path / "in", both({}), model), tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "field", "named"),
    [
        ({"stiffness": [35.0] * JOINTS}, "kp", "kp .* differs: FL_hip_joint 35 and 20"),
        ({"damping": [1.2] * JOINTS}, "kd", "kd .* differs: FL_hip_joint 1.2 and 1 and 11 more"),
        (
            {"default_joint_pos": [value + 0.05 for value in pose(GYM)]},
            "default_position",
            "default_position .* differs: FL_hip_joint",
        ),
    ],
)
def test_a_hand_edited_description_is_caught_by_the_metadata(
    changes: dict[str, Any], field: str, named: str, tmp_path: Path
) -> None:
    model = with_metadata().SerializeToString()
    right = bring_in(write_deploy(tmp_path / "right", both({}), model), tmp_path / "out")
    source = write_deploy(tmp_path / "in", both(changes), model)
    taken = bring_in_with_notes(source, tmp_path / "edited")
    assert any(re.search(named, line) for line in taken.assumed)
    found, wanted = getattr(taken.bundle.contract, field), getattr(right.contract, field)
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    believed = bring_in(source, tmp_path / "file", {"trust": "file"}).contract
    assert not np.allclose(getattr(believed, field), wanted, atol=1e-3)


def test_joints_in_another_order_than_the_networks_are_refused(tmp_path: Path) -> None:
    content = both({"joint_ids_map": list(range(JOINTS))})
    source = write_deploy(tmp_path / "in", content, with_metadata().SerializeToString())
    with pytest.raises(Refusal, match="joints"):
        bring_in(source, tmp_path / "out")


def rl_sar(folder: Path, **changes: Any) -> Path:
    mapping = [list(GO2.joint_names).index(name) for name in GYM]
    base = {"dt": 0.005, "decimation": 4, "joint_names": list(GO2.joint_names)}
    config = {
        "model_name": "policy.onnx",
        "observations": ["commands", "ang_vel", "gravity_vec", "dof_pos", "dof_vel", "actions"],
        "observations_history": [0, 1],
        "observations_history_priority": "time",
        "clip_obs": 100.0,
        "clip_actions_lower": [-10.0] * JOINTS,
        "clip_actions_upper": [10.0] * JOINTS,
        "rl_kp": [20.0 + i for i in range(JOINTS)],
        "rl_kd": [0.5] * JOINTS,
        "action_scale": [0.25] * JOINTS,
        "wheel_indices": [],
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "commands_scale": [2.0, 2.0, 0.25],
        "default_dof_pos": pose(GYM),
        "joint_mapping": mapping,
        **changes,
    }
    (folder / "himloco").mkdir(parents=True)
    (folder / "base.yaml").write_text(yaml.safe_dump({"go2": base}))
    (folder / "himloco" / "config.yaml").write_text(yaml.safe_dump({"go2/himloco": config}))
    (folder / "himloco" / "policy.onnx").write_bytes(network(2 * SIZE, JOINTS))
    return folder / "himloco"


def test_rl_sar(tmp_path: Path) -> None:
    contract = bring_in(rl_sar(tmp_path / "in"), tmp_path / "out").contract
    assert list(contract.joints) == GYM
    assert contract.rate_hz == 50.0
    assert contract.action.clip == ((-10.0, 10.0),) * JOINTS
    assert contract.action.observed == "clipped"
    (group,) = contract.observations
    assert (group.layout, group.newest, group.start) == ("by_frame", "first", "zeros")
    assert not group.clip_first
    assert group.terms[0].scale == (2.0, 2.0, 0.25)
    assert contract.command_ranges.vx == (-1.0, 1.0)  # its sticks


def test_rl_sar_history_oldest_first(tmp_path: Path) -> None:
    source = rl_sar(tmp_path / "in", observations_history=[1, 0])
    assert bring_in(source, tmp_path / "out").contract.observations[0].newest == "last"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"wheel_indices": [3]}, "is no wheel"),
        ({"wheel_indices": [33]}, "wheel_indices"),
        ({"observations_history": [0, 2]}, "observations_history"),
        ({"joint_mapping": [0] * JOINTS}, "joint_mapping"),
        ({"observations": ["smell"]}, "observations"),
        ({"rl_kp": [20.0]}, "rl_kp"),
    ],
)
def test_rl_sar_that_cannot_be_run_is_refused(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=named):
        bring_in(rl_sar(tmp_path / "in", **changes), tmp_path / "out")


def legged_gym(folder: Path, **changes: Any) -> Path:
    """Legs of the G1 moved, the rest held: as unitree_rl_gym's deploy_real/configs/g1.yaml."""
    content = {
        "control_dt": 0.02,
        "imu_type": "pelvis",
        "policy_path": "{LEGGED_GYM_ROOT_DIR}/deploy/pre_train/g1/policy.onnx",
        "leg_joint2motor_idx": list(range(12)),
        "kps": [100.0] * 12,
        "kds": [2.0] * 12,
        "default_angles": [-0.1, 0.0, 0.0, 0.3, -0.2, 0.0] * 2,
        "arm_waist_joint2motor_idx": list(range(12, 29)),
        "arm_waist_kps": [50.0] * 17,
        "arm_waist_kds": [2.0] * 17,
        "arm_waist_target": [0.0] * 17,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "action_scale": 0.25,
        "cmd_scale": [2.0, 2.0, 0.25],
        "num_actions": 12,
        "num_obs": 47,
        "max_cmd": [0.8, 0.5, 1.57],
        **changes,
    }
    folder.mkdir(parents=True)
    (folder / "g1.yaml").write_text(yaml.safe_dump(content))
    (folder / "policy.onnx").write_bytes(network(47, 12))
    return folder


def test_legged_gym_moves_the_legs_and_holds_the_rest(tmp_path: Path) -> None:
    bundle = bring_in(legged_gym(tmp_path / "in"), tmp_path / "out")
    contract, g1 = bundle.contract, load_robot("g1")
    assert contract.robot == "g1"
    assert contract.joints == g1.joint_names[:12]
    assert tuple(held.joint for held in contract.held) == g1.joint_names[12:]
    assert contract.command_ranges.wz == (-1.57, 1.57)
    assert contract.observations[0].terms[-1].params == {"period": 0.8}
    policy = bundle.open()
    assert policy.kp.tolist() == [100.0] * 12 + [50.0] * 17
    assert policy.infer()[12:].tolist() == [0.0] * 17


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_obs": 53}, "--set terms"),
        ({"imu_type": "torso"}, "imu_type"),
        ({"arm_waist_joint2motor_idx": list(range(12, 28))}, "arm_waist_target"),
        ({"leg_joint2motor_idx": list(range(1, 13))}, "joints, held"),
    ],
)
def test_legged_gym_that_is_wrong_is_refused(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=named):
        bring_in(legged_gym(tmp_path / "in", **changes), tmp_path / "out")


def isaac_lab(folder: Path, **articulation: Any) -> Path:
    names = ("base_ang_vel", "projected_gravity", "generated_commands")
    joint_terms = ("joint_pos_rel", "joint_vel_rel")
    shared = list(ISAAC)  # one list in many places: the dumper writes aliases, as theirs does
    terms = [{"name": name} for name in names]
    terms += [{"name": name, "joint_names": shared} for name in joint_terms]
    terms += [{"name": "last_action"}]
    for term in terms:
        term["overloads"] = {"clip": None, "scale": None, "history_length": 0}
        term["extras"] = {"modifiers": None}
    content = {
        "actions": [
            {
                "name": "joint_position_action",
                "full_path": "isaaclab.envs.mdp.actions.joint_actions.JointPositionAction",
                "joint_names": shared,
                "scale": 0.25,
                "offset": pose(ISAAC),
                "clip": None,
            }
        ],
        "articulations": {
            "robot": {
                "joint_names": list(GO2.joint_names),
                "default_joint_pos": pose(list(GO2.joint_names)),
                "default_joint_stiffness": [25.0 + i for i in range(JOINTS)],
                "default_joint_damping": [0.5] * JOINTS,
                **articulation,
            }
        },
        "observations": {"policy": terms},
        "scene": {"dt": 0.02, "physics_dt": 0.005, "decimation": 4},
    }
    folder.mkdir()
    text = yaml.safe_dump(content)
    assert "&id001" in text
    (folder / "IO_descriptors.yaml").write_text(text)
    (folder / "policy.onnx").write_bytes(network(SIZE, JOINTS))
    return folder


def test_isaac_lab_descriptors(tmp_path: Path) -> None:
    source = isaac_lab(tmp_path / "in")
    contract = bring_in(source, tmp_path / "out", {"command_ranges": RANGES}).contract
    assert list(contract.joints) == ISAAC
    assert contract.default_position == tuple(pose(ISAAC))
    assert contract.kp == tuple(25.0 + GO2.joint_names.index(name) for name in ISAAC)


def test_isaac_lab_descriptors_with_actions_in_another_order(tmp_path: Path) -> None:
    """And with a scale by joint, which is written once for each environment."""
    source = isaac_lab(tmp_path / "in")
    file = source / "IO_descriptors.yaml"
    content = yaml.safe_load(file.read_text())
    acts = list(GO2.joint_names)
    scale = [0.2 + 0.01 * i for i in range(JOINTS)]
    content["actions"][0] |= {"joint_names": acts, "scale": [scale, scale], "offset": pose(acts)}
    file.write_text(yaml.safe_dump(content))
    imported = bring_in_with_notes(source, tmp_path / "out")
    contract = imported.bundle.contract
    assert list(contract.joints) == ISAAC
    assert contract.action.offset == tuple(pose(ISAAC))
    assert contract.action.scale == tuple(scale[acts.index(name)] for name in ISAAC)
    assert any("renumbered" in line for line in imported.assumed)
    assert any("commands of up to" in line for line in imported.assumed)


def test_isaac_lab_asks_for_gains_of_explicit_actuators(tmp_path: Path) -> None:
    source = isaac_lab(tmp_path / "in", default_joint_stiffness=[0.0] * JOINTS)
    with pytest.raises(Refusal, match="--set kp"):
        bring_in(source, tmp_path / "out", {"command_ranges": RANGES})
    given = {"command_ranges": RANGES, "kp": 25.0, "kd": 0.5}
    assert bring_in(source, tmp_path / "out", given).contract.kp == (25.0,) * JOINTS


def test_what_is_no_policy_is_refused_with_what_would_be(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("walk!")
    with pytest.raises(Refusal, match="rl_sar"):
        bring_in(tmp_path, tmp_path / "out")
