"""Policy bundles: what is right runs, what is wrong is refused by the name of its field."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from support.places import SHARED_DATA
from support.policy_samples import PLAIN_TERMS, contract_for, make_state, network, write_bundle

SPEC = load_robot("go2")
N = SPEC.joint_count
SIZE = 9 + 3 * N
MODEL = network(SIZE, N)
SHARED = SHARED_DATA / "policies"


def load(folder: Path, model: bytes = MODEL, **changes):
    return load_bundle(write_bundle(folder, contract_for(SPEC, model, **changes), model), SPEC)


def test_targets_come_out_in_sdk_order(tmp_path):
    weights = np.zeros((SIZE, N), np.float32)
    weights[9 : 9 + N] = np.eye(N)  # action = joint_pos_rel, in the policy's order
    policy = load(tmp_path, network(SIZE, N, weights=weights)).open()
    offset = np.linspace(-0.1, 0.1, N, dtype=np.float32)
    policy.observe(make_state(SPEC, q=SPEC.stand_pose + offset), np.zeros(3, np.float32))
    np.testing.assert_allclose(policy.infer(), SPEC.stand_pose + 0.25 * offset, atol=1e-6)


def test_gains_are_mapped_by_name(tmp_path):
    policy = load(tmp_path, kp=[float(10 + i) for i in range(N)]).open()
    np.testing.assert_array_equal(policy.kp, np.arange(10, 10 + N)[::-1])


def test_the_command_is_clipped_to_what_was_trained(tmp_path):
    policy = load(tmp_path).open()
    policy.observe(make_state(SPEC), np.array([9, -9, 0.5], np.float32))
    where = policy.labels.index("velocity_command.0")
    np.testing.assert_allclose(policy.observation[where : where + 3], [1.0, -0.4, 0.5])


@pytest.mark.parametrize(("observed", "expected"), [("raw", 5.0), ("clipped", 1.0)])
def test_last_action_is_what_the_contract_says(tmp_path, observed, expected):
    weights = np.zeros((SIZE, N), np.float32)
    weights[3:6] = -5 / 1  # gravity z is -1 upright: every action is 5
    model = network(SIZE, N, weights=weights)
    action = contract_for(SPEC, model)["action"]
    action |= {"clip": [[-1.0, 1.0]] * N, "observed": observed}
    policy = load(tmp_path, model, action=action).open()
    state, still = make_state(SPEC), np.zeros(3, np.float32)
    policy.observe(state, still)
    np.testing.assert_allclose(policy.infer(), SPEC.stand_pose + 0.25, atol=1e-6)
    policy.observe(state, still)
    np.testing.assert_allclose(policy.observation[-N:], expected)


def test_a_recurrent_network_carries_its_state_and_forgets_it_on_reset(tmp_path):
    model = network(SIZE, N, weights=np.zeros((SIZE, N)), recurrent=True)
    policy = load(tmp_path, model, recurrence=[{"input": "h_in", "output": "h_out"}]).open()
    state, still = make_state(SPEC), np.zeros(3, np.float32)

    def three_steps() -> list[float]:
        found = []
        for _ in range(3):
            policy.observe(state, still)
            policy.infer()
            found.append(float(policy.action[0]))
        return found

    assert three_steps() == [0, 1, 2]
    policy.reset()
    assert three_steps() == [0, 1, 2]


def test_history_reaches_the_network(tmp_path):
    terms = [{**term, "history": 5} for term in PLAIN_TERMS]
    model = network(5 * SIZE, N)
    observations = [{"input": "obs", "terms": terms}]
    policy = load(tmp_path, model, observations=observations).open()
    assert len(policy.labels) == 5 * SIZE


def test_surprise_is_about_one_in_training_and_large_outside(tmp_path):
    statistics = [{"input": "obs", "mean": [0.0] * SIZE, "std": [1.0] * SIZE}]
    policy = load(tmp_path, statistics=statistics).open()
    policy.observation[:] = np.random.default_rng(0).standard_normal(SIZE)
    assert policy.surprise() == pytest.approx(1.0, abs=0.3)
    policy.observation[:] = 50.0
    assert policy.surprise() == pytest.approx(50.0)
    assert load(tmp_path / "untold").open().surprise() == 0.0


def test_two_sessions_of_one_bundle_do_not_share_state(tmp_path):
    bundle = load(tmp_path)
    first, second = bundle.open(), bundle.open()
    first.observe(make_state(SPEC, gyroscope=np.ones(3, np.float32)), np.zeros(3, np.float32))
    assert not second.observation.any()


def joints_with(name: str) -> list[str]:
    return [name, *list(SPEC.joint_names)[::-1][1:]]


def numbers(first: float, rest: float) -> list[float]:
    return [first] + [rest] * (N - 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"robot": "g1"}, "robot: made for 'g1'"),
        ({"joints": joints_with("tail")}, "joints: .*unknown to the robot: tail; missing: RL_calf"),
        ({"joints": list(SPEC.joint_names)[:-1]}, "default_position: 12 values for 11"),
        ({"kp": [25.0] * 3}, "kp: 3 values"),
        ({"kp": numbers(2500.0, 25.0)}, r"kp\.0: RL_calf_joint has 2500"),
        ({"kd": numbers(-0.5, 0.5)}, "kd: -0.5 is negative"),
        ({"kd": numbers(90.0, 0.5)}, r"kd\.0: RL_calf_joint"),
        ({"default_position": numbers(7.0, 0.0)}, r"default_position\.0: RL_calf_joint at 7"),
        ({"rate_hz": 60.0}, "rate_hz: 60 does not divide"),
        ({"rate_hz": float("nan")}, "rate_hz"),
        ({"format": 2}, "format"),
        ({"surprise": 1}, "surprise: unknown key"),
        ({"golden": []}, "golden"),
        (
            {"observations": [{"input": "obs", "terms": PLAIN_TERMS[:-1]}]},
            rf"observations\.0: 'obs' of the network has {SIZE} numbers .* has {SIZE - N}",
        ),
        (
            {"observations": [{"input": "x", "terms": PLAIN_TERMS}]},
            r"observations: the contract feeds .*'x'.*wants \['obs'\]",
        ),
        (
            {"statistics": [{"input": "obs", "mean": [0.0], "std": [1.0]}]},
            r"statistics\.0\.mean: 1 values",
        ),
        (
            {"statistics": [{"input": "y", "mean": [0.0], "std": [1.0]}]},
            r"statistics\.0\.input: there is no input 'y'",
        ),
        (
            {"recurrence": [{"input": "obs", "output": "actions"}]},
            "an input is fed more than once",
        ),
    ],
)
def test_a_wrong_claim_is_refused_by_its_field(tmp_path, changes, words):
    with pytest.raises(Refusal, match=words):
        load(tmp_path, **changes)


def test_a_missing_output_is_refused(tmp_path):
    action = {**contract_for(SPEC, MODEL)["action"], "output": "torques"}
    with pytest.raises(Refusal, match=r"action\.output: .*'torques'.*actions"):
        load(tmp_path, action=action)


def test_golden_actions_must_come_out_again(tmp_path):
    golden = contract_for(SPEC, MODEL)["golden"]
    golden[1]["action"][4] += 0.01
    with pytest.raises(Refusal, match=r"golden\.1\.action\.4"):
        load(tmp_path, golden=golden)


def test_golden_inputs_must_fit(tmp_path):
    golden = contract_for(SPEC, MODEL)["golden"]
    golden[0]["inputs"]["obs"].pop()
    with pytest.raises(Refusal, match=rf"golden\.0\.inputs\.obs: {SIZE - 1} values"):
        load(tmp_path, golden=golden)


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_changed_or_truncated_network_is_refused(tmp_path, damage):
    folder = write_bundle(tmp_path, contract_for(SPEC, MODEL), MODEL)
    changed = {
        "flip": MODEL[:200] + bytes([MODEL[200] ^ 1]) + MODEL[201:],
        "truncate": MODEL[:-1],
        "empty": b"",
    }[damage]
    (folder / "policy.onnx").write_bytes(changed)
    with pytest.raises(Refusal, match="sha256"):
        load_bundle(folder, SPEC)


def test_garbage_with_the_right_hash_is_refused(tmp_path):
    garbage = b"not a network"
    content = contract_for(SPEC, MODEL, sha256=hashlib.sha256(garbage).hexdigest())
    with pytest.raises(Refusal, match="not a network that can be run"):
        load_bundle(write_bundle(tmp_path, content, garbage), SPEC)


def test_a_network_not_of_float32_is_refused(tmp_path):
    from onnx import TensorProto, helper

    takes = helper.make_tensor_value_info("obs", TensorProto.DOUBLE, [1, SIZE])
    gives = helper.make_tensor_value_info("actions", TensorProto.DOUBLE, [1, SIZE])
    graph = helper.make_graph(
        [helper.make_node("Identity", ["obs"], ["actions"])], "policy", [takes], [gives]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    raw = model.SerializeToString()
    content = contract_for(SPEC, MODEL, sha256=hashlib.sha256(raw).hexdigest())
    with pytest.raises(Refusal, match="float32"):
        load_bundle(write_bundle(tmp_path, content, raw), SPEC)


def test_a_name_that_is_no_policy_lists_those_there_are():
    with pytest.raises(Refusal, match="policy 'nowhere'"):
        load_bundle("nowhere", SPEC)


def test_a_folder_without_a_network_is_refused(tmp_path):
    folder = write_bundle(tmp_path, contract_for(SPEC, MODEL), MODEL)
    (folder / "policy.onnx").unlink()
    with pytest.raises(Refusal, match=r"policy\.onnx: cannot be read"):
        load_bundle(folder, SPEC)


@pytest.mark.skipif(not SHARED.is_dir(), reason="no sample policies beside the checkout")
def test_a_policy_of_the_field_in_isaac_joint_order(tmp_path):
    """unitree_rl_lab's Go2 policy, described by hand from its deploy.yaml, keeps its stance."""
    source = SHARED / "unitree_rl_lab_go2"
    theirs = yaml.safe_load((source / "deploy.yaml").read_text())
    model = (source / "policy.onnx").read_bytes()
    offset = theirs["default_joint_pos"]
    terms = [
        {"name": "base_ang_vel", "scale": 0.2},
        {"name": "projected_gravity"},
        {"name": "velocity_command"},
        {"name": "joint_pos_rel"},
        {"name": "joint_vel", "scale": 0.05},
        {"name": "last_action"},
    ]
    policy = load(
        tmp_path,
        model,
        joints=[SPEC.joint_names[i] for i in theirs["joint_ids_map"]],
        default_position=offset,
        action={"output": "actions", "scale": [0.25] * N, "offset": offset, "observed": "raw"},
        observations=[{"input": "obs", "terms": terms}],
    ).open()
    pose = np.zeros(N, np.float32)
    pose[theirs["joint_ids_map"]] = offset
    for _ in range(5):
        policy.observe(make_state(SPEC, q=pose), np.zeros(3, np.float32))
        target = policy.infer()
    assert np.all(np.abs(target - pose) < 0.35)


def test_what_a_network_estimates_is_read_by_name(tmp_path):
    model = network(SIZE, N, told=3)
    told = {"output": "told", "names": ["missed_vx", "missed_vy", "missed_wz"]}
    told["units"] = ["m/s", "m/s", "rad/s"]
    policy = load(tmp_path, model, estimates=[told]).open()
    assert policy.estimated == ("missed_vx", "missed_vy", "missed_wz")
    state = make_state(SPEC, gyroscope=np.array([0.5, -1.0, 2.0], np.float32))
    policy.observe(state, (0.3, 0.0, 0.1))
    policy.infer()
    np.testing.assert_allclose(policy.estimates, [0.1, -0.2, 0.4], atol=1e-6)
    assert policy.missed == [0, 1, 2]
    assert load(tmp_path / "silent", model).open().missed == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"output": "gone"}, "no output 'gone'"),
        ({"names": ["a"], "units": ["1"]}, "has 3 numbers"),
        ({"units": ["1"]}, "units: 1 for 3 names"),
        ({"names": ["a", "a", "b"]}, "more than once"),
        ({"output": "actions"}, "is the action"),
    ],
)
def test_estimates_that_do_not_fit_the_network_are_refused(tmp_path, change, words):
    told = {"output": "told", "names": ["a", "b", "c"], "units": ["1"] * 3} | change
    with pytest.raises(Refusal, match=words):
        load(tmp_path, network(SIZE, N, told=3), estimates=[told])
