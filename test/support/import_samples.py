"""Policies as other projects write them, made on the spot for the Go2 with a small network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.importers.assemble import Imported, import_policy
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.robots import load_robot
from support.places import SHARED_DATA
from support.policy_samples import network

GO2 = load_robot("go2")
JOINTS = GO2.joint_count
ISAAC = list(GO2.joint_orders["isaac"])
RANGES = {"vx": [-1.0, 1.0], "vy": [-0.5, 0.5], "wz": [-1.0, 1.0]}
SHARED = SHARED_DATA / "policies"


def refuse_torch(path: Path, sizes: Sequence[int]) -> bytes:
    raise AssertionError(f"{path} ({sizes}) needs no conversion")


def bring_in(source: Path, folder: Path, given: dict[str, Any] | None = None) -> Bundle:
    return bring_in_with_notes(source, folder, given).bundle


def bring_in_with_notes(
    source: Path, folder: Path, given: dict[str, Any] | None = None
) -> Imported:
    return import_policy(source, folder, Answers(given), refuse_torch)


def pose(names: list[str]) -> list[float]:
    """A little off the stand pose, so that a value on the wrong joint shows."""
    stand = dict(zip(GO2.joint_names, GO2.stand_pose.tolist(), strict=True))
    return [round(stand[name] + 0.01 * GO2.joint_names.index(name), 4) for name in names]


def deploy_content(**changes: Any) -> dict[str, Any]:
    """A deploy.yaml whose gains differ by motor, in the motors' order."""
    ones = [1.0] * JOINTS
    terms = {
        "base_ang_vel": [0.2] * 3,
        "projected_gravity": [1.0] * 3,
        "velocity_commands": [1.0] * 3,
        "joint_pos_rel": ones,
        "joint_vel_rel": [0.05] * JOINTS,
        "last_action": ones,
    }
    content = {
        "joint_ids_map": [GO2.joint_names.index(name) for name in ISAAC],
        "step_dt": 0.02,
        "stiffness": [20.0 + motor for motor in range(JOINTS)],
        "damping": [0.5 + 0.01 * motor for motor in range(JOINTS)],
        "default_joint_pos": pose(ISAAC),
        "commands": {
            "base_velocity": {
                "ranges": {
                    "lin_vel_x": [-1.0, 1.0],
                    "lin_vel_y": [-0.4, 0.4],
                    "ang_vel_z": [-1.0, 1.0],
                    "heading": None,
                }
            }
        },
        "actions": {
            "JointPositionAction": {
                "clip": None,
                "joint_names": [".*"],
                "scale": [0.25] * JOINTS,
                "offset": pose(ISAAC),
                "joint_ids": None,
            }
        },
        "observations": {
            name: {"params": {}, "clip": None, "scale": scale, "history_length": 1}
            for name, scale in terms.items()
        },
    }
    return {**content, **changes}


def write_deploy(folder: Path, content: dict[str, Any], model: bytes | None = None) -> Path:
    (folder / "params").mkdir(parents=True, exist_ok=True)
    (folder / "exported").mkdir(exist_ok=True)
    (folder / "params" / "deploy.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    plain = network(9 + 3 * JOINTS, JOINTS)
    (folder / "exported" / "policy.onnx").write_bytes(plain if model is None else model)
    return folder
