"""The limits: each one alone, and no sequence of commands gets past all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.control import limits, limits_reference
from sim2real_deploy.control.limits import Limit, Limiter, pd_torque
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.robots import JointCommand, load_robot
from support.policy_samples import make_state

SPEC = load_robot("go2")
N = SPEC.joint_count
STAGE = load_stage("tether")


def command(**changes) -> JointCommand:
    zeros = np.zeros(N, np.float32)
    values = {
        "q": SPEC.stand_pose.copy(),
        "dq": zeros.copy(),
        "kp": np.full(N, 25, np.float32),
        "kd": np.full(N, 0.5, np.float32),
        "torque": zeros.copy(),
    }
    values.update({name: np.asarray(value, np.float32) for name, value in changes.items()})
    return JointCommand(**values)


def with_joint(values: np.ndarray, joint: int, value: float) -> np.ndarray:
    changed = values.astype(np.float32)
    changed[joint] = value
    return changed


def apply(limiter: Limiter, asked: JointCommand, state, fraction: float) -> JointCommand | None:
    return limiter.limit(asked, state, fraction)


def acted(limiter: Limiter) -> np.ndarray:
    return np.frombuffer(limiter.acted, np.uint8)


def fresh(q: np.ndarray = SPEC.stand_pose) -> Limiter:
    limiter = Limiter(SPEC, STAGE)
    limiter.restart(q)
    return limiter


def test_what_is_inside_passes_unchanged():
    limiter = fresh()
    asked = command(q=SPEC.stand_pose + 0.05)
    sent = apply(limiter, asked, make_state(SPEC), 1.0)
    np.testing.assert_array_equal(sent.q, asked.q)
    assert not any(limiter.acted)


@pytest.mark.parametrize("field", ["q", "dq", "kp", "kd", "torque"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_is_not_sent(field, value):
    limiter = fresh()
    asked = command()
    getattr(asked, field)[3] = value
    assert apply(limiter, asked, make_state(SPEC), 1.0) is None
    assert limiter.acted[3] == Limit.FINITE
    assert not acted(limiter)[[0, 1, 2, 4]].any()


@pytest.mark.parametrize("side", [-1, 1])
def test_joint_range_is_soft(side):
    edge = SPEC.position_low if side < 0 else SPEC.position_high
    near = edge - side * np.float32(0.05)
    limiter = fresh(near)
    sent = apply(limiter, command(q=edge + side), make_state(SPEC, q=near), 1.0)
    np.testing.assert_allclose(sent.q, edge - side * STAGE.joint_margin, atol=1e-6)
    assert np.all(acted(limiter) & Limit.RANGE)


def test_a_target_moves_one_step_a_tick():
    limiter = fresh()
    asked = command(q=SPEC.stand_pose + 0.3, kp=np.ones(N))
    for ticks in (1, 2):
        sent = apply(limiter, asked, make_state(SPEC), 1.0)
        np.testing.assert_allclose(sent.q, SPEC.stand_pose + ticks * STAGE.joint_step, atol=1e-6)
        assert np.all(acted(limiter) == Limit.STEP)
    apply(limiter, asked, make_state(SPEC), 1.0)
    assert not any(limiter.acted)


def test_asked_velocity_is_held():
    limiter = fresh()
    asked = command(dq=np.full(N, 1e6), kd=np.full(N, 0.01))
    sent = apply(limiter, asked, make_state(SPEC), 1.0)
    np.testing.assert_allclose(sent.dq, SPEC.velocity_limit * STAGE.joint_velocity_fraction)
    assert np.all(acted(limiter) & Limit.VELOCITY)


@pytest.mark.parametrize("way", [-1, 1])
def test_a_joint_too_fast_is_braked_never_driven_on(way):
    limiter = fresh()
    state = make_state(SPEC, dq=with_joint(np.zeros(N), 4, way * 29.0))
    onward = with_joint(SPEC.stand_pose, 4, SPEC.stand_pose[4] + way * 0.1)
    sent = apply(limiter, command(q=onward, kp=np.full(N, 200)), state, 1.0)
    assert pd_torque(sent, state)[4] == pytest.approx(0.0, abs=1e-3)
    assert limiter.acted[4] == Limit.VELOCITY
    back = with_joint(SPEC.stand_pose, 4, SPEC.stand_pose[4] - way * 0.1)
    sent = apply(fresh(), command(q=back), state, 1.0)
    assert pd_torque(sent, state)[4] * way < -1.0


@pytest.mark.parametrize("derating", [1.0, 0.5])
def test_pd_torque_is_held_by_moving_the_target(derating):
    limiter = fresh()
    asked = command(q=with_joint(SPEC.stand_pose, 1, 0.9), kp=np.full(N, 1000))
    state = make_state(SPEC)
    sent = apply(limiter, asked, state, derating)
    most = SPEC.torque_limit[1] * STAGE.torque_fraction * derating
    assert pd_torque(sent, state)[1] == pytest.approx(most, rel=1e-4)
    assert sent.torque[1] == 0.0
    assert SPEC.stand_pose[1] < sent.q[1] < 0.9
    assert limiter.acted[1] == Limit.TORQUE


def test_feed_forward_takes_off_what_the_target_cannot():
    limiter = fresh()
    state = make_state(SPEC)
    sent = apply(limiter, command(kp=np.zeros(N), torque=np.full(N, 1e30)), state, 1.0)
    np.testing.assert_allclose(
        pd_torque(sent, state), SPEC.torque_limit * STAGE.torque_fraction, rtol=1e-5
    )
    assert np.all(acted(limiter) & Limit.TORQUE)


def test_zero_torque_fraction_leaves_no_torque():
    state = make_state(SPEC, q=SPEC.stand_pose + 0.2)
    sent = apply(fresh(), command(), state, 0.0)
    np.testing.assert_allclose(pd_torque(sent, state), 0.0, atol=1e-3)


numbers = st.one_of(
    st.floats(-3.25, 3.25, width=32),
    st.sampled_from([1e30, -1e30, 3e38, -3e38, np.nan, np.inf, -np.inf, 0.0]),
)
vectors = st.lists(numbers, min_size=N, max_size=N)
poses = st.lists(st.floats(-4.5, 4.5, width=32), min_size=N, max_size=N)
speeds = st.lists(st.floats(-60, 60, width=32), min_size=N, max_size=N)


@settings(max_examples=150, deadline=None)
@given(
    ticks=st.lists(st.tuples(vectors, poses, speeds), min_size=1, max_size=5),
    stage=st.sampled_from(["tether", "indoor", "outdoor", "field"]),
    kp=st.sampled_from([0.0, 20.0, 60.0, 237.0]),
    fraction=st.floats(0, 1, width=32),
)
def test_nothing_gets_past_the_limits(ticks, stage, kp, fraction):
    rules = load_stage(stage)
    limiter = Limiter(SPEC, rules)
    limiter.restart(np.array(ticks[0][1], np.float32))
    last_q = limiter.sent.q.copy()
    for q, measured, speed in ticks:
        state = make_state(SPEC, q=np.array(measured, np.float32), dq=np.array(speed, np.float32))
        asked = command(q=q, kp=np.full(N, kp), kd=np.full(N, 5.0))
        sent = apply(limiter, asked, state, fraction)
        if sent is None:
            assert not np.isfinite(asked.q).all()
            continue
        assert np.isfinite([sent.q, sent.dq, sent.kp, sent.kd, sent.torque]).all()
        assert np.all(sent.q >= SPEC.position_low + rules.joint_margin - 1e-6)
        assert np.all(sent.q <= SPEC.position_high - rules.joint_margin + 1e-6)
        torque = pd_torque(sent, state)
        most = SPEC.torque_limit * rules.torque_fraction * fraction
        assert np.all(np.abs(torque) <= most + 0.01)
        fast = np.abs(state.dq) > SPEC.velocity_limit * rules.joint_velocity_fraction
        assert np.all((torque * np.sign(state.dq))[fast] <= 0.01)
        moved = np.abs(sent.q - last_q) > rules.joint_step + 1e-5
        assert np.all(acted(limiter)[moved] & (Limit.TORQUE | Limit.VELOCITY))
        last_q = sent.q.copy()


def test_a_square_wave_is_cut_to_steps():
    limiter = fresh()
    state = make_state(SPEC)
    last = SPEC.stand_pose
    for tick in range(200):
        sent = apply(limiter, command(q=SPEC.stand_pose + (-1) ** tick), state, 1.0)
        assert np.max(np.abs(sent.q - last)) <= STAGE.joint_step + 1e-6
        last = sent.q.copy()


def test_what_is_asked_once_is_held_tick_after_tick():
    """Without a new target the limits still follow the state."""
    limiter, calm = fresh(), make_state(SPEC)
    asked = command(q=SPEC.stand_pose + 0.1)
    np.testing.assert_array_equal(limiter.limit(asked, calm, 1.0).q, asked.q)
    bent = make_state(SPEC, q=SPEC.stand_pose - 1.0)
    sent = limiter.limit(asked, bent, 1.0)
    most = SPEC.torque_limit * STAGE.torque_fraction
    assert np.all(np.abs(pd_torque(sent, bent)) <= most + 0.01)
    assert np.any(acted(limiter) & Limit.TORQUE)
    for _ in range(10):
        sent = limiter.limit(asked, calm, 1.0)
    np.testing.assert_array_equal(sent.q, asked.q)
    np.testing.assert_array_equal(sent.torque, 0.0)
    assert not any(limiter.acted)


def test_nothing_of_a_command_that_is_not_finite_stays():
    limiter, state = fresh(), make_state(SPEC)
    good = apply(limiter, command(), state, 1.0).copy()
    bad = command(kp=with_joint(np.full(N, 90), 2, np.nan))
    assert limiter.limit(bad, state, 1.0) is None
    np.testing.assert_array_equal(limiter.sent.block(), good.block())


whole_numbers = st.one_of(
    st.floats(-60, 60, width=32),
    st.sampled_from([0.0, -0.0, 1e30, -1e30, 3e38, np.nan, np.inf, -np.inf]),
)


@settings(max_examples=300, deadline=None)
@given(
    asked=st.lists(whole_numbers, min_size=5 * N, max_size=5 * N),
    last=poses,
    motion=st.lists(whole_numbers, min_size=2 * N, max_size=2 * N),
    fraction=st.floats(0, 1),
    tame=st.booleans(),
)
def test_the_compiled_limits_equal_their_reference_bit_for_bit(asked, last, motion, fraction, tame):
    """Also where a number is not finite: then what is sent is not either."""
    asked = np.array(asked, np.float32).reshape(5, N)
    motion = np.array(motion, np.float32).reshape(2, N)
    if tame:
        asked, motion = np.nan_to_num(asked, posinf=1) % 3, np.nan_to_num(motion, posinf=1) % 30
    bounds, results = Limiter(SPEC, STAGE).bounds, []
    with np.errstate(all="ignore"):
        for function in (limits.limit, limits_reference.limit):
            sent, bits = np.zeros((5, N), np.float32), np.zeros(N, np.uint8)
            sent[0] = np.clip(last, bounds[0], bounds[1])
            passed = function(asked, motion, fraction, bounds, sent, bits)
            results.append((passed, sent.tobytes() if np.isfinite(sent).all() else "nan", bits))
    assert results[0][:2] == results[1][:2]
    np.testing.assert_array_equal(results[0][2], results[1][2])


def test_a_state_that_is_not_finite_never_becomes_a_finite_command():
    for row, value in ((0, np.nan), (1, np.nan), (0, np.inf)):
        state = make_state(SPEC)
        setattr(state, "q" if row == 0 else "dq", with_joint(np.zeros(N), 4, value))
        sent = fresh().limit(command(), state, 1.0)
        assert not np.isfinite(sent.block()).all()
