"""Compiled policy steps against Python's: the same states give the same bits."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim2real_deploy.compiled import AVAILABLE, unlocked
from sim2real_deploy.policy import compiled_network, compiled_step
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.compiled_step import CompiledStep
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import load_robot
from support.policy_samples import contract_for, make_state, network

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="numba is not installed")
SPEC = load_robot("go2")
WHEELED = load_robot("go2w")
SIZES = {
    "base_ang_vel": 3,
    "projected_gravity": 3,
    "velocity_command": 3,
    "joint_pos": 0,  # as many as there are joints
    "joint_pos_rel": 0,
    "joint_vel": 0,
    "last_action": 0,
}
number = st.floats(-50, 50, width=32)
factor = st.floats(0.01, 10)


@unlocked(compiled_step.__name__, compiled_network.__name__)
def step_once(step: CompiledStep, numbers, velocity, failing) -> bool:
    """One step, begun twice where it is `failing`: as if it had not been plain at first."""
    if failing:
        compiled_step.observe(step, numbers, velocity)
        compiled_step.infer(step)
        compiled_step.undo(step)
    if not compiled_step.observe(step, numbers, velocity) or not compiled_step.infer(step):
        compiled_step.undo(step)
        return False
    compiled_step.conclude(step)
    return True


@st.composite
def terms(draw, joints):
    """One term and its size."""
    name = draw(st.sampled_from([*SIZES, "roll_pitch_yaw", "constant", "gait_phase"]))
    size, params = SIZES.get(name, 0) or joints, {}
    if name == "roll_pitch_yaw":
        params["axes"] = draw(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=3))
        size = len(params["axes"])
    elif name == "constant":
        params["values"] = draw(st.lists(number, min_size=1, max_size=3))
        size = len(params["values"])
    elif name == "gait_phase":
        offsets = draw(st.lists(st.floats(-2, 2), min_size=1, max_size=4))
        part = draw(st.sampled_from(["both", "sin", "cos"]))
        params = {"period": draw(st.floats(0.2, 2)), "offsets": offsets, "part": part}
        size = len(offsets) * (2 if part == "both" else 1)
    scale = draw(factor | st.lists(factor, min_size=size, max_size=size))
    clip = draw(st.none() | st.tuples(st.floats(-5, -0.1), st.floats(0.1, 5)))
    return {"name": name, "scale": scale, "clip": clip, "params": params}, size


@st.composite
def contracts(draw):
    """A robot, a contract and its network."""
    spec = draw(st.sampled_from([SPEC, WHEELED]))
    drawn = draw(st.lists(terms(spec.joint_count), min_size=1, max_size=5))
    layout = draw(st.sampled_from(["by_term", "by_frame"]))
    history = [draw(st.integers(1, 4)) for _ in drawn]
    if layout == "by_frame":
        history = history[:1] * len(drawn)
    group = {
        "input": "obs",
        "terms": [term | {"history": n} for (term, _), n in zip(drawn, history, strict=True)],
        "clip_first": draw(st.booleans()),
        "layout": layout,
        "newest": draw(st.sampled_from(["first", "last"])),
        "start": draw(st.sampled_from(["repeat", "zeros"])),
    }
    size = sum(n * width for (_, width), n in zip(drawn, history, strict=True))
    recurrent, told = draw(st.booleans()), draw(st.integers(0, min(3, size)))
    model = network(size, spec.joint_count, recurrent=recurrent, told=told)
    content = contract_for(spec, model, observations=[group])
    action = content["action"]
    action["observed"] = draw(st.sampled_from(["raw", "clipped"]))
    if draw(st.booleans()):
        action["clip"] = [[-draw(factor), draw(factor)]] * spec.joint_count
    action["speeds"] = [spec.joint_names[at] for at in spec.wheels]
    if recurrent:
        content["recurrence"] = [{"input": "h_in", "output": "h_out"}]
    if told:
        names = [f"n{k}" for k in range(told)]
        content["estimates"] = [{"output": "told", "names": names, "units": ["1"] * told}]
    mean, std = [draw(number)] * size, [draw(st.floats(0, 5))] * size
    content["statistics"] = [{"input": "obs", "mean": mean, "std": std}]
    return spec, Contract(**content), model


def numbers_of(state):
    """As LiveState has them."""
    rest = np.zeros(3, np.float32)
    return np.concatenate([state.quaternion, state.gyroscope, rest, state.q, state.dq])


def result(policy):
    arrays = (policy.observation, policy.action, policy.target, policy.speed, policy.estimates)
    return [values.tobytes() for values in (*arrays, policy.session.before)]


def compare(policy: Policy, reference: Policy, states, velocities, failing=False) -> int:
    """Step both; how many steps were compiled."""
    count = 0
    for state, velocity in zip(states, velocities, strict=True):
        reference.observe(state, velocity)
        reference.infer()
        step = policy.compiled()
        if step is None:
            policy.observe(state, velocity)
            policy.infer()
        else:
            assert step_once(step, numbers_of(state), np.array(velocity), failing)
            policy.catch_up()
            count += 1
        assert result(policy) == result(reference)
        assert policy.steps == reference.steps
        assert policy.surprise() == reference.surprise()
    return count


def random_states(spec, seed, count):
    random = np.random.default_rng(seed)
    for _ in range(count):
        spread = random.choice([0.1, 3.0])
        turn = random.normal(0, 1, 4)
        yield make_state(
            spec,
            quaternion=(turn / np.linalg.norm(turn)).astype(np.float32),
            gyroscope=random.normal(0, spread, 3).astype(np.float32),
            q=(spec.stand_pose + random.normal(0, spread, spec.joint_count)).astype(np.float32),
            dq=random.normal(0, 10 * spread, spec.joint_count).astype(np.float32),
        )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(contracts(), st.integers(0, 2**32 - 1), st.booleans())
def test_a_compiled_step_equals_pythons_bit_for_bit(made, seed, failing):
    spec, contract, model = made
    policy, reference = (Policy(contract, spec, model, "here") for _ in range(2))
    policy.compile()
    policy.reset()
    random = np.random.default_rng(seed)
    velocities = random.normal(0, 1, (8, 3)).astype(np.float32).astype(float).tolist()
    states = [*random_states(spec, seed, 8)]
    assert compare(policy, reference, states, velocities, failing) == 7  # the first fills history


def test_shipped_policies_step_compiled_and_equal():
    for name in ("go2_walk", "go2_rough"):
        bundle = load_bundle(name, SPEC)
        policy, reference = bundle.open(), bundle.open()
        policy.compile()
        policy.reset()
        states = [*random_states(SPEC, 1, 60)]
        assert compare(policy, reference, states, [(0.5, 0.1, -0.2)] * 60) == 59


@pytest.mark.parametrize(
    "term",
    [
        {"name": "base_lin_vel"},
        {"name": "extra_command", "params": {"name": "height", "default": [0.3]}},
        {"name": "gait_phase", "params": {"period": 0.5, "zero_below": 0.1}},
    ],
)
def test_a_term_without_a_compiled_form_keeps_the_policy_in_python(term):
    model = network({"base_lin_vel": 3, "extra_command": 1, "gait_phase": 2}[term["name"]], 12)
    content = contract_for(SPEC, model, observations=[{"input": "obs", "terms": [term]}])
    policy = Policy(Contract(**content), SPEC, model, "here")
    policy.compile()
    policy.observe(make_state(SPEC), (0.0, 0.0, 0.0))
    policy.infer()
    assert policy.compiled() is None


def test_a_step_that_is_not_finite_is_undone():
    policy = load_bundle("go2_walk", SPEC).open()
    policy.compile()
    policy.reset()
    compare(policy, load_bundle("go2_walk", SPEC).open(), [make_state(SPEC)] * 3, [(0, 0, 0)] * 3)
    step, before = policy.compiled(), policy.observation.copy()
    wild = make_state(SPEC, q=np.full(12, 3e38, np.float32))  # twice that is observed
    assert not step_once(step, numbers_of(wild), np.zeros(3), False)
    np.testing.assert_array_equal(policy.observation, before)
    policy.catch_up()
    assert policy.steps == 3


def test_surprise_equals_its_plain_form():
    random = np.random.default_rng(2)
    seen = random.normal(0, 2, 30).astype(np.float32)
    statistics, judged = random.uniform(0.1, 3, (2, 30)), np.array([(0, 10), (12, 30)])
    quick = compiled_step.surprise(seen, statistics, judged)
    assert math.isclose(
        quick, compiled_step.plain_surprise(seen, statistics, judged), rel_tol=1e-12
    )
