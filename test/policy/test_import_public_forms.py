"""Forms met in public repositories: each test is a file that was refused or misread there."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import LoneNetwork
from sim2real_deploy.policy.importers.assemble import import_policy
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.policy.importers.places import find_network
from sim2real_deploy.policy.importers.robots import by_pattern
from sim2real_deploy.robots import load_robot
from support.import_samples import (
    GO2,
    ISAAC,
    JOINTS,
    bring_in,
    bring_in_with_notes,
    deploy_content,
    write_deploy,
)
from support.policy_samples import network

SIZE = 9 + 3 * JOINTS
G1 = load_robot("g1")
USUAL = ["ang_vel", "gravity_vec", "commands", "dof_pos", "dof_vel", "actions"]


def rl_sar(folder: Path, robot: str, joints: tuple[str, ...], model: bytes, **changes: Any) -> Path:
    spec = load_robot(robot)
    count = len(joints)
    stand = dict(zip(spec.joint_names, spec.stand_pose.tolist(), strict=True))
    config = {
        "model_name": "policy.onnx",
        "observations": USUAL,
        "rl_kp": [20.0] * count,
        "rl_kd": [0.5] * count,
        "action_scale": [0.25] * count,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "commands_scale": [2.0, 2.0, 0.25],
        "default_dof_pos": [stand[name] for name in joints],
        "joint_mapping": [spec.joint_names.index(name) for name in joints],
        **changes,
    }
    folder.mkdir(parents=True)
    base = {"dt": 0.005, "decimation": 4, "joint_names": list(spec.joint_names)}
    (folder / "base.yaml").write_text(yaml.safe_dump({robot: base}))
    (folder / "config.yaml").write_text(yaml.safe_dump({f"{robot}/own": config}))
    (folder / "policy.onnx").write_bytes(model)
    return folder


def two_inputs(frame: int, history: int, outputs: int) -> bytes:
    """The frame and its history apart, as DreamWaQ's networks take them."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(
            0.05 * random.standard_normal((size, outputs)).astype(np.float32), name
        )
        for size, name in ((frame, "A"), (history, "B"))
    ]
    takes = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
        for name, size in (("cenet_obs", history), ("direct_obs", frame))
    ]
    nodes = [
        helper.make_node("MatMul", ["direct_obs", "A"], ["a"]),
        helper.make_node("MatMul", ["cenet_obs", "B"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["actions"]),
    ]
    gives = [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, outputs])]
    graph = helper.make_graph(nodes, "policy", takes, gives, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def test_a_network_that_takes_frame_and_history_apart(tmp_path: Path) -> None:
    source = rl_sar(
        tmp_path / "in",
        "go2",
        GO2.joint_orders["gym"],
        two_inputs(SIZE, 5 * SIZE, JOINTS),
        observations_history=[4, 3, 2, 1, 0],
        observations_history_priority="term",
    )
    contract = bring_in(source, tmp_path / "out").contract
    groups = {group.input: group for group in contract.observations}
    assert groups["direct_obs"].terms[0].history == 1
    assert groups["cenet_obs"].terms[0].history == 5
    assert groups["cenet_obs"].layout == "by_term"


def test_rl_sar_that_moves_only_the_legs_holds_the_rest(tmp_path: Path) -> None:
    """Without clip_obs, which some forks leave out, and with unitree_rl_gym's clock."""
    legs = G1.joint_names[:12]
    model = network(9 + 36 + 2, 12)
    source = rl_sar(tmp_path / "in", "g1", legs, model, observations=[*USUAL, "g1_phase"])
    contract = bring_in(source, tmp_path / "out").contract
    assert contract.joints == legs
    assert [held.joint for held in contract.held] == list(G1.joint_names[12:])
    assert contract.observations[0].terms[-1].params == {"period": 0.8}
    assert contract.observations[0].terms[0].clip is None


def gym(folder: Path, **changes: Any) -> Path:
    content = {
        "control_dt": 0.02,
        "policy_path": "policy.onnx",
        "kps": [100.0] * 12,
        "kds": [2.0] * 12,
        "default_angles": [-0.1, 0.0, 0.0, 0.3, -0.2, 0.0] * 2,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "action_scale": 0.25,
        "cmd_scale": [2.0, 2.0, 0.25],
        "num_obs": 47,
        **changes,
    }
    folder.mkdir(parents=True)
    (folder / "g1.yaml").write_text(yaml.safe_dump(content))
    (folder / "policy.onnx").write_bytes(network(47, 12))
    return folder / "g1.yaml"


def go2_gym(folder: Path, **content: Any) -> Path:
    stand = dict(zip(GO2.joint_names, GO2.stand_pose.tolist(), strict=True))
    order = GO2.joint_orders["gym"]
    file = gym(
        folder,
        joint2motor_idx=[GO2.joint_names.index(name) for name in order],
        default_angles=[stand[name] for name in order],
        num_obs=SIZE,
        **content,
    )
    (folder / "policy.onnx").write_bytes(network(SIZE, JOINTS))
    return file


def test_a_mujoco_yaml_names_its_robot_by_the_scene(tmp_path: Path) -> None:
    scene = "{LEGGED_GYM_ROOT_DIR}/resources/robots/g1_description/scene.xml"
    contract = bring_in(gym(tmp_path / "in", xml_path=scene), tmp_path / "out").contract
    assert contract.robot == "g1"
    assert contract.joints == G1.joint_names[:12]


def test_as_many_joints_as_a_variant_has_are_the_variants(tmp_path: Path) -> None:
    """23 joints of a G1 are not the first 23 of its 29: its waist does not roll, for one."""
    variant = load_robot("g1_23")
    scene = "{LEGGED_GYM_ROOT_DIR}/resources/robots/g1_description/g1_23dof.xml"
    changes = {"kps": [40.0] * 23, "kds": [2.0] * 23, "num_obs": 80, "num_actions": 23}
    pose = [float(angle) for angle in variant.stand_pose]
    file = gym(tmp_path / "in", xml_path=scene, default_angles=pose, **changes)
    (tmp_path / "in" / "policy.onnx").write_bytes(network(80, 23))
    contract = bring_in(file, tmp_path / "out").contract
    assert contract.robot == "g1"
    assert contract.joints == variant.joint_names
    assert "waist_roll_joint" in [held.joint for held in contract.held]


def test_no_robot_is_guessed_where_only_some_of_its_joints_fit(tmp_path: Path) -> None:
    file = gym(tmp_path / "in").rename(tmp_path / "in" / "legs.yaml")
    with pytest.raises(Refusal, match=r"fits no known robot; .*--robot NAME"):
        bring_in(file, tmp_path / "out")


def test_a_yaml_without_a_scene_names_its_robot_by_its_own_name(tmp_path: Path) -> None:
    imported = bring_in_with_notes(gym(tmp_path / "in"), tmp_path / "out")
    assert imported.bundle.contract.joints == G1.joint_names[:12]
    assert any("for g1, after which the file is named" in line for line in imported.assumed)


def test_a_model_of_an_unknown_robot_is_told(tmp_path: Path) -> None:
    """Quadrupeds of one vendor have the same joints: a Go1's file must not pass for a Go2's."""
    stand = [float(angle) for angle in GO2.stand_pose]
    changes = {"kps": [25.0] * 12, "kds": [0.5] * 12, "num_obs": 45}
    scene = "resources/robots/go1/go1.xml"
    file = gym(tmp_path / "in", xml_path=scene, default_angles=stand, **changes)
    (tmp_path / "in" / "policy.onnx").write_bytes(network(45, 12))
    assert any("go1.xml" in line for line in bring_in_with_notes(file, tmp_path / "out").assumed)


def isaac_g1(folder: Path, **changes: Any) -> tuple[Path, dict[str, float]]:
    """All joints of a G1, a network in Isaac's order; and the stiffness of each joint."""
    kp = {joint.name: 20.0 if "ankle" in joint.name else 40.0 for joint in G1.joints}
    pose = [float(angle) for angle in G1.stand_pose]
    content = {"kds": [1.0] * 29, "num_obs": 96, "num_actions": 29, "default_angles": pose}
    gains = [kp[name] for name in G1.joint_names]
    file = gym(folder, **{**content, "kps": gains, **changes})
    (folder / "policy.onnx").write_bytes(network(96, 29))
    return file, kp


def test_values_in_the_models_order_beside_joints_in_the_policys(tmp_path: Path) -> None:
    """Joints by name in the policy's order, pose likewise, gains in the model's order."""
    isaac = G1.joint_orders["isaac"]
    stand = dict(zip(G1.joint_names, G1.stand_pose.tolist(), strict=True))
    names, angles = list(isaac), [stand[name] for name in isaac]
    file, kp = isaac_g1(tmp_path / "in", policy_joints=names, default_angles=angles)
    imported = bring_in_with_notes(file, tmp_path / "out")
    contract = imported.bundle.contract
    assert contract.joints == isaac
    assert contract.default_position == pytest.approx([stand[name] for name in isaac])
    assert contract.kp == tuple(kp[name] for name in isaac)
    assert any("kp in the order of the robot's model" in line for line in imported.assumed)


def test_a_network_in_isaacs_order_behind_motor_numbers_that_say_nothing(tmp_path: Path) -> None:
    """Motors 0 to 28, all values in that order, but a script renumbers the actions."""
    file, kp = isaac_g1(tmp_path / "in", action_joint2motor_idx=list(range(29)))
    as_told = bring_in_with_notes(file, tmp_path / "out")
    assert as_told.bundle.contract.joints == G1.joint_names
    assert "isaac" in as_told.open_orders["joints"]
    contract = bring_in(file, tmp_path / "isaac", {"joints": "isaac"}).contract
    stand = dict(zip(G1.joint_names, G1.stand_pose.tolist(), strict=True))
    assert contract.joints == G1.joint_orders["isaac"]
    assert contract.kp == tuple(kp[name] for name in contract.joints)
    assert contract.default_position == pytest.approx([stand[name] for name in contract.joints])
    assert contract.action.offset == contract.default_position


def test_an_order_that_fits_no_robot_gives_way_to_one_that_does(tmp_path: Path) -> None:
    """No joints told, the pose in Isaac's order: in the model's an ankle would be past its stop."""
    isaac = G1.joint_orders["isaac"]
    stand = {**dict.fromkeys(isaac, 0.0), "left_knee_joint": 0.42, "right_knee_joint": 0.42}
    stand |= {"left_shoulder_pitch_joint": 0.35, "right_shoulder_pitch_joint": 0.35}
    changes = {"default_angles": [stand[name] for name in isaac], "kps": [40.0] * 29}
    file, _ = isaac_g1(tmp_path / "in", **changes)
    imported = bring_in_with_notes(file, tmp_path / "out")
    contract = imported.bundle.contract
    assert dict(zip(contract.joints, contract.default_position, strict=True)) == stand


def test_fixed_joints_by_another_name_and_stiffer_than_allowed(tmp_path: Path) -> None:
    rest = list(range(12, 29))
    file = gym(
        tmp_path / "in",
        action_joint2motor_idx=list(range(12)),
        fixed_joint2motor_idx=rest,
        fixed_kps=[60.0] * 17,
        fixed_kds=[2.0] * 17,
        fixed_target=[0.0] * 17,
        history_length=1,
    )
    imported = bring_in_with_notes(file, tmp_path / "out")
    held = {item.joint: item.kp for item in imported.bundle.contract.held}
    assert held["waist_yaw_joint"] == 60.0
    assert held["left_wrist_pitch_joint"] < 60.0
    assert any("most stiffness" in line for line in imported.assumed)
    assert imported.bundle.contract.observations[0].terms[-1].name == "gait_phase"


def test_a_pointer_gives_way_to_the_same_network_in_another_form(tmp_path: Path) -> None:
    """The ONNX file lies in Git LFS, the TorchScript file beside it does not."""
    folder = tmp_path / "in"
    write_deploy(folder, deploy_content())
    exported = next(folder.rglob("policy.onnx"))
    model = exported.read_bytes()
    exported.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(Refusal, match="is a Git LFS pointer"):
        bring_in(folder, tmp_path / "out")
    exported.with_suffix(".pt").write_bytes(b"TorchScript")
    taken = import_policy(folder, tmp_path / "out", Answers(), lambda path, sizes: model)
    assert taken.network == exported.with_suffix(".pt")


def test_a_velocity_command_under_its_senders_name(tmp_path: Path) -> None:
    content = deploy_content()
    terms = content["observations"]
    content["observations"] = {
        "api_cmd_vel_commands" if name == "velocity_commands" else name: term
        for name, term in terms.items()
    }
    write_deploy(tmp_path / "in", content)
    contract = bring_in(tmp_path / "in", tmp_path / "out").contract
    assert contract.observations[0].terms[2].name == "velocity_command"


def test_an_unknown_robot_in_rl_sar_is_told_with_its_file(tmp_path: Path) -> None:
    source = rl_sar(tmp_path / "in", "go2", GO2.joint_orders["gym"], network(SIZE, JOINTS))
    config = source / "config.yaml"
    config.write_text(config.read_text().replace("go2/own", "0315/own"))
    with pytest.raises(Refusal, match=r"config.yaml: 0315/own: no robot '0315' .*--robot NAME"):
        bring_in(source, tmp_path / "out")
    answers = Answers(robot="go2")
    taken = import_policy(source, tmp_path / "out", answers, lambda path, sizes: b"")
    assert taken.bundle.contract.robot == "go2"


def test_held_joints_keep_at_least_the_robots_own_damping(tmp_path: Path) -> None:
    """A waist held with 300 Nm/rad and 3 Nms/rad swings until unitree_rl_gym's G1 falls."""
    rest = list(range(12, 29))
    file = gym(
        tmp_path / "in",
        leg_joint2motor_idx=list(range(12)),
        arm_waist_joint2motor_idx=rest,
        arm_waist_kps=[20.0] * 17,
        arm_waist_kds=[0.1] * 17,
        arm_waist_target=[0.0] * 17,
    )
    imported = bring_in_with_notes(file, tmp_path / "out")
    held = {item.joint: item.kd for item in imported.bundle.contract.held}
    own = {joint.name: joint.kd for joint in G1.joints}
    assert all(kd == own[name] for name, kd in held.items())
    assert any("waist_yaw_joint" in line and "damping" in line for line in imported.assumed)


def test_the_only_network_in_the_folders_above_is_found(tmp_path: Path) -> None:
    file = tmp_path / "config" / "deploy" / "go2.yaml"
    file.parent.mkdir(parents=True)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "walk.onnx").write_bytes(b"one")
    assert find_network(file, None) == tmp_path / "policies" / "walk.onnx"
    (tmp_path / "policies" / "run.onnx").write_bytes(b"two")
    with pytest.raises(Refusal, match=r"several networks(.|\n)*run\.onnx(.|\n)*walk\.onnx"):
        find_network(file, None)
    with pytest.raises(Refusal, match=r"'gone\.pt' is not there(.|\n)*walk\.onnx"):
        find_network(file, None, "gone.pt")


def disagreeing(folder: Path, names: list[str]) -> Path:
    """A deploy.yaml whose network says itself what it observes, and another action scale."""
    content = deploy_content()
    model = onnx.load_from_string(network(SIZE, JOINTS))
    motors = content["joint_ids_map"]
    for key, values in {
        "joint_names": ISAAC,
        "observation_names": names,
        "default_joint_pos": content["default_joint_pos"],
        "joint_stiffness": [content["stiffness"][motor] for motor in motors],
        "joint_damping": [content["damping"][motor] for motor in motors],
        "action_scale": [0.5] * JOINTS,
    }.items():
        model.metadata_props.add(key=key, value=",".join(map(str, values)))
    folder.mkdir()
    (folder / "deploy.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "policy.onnx").write_bytes(model.SerializeToString())
    return folder


SEEN = ["base_ang_vel", "projected_gravity", "command", "joint_pos", "joint_vel", "actions"]


def test_where_file_and_network_disagree_the_network_is_believed_and_the_user_told(
    tmp_path: Path,
) -> None:
    folder = disagreeing(tmp_path / "in", SEEN)
    taken = bring_in_with_notes(folder, tmp_path / "out")
    assert taken.bundle.contract.action.scale == (0.5,) * JOINTS
    told = f"FL_hip_joint 0.25 and 0.5 and {JOINTS - 1} more (--set trust=file)"
    assert any(told in line for line in taken.assumed)
    assert told in taken.bundle.contract.provenance["assumed"]
    assert taken.open_orders["trust"] == ("network", "file")  # where it does not walk so
    for trust, scale in (("network", 0.5), ("file", 0.25)):
        said = bring_in_with_notes(folder, tmp_path / trust, {"trust": trust})
        assert said.bundle.contract.action.scale == (scale,) * JOINTS
        assert not any("differs" in line for line in said.assumed)
        assert "trust" not in said.open_orders


def test_another_policys_network_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    """No answer about its scale would help."""
    folder = disagreeing(tmp_path / "in", [SEEN[1], SEEN[0], *SEEN[2:]])
    with pytest.raises(Refusal, match=r"another policy's network.*--network FILE") as refused:
        bring_in(folder, tmp_path / "out")
    assert "trust" not in str(refused.value)


def test_a_network_in_model_beside_config_and_twice_in_another_form(tmp_path: Path) -> None:
    """RoboMimic_Deploy has config/ and model/ side by side; some keep both .onnx and .pt."""
    walk = tmp_path / "walk" / "config" / "Walk.yaml"
    plain = tmp_path / "other" / "configs" / "go2.yaml"
    for file in (walk, plain):
        file.parent.mkdir(parents=True)
        file.touch()
    (tmp_path / "walk" / "model").mkdir()
    (tmp_path / "walk" / "model" / "policy_29dof.pt").write_bytes(b"one")
    assert find_network(walk, None, "policy_29dof.pt").parent.name == "model"
    (tmp_path / "other" / "exported").mkdir()
    for suffix in (".pt", ".onnx"):
        (tmp_path / "other" / "exported" / f"policy_8600{suffix}").write_bytes(b"two")
    assert find_network(plain, None).name == "policy_8600.onnx"


def test_a_gym_file_without_a_rate_runs_at_that_of_its_tasks(tmp_path: Path) -> None:
    """RoboMimic_Deploy's files have gains and scales, and no rate."""
    file = gym(tmp_path / "in", control_dt=None, xml_path="robots/g1_description/scene.xml")
    imported = bring_in_with_notes(file, tmp_path / "out")
    assert imported.bundle.contract.rate_hz == 50.0
    assert any("50 Hz" in line for line in imported.assumed)


DEEP = "source/pkg/pkg/tasks/locomotion/robots/one/logs/run"


def test_a_training_run_deep_in_a_repository_is_one_policy(tmp_path: Path) -> None:
    run = write_deploy(tmp_path / "all" / DEEP, deploy_content())
    (run / "params" / "env.yaml").write_text(yaml.safe_dump(isaac_env({})))
    imported = bring_in_with_notes(tmp_path / "all", tmp_path / "out")
    assert imported.form == "unitree_rl_lab deploy.yaml"


def test_what_a_macs_zip_adds_is_no_policy(tmp_path: Path) -> None:
    run = write_deploy(tmp_path / "all" / "run", deploy_content())
    (run / "exported" / "._policy.onnx").write_bytes(b"junk")
    (run / "params" / "._deploy.yaml").write_bytes(b"\x00\x05\x16\x07")
    write_deploy(tmp_path / "all" / "__MACOSX" / "run", deploy_content())
    assert bring_in(tmp_path / "all", tmp_path / "out").contract.rate_hz == 50.0
    assert bring_in(run, tmp_path / "other").contract.rate_hz == 50.0


def test_a_link_to_its_own_parent_is_not_followed(tmp_path: Path) -> None:
    write_deploy(tmp_path / "all" / "run", deploy_content())
    (tmp_path / "all" / "run" / "again").symlink_to(tmp_path / "all")
    assert bring_in(tmp_path / "all", tmp_path / "out").contract.rate_hz == 50.0


def test_a_whole_disk_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim2real_deploy.policy.importers.places.MOST_FOLDERS", 3)
    write_deploy(tmp_path / "all" / "a" / "run", deploy_content())
    with pytest.raises(Refusal, match="more than 3 folders below it; name the policy's own"):
        bring_in(tmp_path / "all", tmp_path / "out")


def test_networks_that_are_none_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    huge, empty = tmp_path / "huge.onnx", tmp_path / "empty.onnx"
    huge.touch()
    os.truncate(huge, 2_000_000_000)  # a hole: it takes no room
    empty.touch()
    for file, words in ((huge, "is too large for a policy"), (empty, "is empty")):
        with pytest.raises(Refusal, match=f"{file.name}: .*{words}"):
            bring_in(file, tmp_path / "out")


def test_a_folder_that_may_not_be_read_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(Refusal, match="cannot be read: Permission denied"):
        bring_in(tmp_path, tmp_path / "out")


def isaac_env(spawn: dict[str, str]) -> dict[str, Any]:
    """Isaac Lab's env.yaml of a quadruped; the joints of several have these names."""
    terms = ("base_ang_vel", "projected_gravity", "generated_commands", "joint_pos_rel")
    pose = {".*_hip_joint": 0.0, ".*_thigh_joint": 0.8, ".*_calf_joint": -1.5}
    legs = {"joint_names_expr": [".*"], "stiffness": 25.0, "damping": 0.5}
    action = {"class_type": "mdp:JointPositionAction", "joint_names": [".*"], "scale": 0.25}
    seen = {name: {"func": f"mdp:{name}"} for name in (*terms, "joint_vel_rel", "last_action")}
    return {
        "sim": {"dt": 0.005},
        "decimation": 4,
        "scene": {
            "robot": {
                "spawn": spawn,
                "init_state": {"joint_pos": pose},
                "actuators": {"legs": legs},
            }
        },
        "actions": {"joint_pos": action},
        "observations": {"policy": seen},
        "commands": {
            "v": {"ranges": {key: [-1, 1] for key in ("lin_vel_x", "lin_vel_y", "ang_vel_z")}}
        },
    }


@pytest.mark.parametrize(
    ("model", "robot", "noted"),
    [
        ("Robots/Unitree/Go2/go2.usd", "go2", False),
        ("assets/b2_description/usd/b2.usd", "b2", False),
        ("Robots/Unitree/A1/a1.usd", "go2", True),  # no file of that robot here: said, not hidden
    ],
)
def test_the_model_that_was_simulated_names_the_robot(
    model: str, robot: str, noted: bool, tmp_path: Path
) -> None:
    run = write_deploy(tmp_path / "run", {})
    (run / "params" / "deploy.yaml").unlink()
    (run / "params" / "env.yaml").write_text(yaml.safe_dump(isaac_env({"usd_path": model})))
    imported = bring_in_with_notes(run, tmp_path / "out")
    assert imported.bundle.contract.robot == robot
    assert any("a1.usd" in line for line in imported.assumed) is noted


@pytest.mark.parametrize("name", ["ang_vel_body", "ang_vel_world"])
def test_older_rl_sar_names_the_frame_of_the_angular_velocity(name: str, tmp_path: Path) -> None:
    model = network(SIZE, JOINTS)
    terms = [name, *USUAL[1:]]
    file = rl_sar(tmp_path / "in", "go2", GO2.joint_names, model, observations=terms)
    (group,) = bring_in(file, tmp_path / "out").contract.observations
    assert (group.terms[0].name, group.terms[0].scale) == ("base_ang_vel", 0.25)


def test_other_actions_are_named_before_what_is_missing(tmp_path: Path) -> None:
    write_deploy(tmp_path / "run", deploy_content(actions={"bow": {"clip": None}}))
    with pytest.raises(Refusal, match=r"actions\.bow: only JointPositionAction can be run"):
        bring_in(tmp_path / "run", tmp_path / "out")


def test_a_history_that_a_gym_file_does_not_tell_is_told(tmp_path: Path) -> None:
    file = go2_gym(tmp_path / "in", kps=[20.0] * JOINTS, kds=[0.5] * JOINTS)
    (tmp_path / "in" / "policy.onnx").write_bytes(two_inputs(SIZE, 5 * SIZE, JOINTS))
    contract = bring_in(file, tmp_path / "out", {"frames": 5}).contract
    assert {group.input: group.terms[0].history for group in contract.observations} == {
        "direct_obs": 1,
        "cenet_obs": 5,
    }
    with pytest.raises(Refusal, match="--set frames: must be the number of frames"):
        bring_in(file, tmp_path / "other", {"frames": "five"})


@pytest.mark.parametrize("motor", [-1, 10**30])
def test_a_motor_that_no_robot_has_is_refused(motor: int, tmp_path: Path) -> None:
    content = deploy_content()
    content["joint_ids_map"][0] = motor
    write_deploy(tmp_path / "in", content)
    with pytest.raises(Refusal, match=f"joint_ids_map: there is no motor {motor}"):
        bring_in(tmp_path / "in", tmp_path / "out")


def test_command_ranges_of_another_form_are_none(tmp_path: Path) -> None:
    content = deploy_content(commands={"base_velocity": {"ranges": 1.0}})
    write_deploy(tmp_path / "in", content)
    imported = bring_in_with_notes(tmp_path / "in", tmp_path / "out")
    assert any("commands of up to" in line for line in imported.assumed)


def test_an_empty_joint_mapping_is_refused(tmp_path: Path) -> None:
    gym_order, model = GO2.joint_orders["gym"], network(SIZE, JOINTS)
    source = rl_sar(tmp_path / "in", "go2", gym_order, model, joint_mapping=[])
    with pytest.raises(Refusal, match="joint_mapping: must name joints"):
        bring_in(source, tmp_path / "out")


def test_nothing_is_said_of_robots_that_do_not_fit(tmp_path: Path) -> None:
    """A Go2's file without a robot is tried as a G1's, too, whose arms would then be held."""
    stand = [float(angle) for angle in GO2.stand_pose]
    changes = {"kps": [25.0] * 12, "kds": [0.5] * 12, "num_obs": 45, "default_angles": stand}
    file = gym(tmp_path / "in", **changes).rename(tmp_path / "in" / "walk.yaml")
    (tmp_path / "in" / "policy.onnx").write_bytes(network(45, 12))
    imported = bring_in_with_notes(file, tmp_path / "out")
    assert imported.bundle.contract.robot == "go2"
    assert not any("held" in line for line in imported.assumed)


@pytest.mark.parametrize("pattern", ["*_joint", "["])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(Refusal, match=r"kp: .* is no pattern"):
        by_pattern({pattern: 25.0}, ["FL_hip_joint"], "kp")
    with pytest.raises(Refusal, match="a number was expected"):
        by_pattern({".*": "stiff"}, ["FL_hip_joint"], "kp")


def test_models_of_actuators_are_no_policies(tmp_path: Path) -> None:
    """legged_gym and its forks carry some in resources/actuator_nets."""
    for place in ("resources/actuator_nets/unitree_go1.pt", "exported/one.pt", "exported/two.pt"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"TorchScript")
    with pytest.raises(Refusal, match=r"one\.pt") as refused:
        bring_in(tmp_path, tmp_path.with_name("out"))
    assert "actuator_nets" not in str(refused.value)


def test_torch_tells_how_many_frames_a_gym_networks_history_has(tmp_path: Path) -> None:
    """The file tells the size of one frame; its network, in TorchScript, takes five."""
    file = go2_gym(tmp_path / "in", kps=[20.0] * JOINTS, kds=[0.5] * JOINTS)
    (exported,) = (tmp_path / "in").rglob("*.onnx")
    exported.rename(exported.with_suffix(".pt"))
    answers = Answers(torch_sizes=lambda path: {"obs": 5 * SIZE})
    made = network(5 * SIZE, JOINTS)
    taken = import_policy(file, tmp_path / "out", answers, lambda path, sizes: made)
    assert taken.bundle.contract.observations[0].terms[0].history == 5
    assert taken.open_orders["layout"] == ("by_frame", "by_term")


def test_gains_under_the_name_of_another_fork(tmp_path: Path) -> None:
    file = go2_gym(tmp_path / "in", kp_gains=[21.0] * JOINTS, kd_gains=[0.6] * JOINTS)
    told = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({k: v for k, v in told.items() if k not in ("kps", "kds")}))
    contract = bring_in(file, tmp_path / "out").contract
    assert (contract.kp[0], contract.kd[0]) == (21.0, 0.6)


def test_a_network_of_another_size_names_the_ones_that_fit(tmp_path: Path) -> None:
    write_deploy(tmp_path / "in", deploy_content())
    exported = next((tmp_path / "in").rglob("policy.onnx"))
    right = exported.rename(exported.with_name("policy_old.onnx"))
    exported.write_bytes(network(2 * SIZE, JOINTS))
    with pytest.raises(Refusal, match=f"these take {SIZE}: --network .*policy_old.onnx"):
        bring_in(tmp_path / "in", tmp_path / "out")
    right.write_bytes(b"not a network")
    with pytest.raises(Refusal, match=r"try it alone: sim2real policy new .*policy.onnx"):
        bring_in(tmp_path / "in", tmp_path / "out")


def test_a_list_of_policies_tells_which_have_no_network(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        write_deploy(tmp_path / "in" / name / "config" / "policy", deploy_content())
    next((tmp_path / "in" / "two").rglob("*.onnx")).unlink()
    with pytest.raises(Refusal, match="holds 3 policies") as refused:
        bring_in(tmp_path / "in", tmp_path / "out")
    (without,) = (line for line in str(refused.value).splitlines() if "no network" in line)
    assert "/two/" in without


def test_the_same_fault_all_along_a_list_is_told_once(tmp_path: Path) -> None:
    write_deploy(tmp_path / "in", deploy_content(joint_ids_map=[None] * JOINTS))
    with pytest.raises(Refusal, match=rf"joint_ids_map\.0: .* \(and {JOINTS - 1} more like it\)$"):
        bring_in(tmp_path / "in", tmp_path / "out")


def test_a_variant_keeps_the_motor_numbers_of_the_whole_robot(tmp_path: Path) -> None:
    """A G1 with 23 joints leaves the slots of the missing waist and wrist joints empty."""
    spec = load_robot("g1_23")
    stand = [float(angle) for angle in spec.stand_pose]
    motors = [G1.joint_names.index(name) for name in spec.joint_names]
    gains = {"kps": [100.0] * 23, "kds": [2.0] * 23}
    file = gym(
        tmp_path / "in", joint2motor_idx=motors, default_angles=stand, num_obs=9 + 3 * 23, **gains
    )
    (tmp_path / "in" / "policy.onnx").write_bytes(network(9 + 3 * 23, 23))
    answers = Answers(robot="g1_23")
    taken = import_policy(file, tmp_path / "out", answers, lambda path, sizes: b"")
    assert taken.bundle.contract.joints == spec.joint_names
    assert not taken.bundle.contract.held


def test_checkpoints_of_a_training_beside_what_it_exported_are_no_policies(tmp_path: Path) -> None:
    """As legged_gym leaves them: logs/TASK/RUN/model_*.pt and logs/TASK/exported/policies."""
    for place in ("Apr19/model_50.pt", "Apr19/model_100.pt", "exported/policies/policy_1.pt"):
        file = tmp_path / "logs" / "g1" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"TorchScript")
    with pytest.raises(LoneNetwork) as alone:
        bring_in(tmp_path / "logs", tmp_path / "out")
    assert alone.value.network.name == "policy_1.pt"
