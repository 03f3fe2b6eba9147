"""Each source project's form, written as its own tools write it, comes in without hand edits.

These are the samples of docs/policies/: one section there, one test here.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from onnx import helper

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.importers import network as network_file
from sim2real_deploy.policy.importers.vocabulary import TERM_ORDERS
from sim2real_deploy.policy.skeleton import presets, write_skeleton
from sim2real_deploy.robots import load_robot
from support.import_samples import GO2, ISAAC, JOINTS, bring_in, bring_in_with_notes, deploy_content
from support.import_samples import pose as off_pose
from support.policy_samples import make_state, network

GYM = list(GO2.joint_orders["gym"])
SDK = list(GO2.joint_names)
SIZE = 9 + 3 * JOINTS
TERMS = ["base_ang_vel", "projected_gravity", "velocity_command"]
TERMS += ["joint_pos_rel", "joint_vel", "last_action"]


def dump(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def put_network(path: Path, size: int = SIZE, joints: int = JOINTS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(network(size, joints))
    return path


def names(bundle: Any, group: int = 0) -> list[str]:
    return [term.name for term in bundle.contract.observations[group].terms]


# ---- our own policy.yaml


def test_a_skeleton_is_filled_in_and_imported(tmp_path: Path) -> None:
    source = put_network(tmp_path / "policy.onnx", 6 * SIZE)
    file = write_skeleton(source, GO2, tmp_path / "mine")
    with pytest.raises(Refusal, match=r"still to be answered: rate_hz, joints, default_position"):
        bring_in(tmp_path / "mine", tmp_path / "out")
    answers = {
        "rate_hz: ???": "rate_hz: 50",
        "joints: ???": "joints: gym",
        "default_position: ???": f"default_position: {off_pose(GYM)}",
        "kp: ???": "kp: 20",
        "kd: ???": "kd: 0.5",
        "scale: ???": "scale: 0.25",
        "vx: ???": "vx: [-1, 1]",
        "vy: ???": "vy: [-0.4, 0.4]",
        "wz: ???": "wz: [-1, 1]",
    }
    text = file.read_text()
    for question, answer in answers.items():
        assert question in text
        text = text.replace(question, answer)
    file.write_text(text)
    contract = bring_in(tmp_path / "mine", tmp_path / "out").contract
    assert list(contract.joints) == GYM
    assert contract.kp == (20.0,) * JOINTS
    assert contract.action.offset == contract.default_position
    assert contract.observations[0].terms[0].history == 6
    assert len(contract.golden) == 8


def test_a_stock_task_fills_the_skeleton_in(tmp_path: Path) -> None:
    """Nothing left to answer, for each project whose stock task is known."""
    source = put_network(tmp_path / "policy.onnx", SIZE)
    for name, preset in presets("go2").items():
        write_skeleton(source, GO2, tmp_path / name, name)
        contract = bring_in(tmp_path / name, tmp_path / "out" / name).contract
        assert contract.default_position == preset.default_position
        assert contract.observations[0].terms[0].name == TERM_ORDERS[preset.order][0]
    with pytest.raises(Refusal, match=r"--like nobody(.|\n)*legged_gym, himloco"):
        write_skeleton(source, GO2, tmp_path / "x", "nobody")


def test_a_bundle_changed_by_hand_is_imported_again(tmp_path: Path) -> None:
    source = write_params(tmp_path / "in")
    folder = bring_in(source, tmp_path / "one").folder
    file = folder / "policy.yaml"
    file.write_text(file.read_text().replace("rate_hz: 50.0", "rate_hz: 100.0"))
    with pytest.raises(Refusal, match="rate_hz"):
        load_bundle(folder, GO2)
    assert bring_in(folder, tmp_path / "two").contract.rate_hz == 100.0


@pytest.mark.parametrize("file", ["policy.pt", "odd.onnx", "clocked.onnx"])
def test_what_a_skeleton_cannot_know_is_asked_for(file: str, tmp_path: Path) -> None:
    """TorchScript does not tell its size; 50 numbers are no known frame; 47 have a clock."""
    source = put_network(tmp_path / file, {"odd.onnx": 50}.get(file, SIZE + 2))
    write_skeleton(source, GO2, tmp_path / "mine")
    wanted = "params.period" if file == "clocked.onnx" else "terms.0.name"
    with pytest.raises(Refusal, match=rf"still to be answered: .*{wanted}"):
        bring_in(tmp_path / "mine", tmp_path / "out")


def test_an_extra_command_has_its_default_until_one_is_given(tmp_path: Path) -> None:
    file = write_skeleton(put_network(tmp_path / "policy.onnx", SIZE + 1), GO2, tmp_path / "mine")
    height = {"name": "extra_command", "params": {"name": "height", "default": [0.3]}}
    written = {
        "robot": "go2",
        "rate_hz": 50,
        "joints": "sdk",
        "default_position": off_pose(SDK),
        "kp": 20,
        "kd": 0.5,
        "action": {"scale": 0.25},
        "observations": [{"terms": [{"name": name} for name in TERMS] + [height]}],
        "command_ranges": {"vx": [-1, 1], "vy": [-1, 1], "wz": [-1, 1]},
    }
    dump(file, written)
    policy = bring_in(file.parent, tmp_path / "out").open()
    assert policy.extras == {"height": 1}
    state = make_state(GO2)
    policy.observe(state, (0.0, 0.0, 0.0))
    assert policy.observation[-1] == pytest.approx(0.3)
    policy.give("height", [0.2])
    policy.observe(state, (0.0, 0.0, 0.0))
    assert policy.observation[-1] == pytest.approx(0.2)
    for name, values in (("height", [0.2, 0.3]), ("width", [0.2]), ("height", [math.nan])):
        with pytest.raises(Refusal, match=name):
            policy.give(name, values)


def test_nothing_is_overwritten_by_a_skeleton(tmp_path: Path) -> None:
    source = put_network(tmp_path / "policy.onnx")
    (tmp_path / "mine").mkdir()
    with pytest.raises(Refusal, match="nothing is overwritten"):
        write_skeleton(source, GO2, tmp_path / "mine")


# ---- unitree_rl_lab


def write_params(folder: Path, **changes: Any) -> Path:
    dump(folder / "params" / "deploy.yaml", deploy_content(**changes))
    put_network(folder / "exported" / "policy.onnx")
    return folder


@pytest.mark.parametrize("named", ["", "exported", "exported/policy.onnx", "params/deploy.yaml"])
def test_unitree_rl_lab_by_any_of_its_files(named: str, tmp_path: Path) -> None:
    source = write_params(tmp_path / "in")
    assert bring_in(source / named, tmp_path / "out").contract.rate_hz == 50.0


def test_a_deploy_yaml_under_another_name_beside_its_network(tmp_path: Path) -> None:
    dump(tmp_path / "in" / "policy.yaml", deploy_content())
    put_network(tmp_path / "in" / "policy.onnx")
    assert list(bring_in(tmp_path / "in", tmp_path / "out").contract.joints) == ISAAC


def test_a_range_that_leaves_out_standing_is_stretched_to_it(tmp_path: Path) -> None:
    content = deploy_content()
    content["commands"]["base_velocity"]["ranges"]["lin_vel_x"] = [0.2, 1.0]
    dump(tmp_path / "in" / "deploy.yaml", content)
    put_network(tmp_path / "in" / "policy.onnx")
    assert bring_in(tmp_path / "in", tmp_path / "out").contract.command_ranges.vx == (0.0, 1.0)


def test_a_deploy_yaml_that_sees_its_velocity(tmp_path: Path) -> None:
    content = deploy_content()
    velocity = {"params": {}, "clip": None, "scale": [2.0] * 3, "history_length": 1}
    content["observations"] = {"base_lin_vel": velocity, **content["observations"]}
    dump(tmp_path / "in" / "deploy.yaml", content)
    put_network(tmp_path / "in" / "policy.onnx", SIZE + 3)
    bundle = bring_in(tmp_path / "in", tmp_path / "out")
    assert names(bundle)[0] == "base_lin_vel"
    policy = bundle.open()
    assert policy.odometry is not None
    state = make_state(GO2)
    policy.give_velocity((0.5, 0.1, math.nan))  # refused: the legs' stays
    policy.observe(state, (0.0, 0.0, 0.0))
    assert policy.observation[0] == pytest.approx(2.0 * policy.odometry.velocity[0], abs=1e-5)
    policy.give_velocity((0.5, 0.1, 0.0))
    for step in range(12):
        policy.observe(state, (0.0, 0.0, 0.0))
        policy.infer()
        if step in (0, 10):
            assert policy.observation[0] == pytest.approx(1.0)
    assert policy.observation[0] != pytest.approx(1.0)  # stale


def test_a_policy_of_a_g1_with_fewer_motors_holds_the_rest(tmp_path: Path) -> None:
    """Motors are numbered as on the robot with all of them; the slots between have no gains."""
    g1 = load_robot("g1")
    motors = [*range(13), *range(15, 20), *range(22, 27)]
    stand = [float(g1.stand_pose[motor]) for motor in motors]
    count = len(motors)
    content = deploy_content(
        joint_ids_map=motors,
        stiffness=[40.0] * count,
        damping=[2.0] * count,
        default_joint_pos=stand,
    )
    content["actions"]["JointPositionAction"] |= {"scale": [0.25] * count, "offset": stand}
    for name in ("joint_pos_rel", "joint_vel_rel", "last_action"):
        content["observations"][name]["scale"] = [1.0] * count
    dump(tmp_path / "in" / "deploy.yaml", content)
    put_network(tmp_path / "in" / "policy.onnx", 9 + 3 * count, count)
    imported = bring_in_with_notes(tmp_path / "in", tmp_path / "out")
    contract = imported.bundle.contract
    assert [held.joint for held in contract.held][:2] == ["waist_roll_joint", "waist_pitch_joint"]
    assert len(contract.held) == g1.joint_count - count
    assert any("held at zero" in line for line in imported.assumed)


# ---- Isaac Lab


def env_yaml(**changes: Any) -> dict[str, Any]:
    functions = {
        "base_lin_vel": "base_lin_vel",
        "base_ang_vel": "base_ang_vel",
        "projected_gravity": "projected_gravity",
        "velocity_commands": "generated_commands",
        "joint_pos": "joint_pos_rel",
        "joint_vel": "joint_vel_rel",
        "actions": "last_action",
        "height_scan": None,
    }
    terms = {
        name: function
        and {
            "func": f"isaaclab.envs.mdp.observations:{function}",
            "params": {},
            "modifiers": None,
            "noise": {"func": "isaaclab.utils.noise.noise_model:uniform_noise"},
            "clip": None,
            "scale": None,
            "history_length": 0,
            "flatten_history_dim": True,
        }
        for name, function in functions.items()
    }
    return {
        "sim": {"dt": 0.005},
        "decimation": 4,
        "scene": {
            "robot": {
                "init_state": {
                    "joint_pos": {
                        ".*L_hip_joint": 0.1,
                        ".*R_hip_joint": -0.1,
                        "F[L,R]_thigh_joint": 0.8,
                        "R[L,R]_thigh_joint": 1.0,
                        ".*_calf_joint": -1.5,
                    }
                },
                "actuators": {
                    "base_legs": {
                        "joint_names_expr": [".*_hip_joint", ".*_thigh_joint", ".*_calf_joint"],
                        "stiffness": 25.0,
                        "damping": {".*": 0.5},
                    }
                },
            },
        },
        "actions": {
            "joint_pos": {
                "class_type": "isaaclab.envs.mdp.actions.joint_actions:JointPositionAction",
                "joint_names": [".*"],
                "scale": 0.25,
                "offset": 0.0,
                "use_default_offset": True,
                "clip": None,
            }
        },
        "observations": {"policy": {"concatenate_terms": True, "history_length": None, **terms}},
        "commands": {
            "base_velocity": {
                "ranges": {
                    "lin_vel_x": [-1.0, 1.0],
                    "lin_vel_y": [-1.0, 1.0],
                    "ang_vel_z": [-1.0, 1.0],
                }
            }
        },
        **changes,
    }


def test_isaac_lab_by_the_env_yaml_of_its_run(tmp_path: Path) -> None:
    dump(tmp_path / "run" / "params" / "env.yaml", env_yaml())
    put_network(tmp_path / "run" / "exported" / "policy.onnx", SIZE + 3)
    bundle = bring_in(tmp_path / "run", tmp_path / "out")
    contract = bundle.contract
    assert list(contract.joints) == ISAAC
    assert contract.default_position[:4] == (0.1, -0.1, 0.1, -0.1)  # the hips
    assert contract.kp == (25.0,) * JOINTS
    assert names(bundle) == ["base_lin_vel", *TERMS]


def test_isaac_lab_with_joints_one_by_one_keeps_their_order(tmp_path: Path) -> None:
    content = env_yaml()
    in_order = {"joint_names": SDK, "preserve_order": True}
    content["actions"]["joint_pos"] |= in_order
    for name in ("joint_pos", "joint_vel"):
        content["observations"]["policy"][name]["params"] = {"asset_cfg": in_order}
    dump(tmp_path / "run" / "params" / "env.yaml", content)
    put_network(tmp_path / "run" / "exported" / "policy.onnx", SIZE + 3)
    assert list(bring_in(tmp_path / "run", tmp_path / "out").contract.joints) == SDK


def test_isaac_lab_with_actions_in_an_order_of_their_own(tmp_path: Path) -> None:
    """What it sees is in Isaac's order, what it did and does in another: renumbered."""
    content = env_yaml()
    content["actions"]["joint_pos"] |= {"joint_names": SDK, "preserve_order": True}
    dump(tmp_path / "run" / "params" / "env.yaml", content)
    own = tmp_path / "run" / "exported" / "policy.onnx"
    put_network(own, SIZE + 3)
    bundle = bring_in(tmp_path / "run", tmp_path / "out")
    assert list(bundle.contract.joints) == ISAAC
    policy = bundle.open()
    values = np.linspace(-1.0, 1.0, SIZE + 3, dtype=np.float32)
    did = dict(zip(ISAAC, values[-JOINTS:], strict=True))
    done = [did[joint] for joint in SDK]
    theirs = np.array([[*values[:-JOINTS], *done]], np.float32)
    session = onnxruntime.InferenceSession(own)
    (expected,) = session.run(None, {session.get_inputs()[0].name: theirs})
    policy.session.inputs[bundle.contract.observations[0].input][:] = values
    policy.session.run()
    by_joint = dict(zip(SDK, expected[0], strict=True))
    assert policy.action.tolist() == pytest.approx([by_joint[joint] for joint in ISAAC])


def test_isaac_lab_with_a_model_of_fewer_joints_is_refused_with_a_way_out(tmp_path: Path) -> None:
    content = env_yaml()
    driven = content["scene"]["robot"]["actuators"]["base_legs"]
    driven["joint_names_expr"] = [".*_hip_joint", ".*_thigh_joint"]
    dump(tmp_path / "run" / "params" / "env.yaml", content)
    put_network(tmp_path / "run" / "exported" / "policy.onnx", SIZE + 3)
    with pytest.raises(Refusal, match=r"none for .*_calf_joint.*deploy\.yaml.*policy new"):
        bring_in(tmp_path / "run", tmp_path / "out")


def test_isaac_lab_with_half_a_velocity_command_is_refused_by_name(tmp_path: Path) -> None:
    content = env_yaml()
    del content["commands"]["base_velocity"]["ranges"]["lin_vel_y"]
    dump(tmp_path / "run" / "params" / "env.yaml", content)
    put_network(tmp_path / "run" / "exported" / "policy.onnx", SIZE + 3)
    with pytest.raises(Refusal, match=r"commands\.base_velocity\.ranges: lin_vel_y"):
        bring_in(tmp_path / "run", tmp_path / "out")


def test_isaac_lab_with_tags_that_would_run_code_is_read_and_not_run(tmp_path: Path) -> None:
    file = dump(tmp_path / "run" / "params" / "env.yaml", env_yaml())
    marker = tmp_path / "ran"
    tag = f"seed: !!python/object/apply:os.system ['touch {marker}']\n"
    slices = "viewer: !!python/object/apply:builtins.slice [null, null, null]\n"
    file.write_text(tag + slices + file.read_text())
    put_network(tmp_path / "run" / "exported" / "policy.onnx", SIZE + 3)
    assert bring_in(tmp_path / "run", tmp_path / "out").contract.rate_hz == 50.0
    assert not marker.exists()


# ---- legged_gym and its forks


def gym_yaml(**changes: Any) -> dict[str, Any]:
    content = {
        "control_dt": 0.02,
        "policy_path": "{LEGGED_GYM_ROOT_DIR}/deploy/pre_train/go2/policy.onnx",
        "leg_joint2motor_idx": [SDK.index(name) for name in GYM],
        "kps": [20.0] * JOINTS,
        "kds": [0.5] * JOINTS,
        "default_angles": off_pose(GYM),
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "action_scale": 0.25,
        "cmd_scale": [2.0, 2.0, 0.25],
        "num_actions": JOINTS,
        "num_obs": SIZE,
        **changes,
    }
    return {key: value for key, value in content.items() if value is not None}


def gym(folder: Path, size: int = SIZE, **changes: Any) -> Path:
    """As the projects lay it out: the yaml in one branch, the network in another."""
    put_network(folder / "deploy" / "pre_train" / "go2" / "policy.onnx", size)
    return dump(folder / "deploy" / "deploy_real" / "configs" / "go2.yaml", gym_yaml(**changes))


def test_legged_gym_finds_its_network_by_the_end_of_its_path(tmp_path: Path) -> None:
    imported = bring_in_with_notes(gym(tmp_path / "in"), tmp_path / "out")
    assert imported.network.name == "policy.onnx"
    assert names(imported.bundle) == TERMS
    assert any("--set command_ranges" in line for line in imported.assumed)


def test_legged_gym_with_velocity_and_mujoco_joints(tmp_path: Path) -> None:
    source = gym(tmp_path / "in", SIZE + 3, num_obs=SIZE + 3, leg_joint2motor_idx=None)
    imported = bring_in_with_notes(source, tmp_path / "out")
    assert names(imported.bundle) == ["base_lin_vel", *TERMS]
    assert any("leg odometry" in line for line in imported.assumed)
    assert list(imported.bundle.contract.joints) == GYM
    assert any("MuJoCo" in line for line in imported.assumed)


def test_joints_numbered_in_the_mujoco_model(tmp_path: Path) -> None:
    mapping = [GYM.index(name) for name in ISAAC]
    source = gym(tmp_path / "in", leg_joint2motor_idx=None, mapping_joints=mapping)
    contract = bring_in(source, tmp_path / "out").contract
    assert list(contract.joints) == ISAAC
    assert contract.default_position == tuple(off_pose(ISAAC))


def test_himloco_is_known_by_its_six_frames(tmp_path: Path) -> None:
    source = gym(tmp_path / "in", 6 * SIZE, num_obs=64, num_obs_current=SIZE)
    bundle = bring_in(source, tmp_path / "out")
    (group,) = bundle.contract.observations
    assert names(bundle)[:3] == ["velocity_command", "base_ang_vel", "projected_gravity"]
    assert (group.layout, group.newest, group.terms[0].history) == ("by_frame", "first", 6)


def test_a_fork_with_scalar_gains_history_and_its_own_order(tmp_path: Path) -> None:
    changes = {"kps": None, "kds": None, "ctrl_kp": 20.0, "ctrl_kd": 0.5, "num_obs": None}
    source = gym(tmp_path / "in", 10 * SIZE, num_single_obs=SIZE, frame_stack=10, **changes)
    bundle = bring_in(source, tmp_path / "out")
    assert bundle.contract.kp == (20.0,) * JOINTS
    assert names(bundle)[:3] == ["velocity_command", "projected_gravity", "base_ang_vel"]
    given = {"terms": TERMS, "newest": "first"}
    bundle = bring_in(source, tmp_path / "set", given)
    assert names(bundle) == TERMS
    assert bundle.contract.observations[0].newest == "first"


def test_a_pose_in_motor_order_is_recognised_because_no_other_fits(tmp_path: Path) -> None:
    source = gym(
        tmp_path / "in",
        leg_joint2motor_idx=[SDK.index(name) for name in ISAAC],
        default_angles=off_pose(SDK),
    )
    imported = bring_in_with_notes(source, tmp_path / "out")
    assert imported.bundle.contract.default_position == tuple(off_pose(ISAAC))
    assert any("motor order" in line for line in imported.assumed)


def test_what_no_frame_can_be_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="--set terms"):
        bring_in(gym(tmp_path / "in", 52, num_obs=52), tmp_path / "out")


# ---- rl_sar, as it was and as quadruped_ros2_control has it


def flat(folder: Path, **changes: Any) -> Path:
    content = {
        "model_name": "policy.onnx",
        "framework": "isaacgym",
        "decimation": 4,
        "num_observations": SIZE,
        "observations": ["commands", "ang_vel", "gravity_vec", "dof_pos", "dof_vel", "actions"],
        "observations_history": [1, 0],
        "clip_obs": 100.0,
        "rl_kp": [20.0] * JOINTS,
        "rl_kd": [0.5] * JOINTS,
        "hip_scale_reduction": 0.5,
        "hip_scale_reduction_indices": [0, 3, 6, 9],
        "num_of_dofs": JOINTS,
        "action_scale": 0.25,
        "lin_vel_scale": 2.0,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "commands_scale": [2.0, 2.0, 0.25],
        **changes,
    }
    put_network(folder / "himloco" / "policy.onnx", 2 * SIZE)
    return dump(folder / "himloco" / "config.yaml", content).parent


def test_old_rl_sar_asks_for_what_it_never_had(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"--set joints(.|\n)*--set default_position(.|\n)*rate_hz"):
        bring_in(flat(tmp_path / "in"), tmp_path / "out")
    given = {"joints": "gym", "default_position": off_pose(GYM), "rate_hz": 50}
    contract = bring_in(flat(tmp_path / "in"), tmp_path / "out", given).contract
    assert contract.action.scale[:3] == (0.125, 0.25, 0.25)
    imported = bring_in_with_notes(flat(tmp_path / "in"), tmp_path / "again", given)
    assert imported.open_orders == {"newest": ("last", "first")}  # readers of this form differ


def test_quadruped_ros2_control_has_the_rest_in_robot_control_yaml(tmp_path: Path) -> None:
    source = flat(tmp_path / "in")
    parameters = {"update_rate": 200, "joints": GYM, "stand_pos": off_pose(GYM)}
    content = {"rl_quadruped_controller": {"ros__parameters": parameters}}
    dump(tmp_path / "in" / "robot_control.yaml", content)
    contract = bring_in(source, tmp_path / "out").contract
    assert (contract.rate_hz, list(contract.joints)) == (50.0, GYM)
    assert contract.observations[0].newest == "first"  # its list is read from the back


# ---- legged_rl_deploy


def test_legged_rl_deploy(tmp_path: Path) -> None:
    clip = {"min": -100.0, "max": 100.0}
    pose = off_pose(GYM)
    policy = {
        "model_path": "src/legged_rl_deploy/policies/go2/trot/policy.onnx",
        "policy_dt": 0.02,
        "joint_ids_map": [SDK.index(name) for name in GYM],
        "stiffness": 20.0,
        "damping": 0.5,
        "actions": {
            "JointPositionAction": {
                "process_order": ["clip", "scale", "offset"],
                **clip,
                "scale": 0.25,
                "offset": pose,
            }
        },
        "commands": {"base_velocity": None},
        "observations": {
            "stack": {"length": 10, "order": "oldest_first"},
            "terms": {
                "gait_phase_2": {"params": {"cycle_time": 0.5}, "process_order": ["clip"], **clip},
                "velocity_commands": {
                    "process_order": ["scale", "clip"],
                    "scale": [2.0, 2.0, 0.25],
                    **clip,
                },
                "base_ang_vel_B": None,
                "eulerZYX_rpy": None,
                "joint_pos": {"process_order": ["offset"], "offset": [-value for value in pose]},
                "joint_vel": {"process_order": ["scale", "clip"], "scale": 0.05, **clip},
                "last_action": None,
            },
        },
    }
    source = dump(tmp_path / "trot" / "config.yaml", {"ll_dt": 0.005, "policy": policy}).parent
    put_network(source / "policy.onnx", 10 * (SIZE + 2))
    bundle = bring_in(source, tmp_path / "out")
    assert names(bundle)[:4] == [
        "gait_phase",
        "velocity_command",
        "base_ang_vel",
        "roll_pitch_yaw",
    ]
    assert names(bundle)[4] == "joint_pos_rel"
    (group,) = bundle.contract.observations
    assert (group.clip_first, group.newest) == (False, "last")
    assert bundle.contract.action.clip == ((-100.0, 100.0),) * JOINTS


# ---- holosoma


def test_holosoma(tmp_path: Path) -> None:
    g1 = load_robot("g1")
    joints = g1.joint_count
    model = onnx.load_model_from_string(network(13 + 3 * joints, joints))
    ranges = {"lin_vel_x": [-1.0, 1.0], "lin_vel_y": [-1.0, 1.0], "ang_vel_yaw": [-1.0, 1.0]}
    metadata = {
        "dof_names": json.dumps(g1.joint_names),
        "kp": json.dumps([40.0] * joints),
        "kd": json.dumps([2.0] * joints),
        "command_ranges": json.dumps(ranges),
    }
    helper.set_model_props(model, metadata)
    onnx.save(model, tmp_path / "walk.onnx")
    contract = bring_in(tmp_path / "walk.onnx", tmp_path / "out").contract
    assert contract.robot == "g1"
    assert contract.default_position[3] == 0.669  # a bent knee
    helper.set_model_props(model, {**metadata, "command_ranges": "null"})
    onnx.save(model, tmp_path / "dance.onnx")
    with pytest.raises(Refusal, match="reference motion"):
        bring_in(tmp_path / "dance.onnx", tmp_path / "other")
    for key, odd in (("dof_names", "1e999"), ("kp", "{}"), ("kd", "[" * 100_000), ("kp", "[NaN]")):
        helper.set_model_props(model, {**metadata, key: odd})
        onnx.save(model, tmp_path / f"{key}.onnx")
        network_file.metadata.cache_clear()
        with pytest.raises(Refusal, match=key):
            bring_in(tmp_path / f"{key}.onnx", tmp_path / "odd")


# ---- whatever it is


def test_a_folder_of_policies_is_listed_and_one_alone_is_taken(tmp_path: Path) -> None:
    write_params(tmp_path / "all" / "flat" / "v0")
    assert bring_in(tmp_path / "all", tmp_path / "out").contract.rate_hz == 50.0
    write_params(tmp_path / "all" / "rough" / "v0")
    with pytest.raises(Refusal, match=r"holds 2 policies(.|\n)*flat(.|\n)*rough"):
        bring_in(tmp_path / "all", tmp_path / "other")


def test_a_git_lfs_pointer_is_named_as_one(tmp_path: Path) -> None:
    source = write_params(tmp_path / "in")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1127191\n"
    (source / "exported" / "policy.onnx").write_bytes(pointer)
    with pytest.raises(Refusal, match="git lfs pull"):
        bring_in(source, tmp_path / "out")


def test_a_network_alone_is_sent_to_policy_new(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="sim2real policy new"):
        bring_in(put_network(tmp_path / "policy.onnx"), tmp_path / "out")


def test_a_stock_task_with_a_clock_has_it_in_its_place(tmp_path: Path) -> None:
    source = put_network(tmp_path / "policy.onnx", SIZE + 2)
    write_skeleton(source, GO2, tmp_path / "mine", "unitree_rl_mjlab")
    terms = bring_in(tmp_path / "mine", tmp_path / "out").contract.observations[0].terms
    assert [term.name for term in terms][2:4] == ["velocity_command", "gait_phase"]
    assert terms[3].params == {"period": 0.6, "zero_below": 0.1}


def test_a_stock_task_on_rough_ground_sees_it_after_everything_else(tmp_path: Path) -> None:
    source = put_network(tmp_path / "policy.onnx", SIZE + 3 + 17 * 11)
    write_skeleton(source, GO2, tmp_path / "mine", "isaac_lab")
    terms = bring_in(tmp_path / "mine", tmp_path / "out").contract.observations[0].terms
    assert [term.name for term in terms] == ["base_lin_vel", *TERMS, "height_scan"]
    assert terms[-1].params["count"] == 17 * 11
    assert terms[-1].params["flat"] == pytest.approx(GO2.base_height - 0.5)
    assert terms[-1].clip == (-1.0, 1.0)


def test_networks_in_a_folder_below_are_listed(tmp_path: Path) -> None:
    for name in ("flat", "rough"):
        (tmp_path / "in" / "models").mkdir(parents=True, exist_ok=True)
        put_network(tmp_path / "in" / "models" / f"{name}.onnx")
    with pytest.raises(Refusal, match=r"policy new(.|\n)*flat\.onnx(.|\n)*rough\.onnx"):
        bring_in(tmp_path / "in", tmp_path / "out")
