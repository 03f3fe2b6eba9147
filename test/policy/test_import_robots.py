"""For which robot a policy is taken where its joints alone do not tell, and robots on wheels."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.robots import robot_of_folder
from sim2real_deploy.robots import RobotSpec, load_robot
from support.import_samples import bring_in, bring_in_with_notes, deploy_content
from support.policy_samples import network

GO2W, H1_2 = load_robot("go2w"), load_robot("h1_2")
WHEELS = [joint.name for joint in GO2W.joints if joint.wheel]
LEGS = [joint.name for joint in GO2W.joints if not joint.wheel]


def put(folder: Path, form: str, content: Any, size: int, joints: int) -> Path:
    (folder / "params").mkdir(parents=True)
    (folder / "params" / form).write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "exported").mkdir()
    (folder / "exported" / "policy.onnx").write_bytes(network(size, joints))
    return folder


def deploy_for(spec: RobotSpec, **changes: Any) -> dict[str, Any]:
    count = spec.joint_count
    stand = [float(angle) for angle in spec.stand_pose]
    content = deploy_content(
        joint_ids_map=list(range(count)),
        stiffness=[20.0] * count,
        damping=[1.0] * count,
        default_joint_pos=stand,
    )
    content["actions"]["JointPositionAction"] |= {"scale": [0.25] * count, "offset": stand}
    for name in ("joint_pos_rel", "joint_vel_rel", "last_action"):
        content["observations"][name]["scale"] = [1.0] * count
    return content | changes


# ---- the robot in whose folder a deploy.yaml lies


@pytest.mark.parametrize(
    ("folder", "robot"),
    [
        ("deploy/robots/b2/config/policy/velocity/v0/params", "b2"),
        ("deploy/robots/g1_29dof/config/policy/velocity/v0/params", "g1"),
        ("logs/rsl_rl/unitree_b2_velocity/2026-01-02_03-04-05/params", "b2"),
        ("unitree_h1_2/params", "h1_2"),
        ("a2_seed_3/params", ""),
        ("my_go2_deploy/params", ""),
    ],
)
def test_a_robots_folder_names_it(folder: str, robot: str) -> None:
    assert robot_of_folder(Path("/data") / folder / "deploy.yaml") == robot


def test_motors_that_two_robots_have_are_those_of_the_folders_robot(tmp_path: Path) -> None:
    b2 = load_robot("b2")
    content = deploy_for(b2)
    size = 9 + 3 * b2.joint_count
    run = put(tmp_path / "robots" / "b2" / "v0", "deploy.yaml", content, size, b2.joint_count)
    imported = bring_in_with_notes(run, tmp_path / "out")
    assert imported.bundle.spec.name == "b2"
    assert any("in whose folder it lies" in line for line in imported.assumed)
    other = put(tmp_path / "run", "deploy.yaml", content, size, b2.joint_count)
    assert bring_in(other, tmp_path / "other").spec.name == "go2"


def test_a_folders_robot_that_does_not_fit_is_not_taken(tmp_path: Path) -> None:
    go2 = load_robot("go2")
    size = 9 + 3 * go2.joint_count
    run = put(tmp_path / "h1_2" / "v0", "deploy.yaml", deploy_for(go2), size, go2.joint_count)
    assert bring_in(run, tmp_path / "out").spec.name == "go2"


def test_damping_a_little_above_what_is_allowed_is_lowered_and_told(tmp_path: Path) -> None:
    count = H1_2.joint_count
    damping = [1.0] * count
    damping[3] = 10.1
    content = deploy_for(H1_2, damping=damping)
    folder = tmp_path / "robots" / "h1_2" / "v0"
    run = put(folder, "deploy.yaml", content, 9 + 3 * count, count)
    imported = bring_in_with_notes(run, tmp_path / "out")
    assert imported.bundle.contract.kd[3] == 10.0
    assert any(f"{H1_2.joint_names[3]} 10.1" in line for line in imported.assumed)
    damping[3] = 12.0
    (run / "params" / "deploy.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(Refusal, match="has 12"):
        bring_in(run, tmp_path / "refused")


# ---- wheels in Isaac Lab's env.yaml


def in_order(joints: list[str]) -> dict[str, Any]:
    return {"joint_names": joints, "preserve_order": True}


def wheeled(**changes: Any) -> dict[str, Any]:
    """As robot_lab writes the run of a robot on wheels: legs by position, wheels by velocity."""
    joints = [*LEGS, *WHEELS]
    functions = {
        "base_ang_vel": "base_ang_vel",
        "projected_gravity": "projected_gravity",
        "velocity_commands": "generated_commands",
        "joint_pos": "joint_pos_rel_without_wheel",
        "joint_vel": "joint_vel_rel",
        "actions": "last_action",
    }
    terms: dict[str, Any] = {
        name: {"func": f"robot_lab.mdp.observations:{function}", "params": {}}
        for name, function in functions.items()
    }
    for name in ("joint_pos", "joint_vel"):
        terms[name]["params"] = {"asset_cfg": in_order(joints)}
    kind = "isaaclab.envs.mdp.actions.joint_actions:Joint{}Action"
    return {
        "sim": {"dt": 0.005},
        "decimation": 4,
        "scene": {
            "robot": {
                "spawn": {"usd_path": "Robots/Unitree/Go2W/go2w.usd"},
                "init_state": {
                    "joint_pos": {
                        ".*_hip_joint": 0.0,
                        ".*_thigh_joint": 0.8,
                        ".*_calf_joint": -1.5,
                        ".*_foot_joint": 0.0,
                    }
                },
                "actuators": {
                    "legs": {
                        "joint_names_expr": ["^(?!.*_foot_joint).*"],
                        "stiffness": 25.0,
                        "damping": 0.5,
                    },
                    "wheels": {
                        "joint_names_expr": [".*_foot_joint"],
                        "stiffness": 0.0,
                        "damping": 0.5,
                    },
                },
            }
        },
        "actions": {
            "joint_pos": {
                "class_type": kind.format("Position"),
                **in_order(LEGS),
                "scale": {".*_hip_joint": 0.125, "^(?!.*_hip_joint).*": 0.25},
                "clip": {".*": [-100.0, 100.0]},
            },
            "joint_vel": {
                "class_type": kind.format("Velocity"),
                **in_order(WHEELS),
                "scale": 5.0,
                "use_default_offset": True,
            },
        },
        "observations": {"policy": {"concatenate_terms": True, **terms}},
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


def test_wheels_are_driven_by_velocity_after_the_legs(tmp_path: Path) -> None:
    run = put(tmp_path / "run", "env.yaml", wheeled(), 9 + 3 * 16, 16)
    contract = bring_in(run, tmp_path / "out").contract
    assert (contract.robot, list(contract.joints)) == ("go2w", [*LEGS, *WHEELS])
    assert list(contract.action.speeds) == WHEELS
    assert contract.action.scale == ((0.125, 0.25, 0.25) * 4) + (5.0,) * 4
    assert contract.action.offset[-4:] == (0.0,) * 4
    assert contract.kp == (25.0,) * 12 + (0.0,) * 4
    assert contract.action.clip is not None
    low, high = contract.action.clip[0]
    assert (low, high) == pytest.approx((-800.0, 800.0))
    assert contract.action.clip[-1][1] > 1e6


def test_how_far_wheels_have_turned_cannot_be_observed(tmp_path: Path) -> None:
    content = wheeled()
    content["observations"]["policy"]["joint_pos"]["func"] = "isaaclab.mdp:joint_pos_rel"
    run = put(tmp_path / "run", "env.yaml", content, 9 + 3 * 16, 16)
    with pytest.raises(Refusal, match="how far the wheels have turned"):
        bring_in(run, tmp_path / "out")


def test_an_action_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    content = wheeled()
    content["actions"]["joint_vel"]["class_type"] = "isaaclab.mdp:JointEffortAction"
    run = put(tmp_path / "run", "env.yaml", content, 9 + 3 * 16, 16)
    with pytest.raises(Refusal, match=r"actions\.joint_vel: only .*JointEffortAction"):
        bring_in(run, tmp_path / "out")


def test_a_machine_with_other_joints_fits_none_whatever_its_start_pose(tmp_path: Path) -> None:
    """A start pose told by `.*` fits every robot; the joints of the actions do not."""
    content = wheeled()
    content["scene"]["robot"]["spawn"] = {"usd_path": "rover/hero_vehicle.usd"}
    content["scene"]["robot"]["init_state"]["joint_pos"] = {".*": 0.0}
    content["actions"]["joint_vel"]["joint_names"] = ["wheel11_left_joint"]
    run = put(tmp_path / "run", "env.yaml", content, 9 + 3 * 16, 16)
    with pytest.raises(Refusal, match="fits no known robot") as refused:
        bring_in(run, tmp_path / "out")
    assert "wheel11_left_joint: matches no joint" in str(refused.value)
