"""mjlab's training runs: env.yaml beside a network that describes itself, and the network alone."""

from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml
from onnx import helper

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import load_robot
from support.import_samples import (
    GO2,
    JOINTS,
    bring_in,
    bring_in_with_notes,
    deploy_content,
    pose,
    write_deploy,
)
from support.policy_samples import network

GYM = list(GO2.joint_orders["gym"])
SIZE = 9 + 3 * JOINTS
NAMES = ["base_ang_vel", "projected_gravity", "command", "joint_pos", "joint_vel", "actions"]
G1 = load_robot("g1")
FINGERS = ["left_thumb_joint", "right_thumb_joint"]


def self_described(
    size: int, joints: list[str], moved: int, stand: list[float], names: list[str] = NAMES
) -> onnx.ModelProto:
    model = onnx.load_model_from_string(network(size, moved))
    numbers = {
        "joint_stiffness": [20.0] * len(joints),
        "joint_damping": [1.0] * len(joints),
        "default_joint_pos": stand,
        "action_scale": [0.25] * moved,
    }
    helper.set_model_props(
        model,
        {
            "joint_names": ",".join(joints),
            "command_names": "twist",
            "observation_names": ",".join(names),
            **{key: ",".join(map(str, values)) for key, values in numbers.items()},
        },
    )
    return model


def env(joints: list[str] | None = None, **terms: dict[str, Any]) -> dict[str, Any]:
    """What mjlab writes into params/env.yaml, as far as it matters."""
    usual: dict[str, dict[str, Any]] = {name: {"func": name} for name in NAMES}
    return {
        "decimation": 2,
        "scene": {"entities": {"robot": {}}},
        "sim": {"mujoco": {"timestep": 0.005}},
        "actions": {"joint_pos": {"actuator_names": joints or [".*"]}},
        "observations": {"actor": {"terms": {**usual, **terms}, "history_length": None}},
        "commands": {
            "twist": {
                "ranges": {"lin_vel_x": [-1, 2], "lin_vel_y": [-0.7, 0.7], "ang_vel_z": [-1, 1]}
            }
        },
    }


def run(folder: Path, model: onnx.ModelProto, content: dict[str, Any]) -> Path:
    (folder / "params").mkdir(parents=True)
    onnx.save(model, folder / "policy.onnx")
    (folder / "model_500.pt").write_bytes(b"a checkpoint of training")
    (folder / "params" / "env.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.mark.parametrize("named", [".", "policy.onnx", "params/env.yaml"])
def test_a_run_says_rate_ranges_and_terms(named: str, tmp_path: Path) -> None:
    model = self_described(SIZE + 2 * JOINTS, GYM, JOINTS, pose(GYM))
    content = env(joint_vel={"scale": 0.05, "clip": [-9, 9], "history_length": 3})
    imported = bring_in_with_notes(run(tmp_path / "run", model, content) / named, tmp_path / "out")
    contract = imported.bundle.contract
    assert (imported.form, contract.rate_hz) == ("mjlab env.yaml", 100.0)
    assert contract.command_ranges.vx == (-1.0, 2.0)
    (group,) = contract.observations
    velocity = next(term for term in group.terms if term.name == "joint_vel")
    assert (velocity.scale, velocity.clip, velocity.history) == (0.05, (-9.0, 9.0), 3)
    assert (group.layout, group.newest, group.start) == ("by_term", "last", "repeat")
    assert not imported.assumed


def test_a_run_that_moves_some_joints_holds_the_others_as_it_had_them(tmp_path: Path) -> None:
    legs = list(G1.joint_names[:15])
    joints = [*G1.joint_names, *FINGERS]
    stand = [0.0] * G1.joint_count
    stand[G1.joint_names.index("left_elbow_joint")] = 1.2
    model = self_described(9 + 3 * 15, joints, 15, [*stand, 0.0, 0.0])
    contract = bring_in(run(tmp_path / "run", model, env(legs)), tmp_path / "out").contract
    assert list(contract.joints) == legs
    held = {item.joint: item.position for item in contract.held}
    assert held["left_elbow_joint"] == 1.2
    assert set(held) == set(G1.joint_names[15:])  # and no fingers


def test_a_network_of_another_run_is_refused(tmp_path: Path) -> None:
    names = [*NAMES[:5], "height_scan"]
    model = self_described(SIZE, GYM, JOINTS, pose(GYM), names)
    with pytest.raises(Refusal, match=r"height_scan: env\.yaml has no such observation"):
        bring_in(run(tmp_path / "run", model, env()), tmp_path / "out")


def test_a_history_shows_in_the_size_of_the_networks_input(tmp_path: Path) -> None:
    onnx.save(self_described(4 * SIZE, GYM, JOINTS, pose(GYM)), tmp_path / "policy.onnx")
    imported = bring_in_with_notes(tmp_path / "policy.onnx", tmp_path / "out")
    (group,) = imported.bundle.contract.observations
    assert {term.history for term in group.terms} == {4}
    assert imported.open_orders == {"layout": ("by_term", "by_frame")}
    assert any("4 frames" in line for line in imported.assumed)


def test_a_command_beyond_the_velocity_has_a_value_until_it_is_sent(tmp_path: Path) -> None:
    names = [*NAMES, "swing_height"]
    onnx.save(self_described(SIZE + 1, GYM, JOINTS, pose(GYM), names), tmp_path / "policy.onnx")
    with pytest.raises(Refusal, match=r"--set extra='\{swing_height: \[0.0\]\}'"):
        bring_in(tmp_path / "policy.onnx", tmp_path / "out")
    given = {"extra": {"swing_height": [0.1]}}
    contract = bring_in(tmp_path / "policy.onnx", tmp_path / "out", given).contract
    last = contract.observations[0].terms[-1]
    assert last.name == "extra_command"
    assert last.params["default"] in ((0.1,), [0.1])


def test_a_deploy_yaml_of_legs_and_waist_holds_the_arms(tmp_path: Path) -> None:
    count = 15
    ones = [1.0] * count
    stand = G1.stand_pose.tolist()[:count]
    content = deploy_content(
        joint_ids_map=list(range(count)),
        stiffness=[40.0] * count,
        damping=[2.0] * count,
        default_joint_pos=stand,
    )
    content["actions"]["JointPositionAction"] |= {"scale": [0.25] * count, "offset": stand}
    for name in ("joint_pos_rel", "joint_vel_rel", "last_action"):
        content["observations"][name]["scale"] = ones
    folder = write_deploy(tmp_path / "run", content, network(9 + 3 * count, count))
    bundle = bring_in(folder, tmp_path / "out")
    assert bundle.spec.name == "g1"
    assert [item.joint for item in bundle.contract.held] == list(G1.joint_names[count:])
