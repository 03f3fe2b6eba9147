"""Policies that follow a recorded motion: its frames reach the network in their place and time."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import load_robot
from support.import_samples import bring_in
from support.policy_samples import make_state, network

G1 = load_robot("g1")
N = G1.joint_count
ISAAC = G1.joint_orders["isaac"]
MOTORS = [G1.joint_names.index(name) for name in ISAAC]
WAIST = [G1.joint_names.index(f"waist_{axis}_joint") for axis in ("yaw", "roll", "pitch")]
OBSERVED = 2 * N + 6 + 3 + 3 * N
FPS, START_S, END_S = 60.0, 0.5, 2.5
HALF = 0.5


def joints_at(time_s: float) -> np.ndarray:
    """In motor order, smooth, different for each joint."""
    return G1.stand_pose + 0.05 * np.sin(2.0 * time_s + np.arange(N))


def heading_at(time_s: float) -> float:
    return 0.3 + 0.4 * time_s


def about(axis: str, angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return {
        "x": np.array([[1, 0, 0], [0, c, -s], [0, s, c]]),
        "y": np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]),
        "z": np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]),
    }[axis]


def torso(base: np.ndarray, q: np.ndarray) -> np.ndarray:
    yaw, roll, pitch = q[WAIST]
    return base @ about("z", yaw) @ about("x", roll) @ about("y", pitch)


def facing(angle: float) -> np.ndarray:
    """A quaternion, w x y z."""
    return np.array([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)], np.float32)


def deploy_folder(folder: Path, **motion_state: Any) -> Path:
    """unitree_rl_lab's tree: config.yaml of the state machine, params/ and exported/."""
    place = folder / "config" / "policy" / "mimic" / "dance"
    for part in ("params", "exported"):
        (place / part).mkdir(parents=True)
    scale = {"motion_command": 2 * N, "motion_anchor_ori_b": 6, "base_ang_vel": 3}
    scale |= dict.fromkeys(("joint_pos_rel", "joint_vel_rel", "last_action"), N)
    default = [float(v) for v in G1.stand_pose[MOTORS]]
    content = {
        "joint_ids_map": MOTORS,
        "step_dt": 0.02,
        "stiffness": [40.0] * N,
        "damping": [2.0] * N,
        "default_joint_pos": default,
        "commands": {},
        "actions": {"JointPositionAction": {"scale": [0.25] * N, "offset": default}},
        "observations": {name: {"scale": [1.0] * size} for name, size in scale.items()},
    }
    (place / "params" / "deploy.yaml").write_text(yaml.safe_dump(content))
    (place / "exported" / "policy.onnx").write_bytes(network(OBSERVED, N))
    times = np.arange(200) / FPS
    rows = [[0, 0, 0.8, *facing(heading_at(t))[[1, 2, 3, 0]], *joints_at(t)] for t in times]
    np.savetxt(place / "params" / "dance.csv", rows, delimiter=",")
    state = {
        "motion_file": "config/policy/mimic/dance/params/dance.csv",
        "policy_dir": "config/policy/mimic/dance/",
        "fps": FPS,
        "time_start": START_S,
        "time_end": END_S,
        **motion_state,
    }
    states = {"Passive": {"id": 1}, "Mimic_Dance": {k: v for k, v in state.items() if v}}
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump({"FSM": states}))
    return place


def part(policy: Policy, name: str) -> np.ndarray:
    places = [i for i, label in enumerate(policy.labels) if label.startswith(f"{name}.")]
    return policy.observation[places]


def step(policy: Policy, q: np.ndarray, heading: float) -> None:
    policy.observe(make_state(G1, q=q.astype(np.float32), quaternion=facing(heading)), (0, 0, 0))
    policy.infer()


def test_a_robot_that_moves_as_the_motion_sees_no_difference(tmp_path: Path) -> None:
    """Facing another way than the recording; frames, recorded at 60 Hz, come at the policy's 50."""
    bundle = bring_in(deploy_folder(tmp_path / "in"), tmp_path / "out")
    claim = bundle.contract.motion
    assert claim is not None
    assert (claim.anchor, claim.frames, claim.source) == ("torso_link", 100, "dance.csv")
    assert bundle.contract.command_ranges.vx == (0.0, 0.0)
    policy = bundle.open()
    for count in range(90):
        time_s = START_S + count / 50
        step(policy, joints_at(time_s), heading_at(time_s) + 2.0)
        wanted = part(policy, "motion_command")
        np.testing.assert_allclose(wanted[:N], joints_at(time_s)[MOTORS], atol=1e-3)
        speed = (joints_at(time_s + 0.01) - joints_at(time_s - 0.01))[MOTORS] / 0.02
        np.testing.assert_allclose(wanted[N:], speed, atol=0.01)
        np.testing.assert_allclose(
            part(policy, "motion_anchor_ori_b"), [1, 0, 0, 1, 0, 0], atol=1e-3
        )


def test_the_anchor_is_compared_in_the_robots_own_frame(tmp_path: Path) -> None:
    policy = bring_in(deploy_folder(tmp_path / "in"), tmp_path / "out").open()
    step(policy, joints_at(START_S), heading_at(START_S))
    q = joints_at(START_S)
    q[WAIST] += (0.1, -0.2, 0.3)
    turned = heading_at(START_S) - 0.5
    step(policy, q, turned)
    now = START_S + 0.02
    wanted = torso(about("z", heading_at(now)), joints_at(now))
    robot = torso(about("z", turned), q)
    expected = (robot.T @ wanted)[:, :2].ravel()
    np.testing.assert_allclose(part(policy, "motion_anchor_ori_b"), expected, atol=2e-3)


def test_the_last_frame_stays_at_rest_and_a_reset_begins_again(tmp_path: Path) -> None:
    policy = bring_in(deploy_folder(tmp_path / "in"), tmp_path / "out").open()
    for _ in range(130):
        step(policy, joints_at(END_S), 0.0)
    wanted = part(policy, "motion_command")
    np.testing.assert_allclose(wanted[:N], joints_at(END_S - 0.02)[MOTORS], atol=1e-3)
    assert not wanted[N:].any()
    policy.reset()
    step(policy, joints_at(START_S), -1.0)
    wanted = part(policy, "motion_command")
    np.testing.assert_allclose(wanted[:N], joints_at(START_S)[MOTORS], atol=1e-3)
    np.testing.assert_allclose(part(policy, "motion_anchor_ori_b"), [1, 0, 0, 1, 0, 0], atol=1e-3)


def tracking_network(frames: int, names: tuple[str, ...]) -> onnx.ModelProto:
    """As whole_body_tracking exports: a time step in, that frame of the motion out."""
    times = np.arange(frames) / 50
    q = np.array([joints_at(t)[MOTORS] for t in times], np.float32)
    turns = np.array([[facing(0.0), facing(heading_at(t))] for t in times], np.float32)
    weights = HALF * np.random.default_rng(3).standard_normal((OBSERVED, N))
    held = {"W": weights.astype(np.float32), "q": q, "turns": turns}
    held["last"] = np.array(frames - 1, np.int64)
    shapes = {"actions": [1, N], "joint_pos": [1, N], "body_quat_w": [1, 2, 4]}
    nodes = [
        helper.make_node("MatMul", ["obs", "W"], ["actions"]),
        helper.make_node("Cast", ["time_step"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Squeeze", ["whole"], ["flat"]),
        helper.make_node("Min", ["flat", "last"], ["at"]),
        helper.make_node("Unsqueeze", ["at", "zero"], ["index"]),
        helper.make_node("Gather", ["q", "index"], ["joint_pos"]),
        helper.make_node("Gather", ["turns", "index"], ["body_quat_w"]),
    ]
    held["zero"] = np.array([0], np.int64)
    takes = [("obs", [1, OBSERVED]), ("time_step", [1, 1])]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "tracking",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in takes],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
            [numpy_helper.from_array(value, name) for name, value in held.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    metadata = {
        "joint_names": ",".join(ISAAC),
        "joint_stiffness": ",".join(["40.0"] * N),
        "joint_damping": ",".join(["2.0"] * N),
        "default_joint_pos": ",".join(f"{v:.3f}" for v in G1.stand_pose[MOTORS]),
        "command_names": "motion",
        "observation_names": ",".join(names),
        "action_scale": "0.25",
        "anchor_body_name": "torso_link",
        "body_names": "pelvis,torso_link",
    }
    helper.set_model_props(model, metadata)
    return model


NAMES = ("command", "motion_anchor_ori_b", "base_ang_vel", "joint_pos", "joint_vel", "actions")


def test_a_motion_inside_the_network_is_read_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "broken.yaml").write_text("{")  # of somebody else, a folder up
    onnx.save(tracking_network(120, NAMES), tmp_path / "in" / "policy.onnx")
    bundle = bring_in(tmp_path / "in" / "policy.onnx", tmp_path / "out")
    claim = bundle.contract.motion
    assert claim is not None
    assert (claim.anchor, claim.frames) == ("torso_link", 119)
    policy = bundle.open()
    for count in range(30):
        step(policy, joints_at(count / 50), 0.0)
    wanted = part(policy, "motion_command")
    np.testing.assert_allclose(wanted[:N], joints_at(29 / 50)[MOTORS], atol=1e-5)
    # The frame's anchor has turned since the first step, the robot's has not.
    turned = heading_at(29 / 50) - heading_at(0.0)
    yaws = torso(np.eye(3), joints_at(29 / 50))
    assert part(policy, "motion_anchor_ori_b")[0] == pytest.approx(
        (yaws.T @ torso_heading(turned))[0, 0], abs=0.05
    )


def torso_heading(turned: float) -> np.ndarray:
    """The motion's anchor, which stands upright, aligned with the robot's torso and turned."""
    start = torso(np.eye(3), joints_at(0.0))
    return about("z", float(np.arctan2(start[1, 0], start[0, 0])) + turned)


def test_a_bundle_holds_its_motion(tmp_path: Path) -> None:
    """Imported again it is the same; a file that claims other frames is refused."""
    first = bring_in(deploy_folder(tmp_path / "in"), tmp_path / "out")
    again = bring_in(first.folder, tmp_path / "again")
    assert again.contract.motion is not None
    one, other = first.open(), again.open()
    for policy in (one, other):
        step(policy, joints_at(START_S), 0.0)
    np.testing.assert_allclose(one.observation, other.observation, atol=1e-4)
    shutil.copytree(first.folder, tmp_path / "edited")
    file = tmp_path / "edited" / "policy.yaml"
    file.write_text(file.read_text().replace("frames: 100", "frames: 90"))
    with pytest.raises(Refusal, match="frames"):
        load_bundle(tmp_path / "edited", G1)


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        ({}, {"fps": None}, "frames per second"),
        ({"motion": "other.csv"}, {}, "other.csv' is not there.*--set motion"),
        ({"motion_start": 9.0}, {}, r"it lasts 3\.3 s"),
        ({"anchor": "head_link"}, {}, "'head_link'.*torso_link, pelvis"),
    ],
)
def test_what_a_motion_lacks_is_asked_for(
    tmp_path: Path, given: dict[str, Any], state: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        bring_in(deploy_folder(tmp_path / "in", **state), tmp_path / "out", given)


def test_the_rate_may_stand_in_the_files_name(tmp_path: Path) -> None:
    place = deploy_folder(tmp_path / "in", fps=None, motion_file=None)
    (place / "params" / "dance.csv").rename(place / "params" / "take_60hz.csv")
    claim = bring_in(place, tmp_path / "out", {"motion_end": 2.0}).contract.motion
    assert claim is not None
    assert claim.frames == 100  # from 0 s on: no state of the state machine names a motion


def test_a_file_that_is_no_motion_is_refused(tmp_path: Path) -> None:
    place = deploy_folder(tmp_path / "in")
    np.savetxt(place / "params" / "dance.csv", np.ones((9, 7 + N)), delimiter=",")
    with pytest.raises(Refusal, match="no quaternion"):
        bring_in(place, tmp_path / "out")
    (place / "params" / "dance.csv").write_text("time,left_hip\n0,1\n")
    with pytest.raises(Refusal, match="not rows of numbers"):
        bring_in(place, tmp_path / "out")


def test_a_policy_that_needs_its_place_in_the_world_is_refused(tmp_path: Path) -> None:
    names = (NAMES[0], "motion_anchor_pos_b", *NAMES[1:])
    onnx.save(tracking_network(20, names), tmp_path / "policy.onnx")
    with pytest.raises(Refusal, match="Wo-State-Estimation"):
        bring_in(tmp_path / "policy.onnx", tmp_path / "out")


@pytest.mark.slow
def test_check_tells_how_long_it_stayed_up(tmp_path: Path) -> None:
    """A network that knows nothing of balance falls once the rope is off."""
    from sim2real_deploy.gate import motion_check

    onnx.save(tracking_network(400, NAMES), tmp_path / "policy.onnx")
    outcome = motion_check.follow(bring_in(tmp_path / "policy.onnx", tmp_path / "out"), print)
    assert 0 < outcome.seconds < outcome.length
    assert not outcome.checks()[0].ok
