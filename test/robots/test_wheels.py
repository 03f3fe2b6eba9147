"""A robot on wheels: they are commanded by velocity, bounded like any joint, and never by angle."""

import hashlib

import numpy as np
import pytest
import yaml

from sim2real_deploy import configfile, paths
from sim2real_deploy.control.hand_over import HandOver, command_of
from sim2real_deploy.control.limits import Limit, Limiter
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.robots.spec import Joint
from support.policy_samples import contract_for, make_state, network, write_bundle

SPEC = load_robot("go2w")
N, WHEELS = SPEC.joint_count, list(SPEC.wheels)
NAMES = SPEC.joint_names[::-1]  # a policy with another order than the robot
SIZE = 9 + 3 * N


def bundle(folder, weights=None, **changes):
    gains = [0.0 if name.endswith("foot_joint") else 40.0 for name in NAMES]
    pose = [float(SPEC.stand_pose[SPEC.joint_names.index(name)]) for name in NAMES]
    action = {
        "output": "actions",
        "scale": [5.0 if kp == 0 else 0.25 for kp in gains],
        "offset": pose,
        "speeds": [name for name in NAMES if name.endswith("foot_joint")],
        **changes.pop("action", {}),
    }
    model = network(SIZE, N, weights=weights)
    content = contract_for(
        SPEC,
        model,
        sha256=hashlib.sha256(model).hexdigest(),
        **{"joints": list(NAMES), "kp": gains, "default_position": pose, "action": action}
        | changes,
    )
    return load_bundle(write_bundle(folder, content, model), SPEC)


def test_a_wheels_action_is_a_speed_and_its_angle_is_not_observed(tmp_path):
    weights = np.zeros((SIZE, N))
    weights[6] = 1.0  # each action is the commanded vx
    policy = bundle(tmp_path / "p", weights).open()
    q = SPEC.stand_pose.copy()
    q[WHEELS] = 321.0
    policy.observe(make_state(SPEC, q=q), (0.5, 0.0, 0.0))
    seen = dict(zip(policy.labels, policy.observation.tolist(), strict=True))
    assert all(seen[f"joint_pos_rel.{SPEC.joint_names[w]}"] == 0.0 for w in WHEELS)
    target = policy.infer()
    np.testing.assert_allclose(policy.speed[WHEELS], 2.5)
    assert not target[WHEELS].any()
    legs = [j for j in range(N) if j not in WHEELS]
    assert not policy.speed[legs].any()
    np.testing.assert_allclose(target[legs], SPEC.stand_pose[legs] + 0.125, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action": {"speeds": []}}, "FR_foot_joint|foot_joint is a wheel: list it"),
        ({"action": {"speeds": ["FR_calf_joint"]}}, "is no wheel|is a wheel"),
        ({"action": {"scale": [40.0] * N}}, "action.scale"),
        ({"kp": [40.0] * N}, "driven by velocity"),
    ],
)
def test_a_contract_that_would_turn_a_wheel_by_angle_is_refused(tmp_path, changes, words):
    with pytest.raises(Refusal, match=words):
        bundle(tmp_path / "p", **changes)


def test_a_wheel_in_a_robots_file_has_no_stiffness():
    row = {"name": "w", "velocity": 30.0, "torque": 20.0, "stand": 0, "sit": 0, "damping": 0.5}
    joint = configfile.parse({**row, "kp": 0, "kd": 0.5, "wheel": True}, Joint, "file")
    assert joint.position[1] > 1e4
    with pytest.raises(Refusal, match="commanded by velocity alone"):
        configfile.parse({**row, "kp": 5.0, "kd": 0.5, "wheel": True}, Joint, "file")
    with pytest.raises(Refusal, match="position"):
        configfile.parse({**row, "kp": 0, "kd": 0.5}, Joint, "file")


def test_a_wheels_speed_and_torque_are_limited_wherever_it_stands():
    limiter = Limiter(SPEC, load_stage("field"))
    q = SPEC.stand_pose.copy()
    q[WHEELS] = -5000.0
    state = make_state(SPEC, q=q)
    limiter.restart(state.q)
    asked = JointCommand.of_block(np.zeros((5, N), np.float32))
    asked.q[:], asked.kp[:], asked.kd[:] = SPEC.stand_pose, SPEC.kp, SPEC.kd
    asked.kd[WHEELS], asked.dq[WHEELS] = 2.0, 1000.0
    sent = limiter.limit(asked, state, 1.0)
    acted = np.frombuffer(limiter.acted, np.uint8)[WHEELS]
    assert (acted & Limit.VELOCITY).all()
    assert not (acted & (Limit.RANGE | Limit.STEP)).any()
    torque = sent.kd * (sent.dq - state.dq) + sent.torque
    assert (np.abs(torque[WHEELS]) <= limiter.torque[WHEELS] + 1e-4).all()


def test_a_hand_over_blends_the_wheels_speed(tmp_path):
    policy = bundle(tmp_path / "p").open()
    policy.speed[WHEELS] = 4.0
    before = JointCommand.of_block(np.zeros((5, N), np.float32))
    asked = JointCommand.of_block(np.zeros((5, N), np.float32))
    pending = HandOver(before, 0, 1.0)
    pending.fill(policy, 500_000_000, asked)
    np.testing.assert_allclose(asked.dq[WHEELS], 2.0, atol=1e-6)
    assert pending.fill(policy, 1_000_000_000, asked)
    np.testing.assert_allclose(asked.dq, policy.speed)
    np.testing.assert_allclose(command_of(policy).dq, policy.speed)


def test_every_order_of_the_file_names_each_joint_once():
    content = yaml.safe_load(paths.config_file("robots/go2w.yaml").read_text())
    assert content["joint_orders"]["wire"][-4:] == [f"{leg}_foot_joint" for leg in content["legs"]]
