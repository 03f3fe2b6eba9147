"""The control core, tick by tick, without a clock or a wire."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.control.controller import STATE_TIMEOUT_NS, Controller
from sim2real_deploy.control.limits import Limit, pd_torque
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.safety.chain import CLEAR, Stop
from support.policy_samples import make_state, sample_bundle

SPEC = load_robot("go2")
N = SPEC.joint_count
TICK = 2_000_000
STAGE = load_stage("tether")
ESTOP = dataclasses.replace(CLEAR, stop=Stop.ESTOP, may_start=False, reason="button")
STOP = dataclasses.replace(CLEAR, stop=Stop.STOP, may_start=False, reason="battery low")


class Bench:
    """A robot that is always where its last command put it."""

    def __init__(self, policy, stage=STAGE):
        self.controller = Controller(SPEC, stage, policy)
        self.controller.situation.sport_released = True
        self.now = 0
        self.q = SPEC.sit_pose.copy()
        self.tick(1)

    def tick(self, count=1, verdict=CLEAR, silent=False):
        for _ in range(count):
            self.now += TICK
            state = make_state(SPEC, received_ns=self.now, tick=self.now // 1_000_000, q=self.q)
            sent = self.controller.step(None if silent else state, self.now, verdict)
            if sent is not None and sent.kp.any():
                self.q = sent.q.copy()
        return sent

    def until(self, mode, seconds=5.0):
        for _ in range(int(seconds * 500)):
            if self.controller.mode is mode:
                return
            self.tick()
        raise AssertionError(f"{self.controller.mode} and not {mode}: {self.controller.reason}")

    def ask(self, event):
        return self.controller.request(event, self.now)

    def walk(self):
        assert self.ask(ModeEvent.STAND).accepted
        self.until(Mode.STANDING)
        assert self.ask(ModeEvent.WALK).accepted
        self.tick()
        return self


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return load_bundle(sample_bundle(tmp_path_factory.mktemp("policy"), SPEC), SPEC)


@pytest.fixture
def bench(bundle):
    return Bench(bundle.open())


def is_damping(command) -> bool:
    return (
        not command.kp.any()
        and not command.torque.any()
        and not command.dq.any()
        and np.array_equal(command.kd, SPEC.damping)
    )


def test_nothing_is_sent_before_somebody_asks(bench):
    assert bench.tick(100) is None
    assert bench.controller.mode is Mode.PASSIVE


def test_stand_walk_sit_and_back_to_damping(bench):
    bench.walk()
    bench.tick(500)
    assert bench.controller.mode is Mode.WALKING
    assert bench.ask(ModeEvent.SIT).accepted
    bench.until(Mode.DAMPING)
    np.testing.assert_allclose(bench.q, SPEC.sit_pose, atol=0.05)
    assert is_damping(bench.tick())


def test_no_step_in_any_command_from_lying_to_walking_to_lying(bench):
    """The largest jump of a target between two ticks, over every hand-over."""
    last, jumps = bench.q.copy(), []

    def watch(count):
        nonlocal last
        for _ in range(count):
            sent = bench.tick()
            if sent is not None and sent.kp.any():
                jumps.append(float(np.max(np.abs(sent.q - last))))
                last = sent.q.copy()

    bench.ask(ModeEvent.STAND)
    watch(1500)
    bench.ask(ModeEvent.WALK)
    watch(150)
    assert bench.controller.mode is Mode.WALKING
    bench.ask(ModeEvent.STAND)
    watch(600)
    bench.ask(ModeEvent.SIT)
    watch(1000)
    assert bench.controller.mode is Mode.DAMPING
    assert max(jumps) < 0.02


def test_the_policy_runs_at_its_own_rate_from_the_first_tick(bench):
    bench.walk()
    steps = [bench.controller.walking.stepped]
    for _ in range(99):
        bench.tick()
        steps.append(bench.controller.walking.stepped)
    assert [i for i, stepped in enumerate(steps) if stepped] == list(range(0, 100, 10))


def test_ticks_lost_at_the_end_of_the_hand_over_leave_nothing_of_it(bench):
    bench.walk().tick(195)
    bench.now += 10 * TICK
    bench.tick(11)
    asked, policy = bench.controller.asked, bench.controller.policy
    np.testing.assert_array_equal(asked.kp, policy.kp)
    np.testing.assert_array_equal(asked.kd, policy.kd)
    np.testing.assert_array_equal(asked.q, policy.target)


def test_steps_that_come_more_than_a_period_late_are_counted(bench):
    bench.walk().tick(25)
    for late, counted in ((10, 0), (22, 1), (10, 1)):
        bench.now += late * TICK
        bench.tick(20)
        assert bench.controller.walking.late == counted


def test_lost_ticks_do_not_slow_the_policy(bench):
    bench.walk()
    steps = 0
    for i in range(1000):
        if i % 7 == 3:
            bench.now += TICK
            continue
        bench.tick()
        steps += bench.controller.walking.stepped
    assert steps == pytest.approx(100, abs=1)


@pytest.mark.parametrize("event", [ModeEvent.STAND, ModeEvent.WALK, ModeEvent.SIT, ModeEvent.DAMP])
def test_estop_damps_in_the_same_tick_and_holds(bench, event):
    bench.walk()
    assert is_damping(bench.tick(verdict=ESTOP))
    bench.ask(event)
    assert is_damping(bench.tick(10, ESTOP))
    assert bench.controller.mode is Mode.DAMPING


def test_after_a_reset_nothing_moves_by_itself_and_standing_is_possible(bench):
    bench.walk()
    bench.tick(verdict=ESTOP)
    assert is_damping(bench.tick(500))
    assert bench.ask(ModeEvent.STAND).accepted


def test_estop_damps_even_when_nothing_was_ever_sent(bench):
    assert is_damping(bench.tick(verdict=ESTOP))


def test_stop_sits_down_and_then_damps(bench):
    bench.walk()
    bench.tick(verdict=STOP)
    assert bench.controller.mode is Mode.SLOWING_DOWN
    bench.tick(160, STOP)
    assert bench.controller.mode is Mode.SITTING_DOWN
    assert bench.tick(2000, STOP).kd.any()
    assert bench.controller.mode is Mode.DAMPING
    assert not bench.ask(ModeEvent.STAND).accepted
    bench.tick()
    assert bench.ask(ModeEvent.STAND).accepted


def test_stop_at_speed_slows_down_before_it_sits(bench):
    bench.walk()
    for _ in range(800):
        bench.controller.velocity.offer(0.3, 0.0, 0.0, bench.now)
        bench.tick()
    assert bench.controller.velocity.shaped[0] == pytest.approx(0.3)
    speeds = []
    while bench.controller.mode in (Mode.WALKING, Mode.SLOWING_DOWN):
        bench.controller.velocity.offer(0.3, 0.0, 0.0, bench.now)  # whoever drives goes on
        bench.tick(verdict=STOP)
        speeds.append(bench.controller.velocity.shaped[0])
    assert bench.controller.mode is Mode.SITTING_DOWN
    assert speeds[-1] == 0.0
    assert speeds == sorted(speeds, reverse=True)
    assert 0.3 < len(speeds) * 0.002 <= 1.2


@pytest.mark.parametrize(
    ("then", "ends"), [("", "standing"), ("sit", "damping"), ("stop", "damping")]
)
def test_asked_to_stand_at_speed_it_slows_down_before_it_stands(bench, then, ends):
    """Held where it was in its step, at over a metre a second, it fell over in the twin."""
    bench.walk()
    for _ in range(800):
        bench.controller.velocity.offer(0.3, 0.0, 0.0, bench.now)
        bench.tick()
    assert bench.ask(ModeEvent.STAND).mode is Mode.SLOWING_DOWN
    bench.tick(50)
    assert bench.controller.velocity.shaped[0] > 0.0
    if then == "sit":
        assert bench.ask(ModeEvent.SIT).mode is Mode.SLOWING_DOWN
    modes = []
    while bench.controller.mode.words != ends and len(modes) < 5000:
        bench.tick(verdict=STOP if then == "stop" else CLEAR)
        modes.append(bench.controller.mode)
    seen = list(dict.fromkeys(modes))
    assert seen[0] is Mode.SLOWING_DOWN
    assert bench.controller.velocity.shaped[0] == 0.0
    then_modes = [Mode.SITTING_DOWN] if then else [Mode.STANDING_UP]
    assert seen[1:-1] == then_modes


def test_a_policy_that_fails_while_slowing_down_is_damped(bench, monkeypatch):
    bench.walk()
    bench.tick(3, STOP)

    def explode(*_):
        raise FloatingPointError

    monkeypatch.setattr(bench.controller.policy, "infer", explode)
    assert is_damping(bench.tick(12, STOP))
    assert bench.controller.policy_failed


def test_joints_that_do_not_follow_are_not_standing(bench):
    """By the clock it would stand now, and a policy would make its first step 1.2 rad off."""
    assert bench.ask(ModeEvent.STAND).accepted
    frozen = bench.q.copy()
    for _ in range(2500):
        bench.tick()
        bench.q = frozen.copy()
    assert bench.controller.mode is Mode.DAMPING
    assert "does not stand: " in bench.controller.reason
    assert not bench.ask(ModeEvent.WALK).accepted


def test_joints_that_are_late_may_still_reach_their_pose(bench):
    assert bench.ask(ModeEvent.STAND).accepted
    frozen = bench.q.copy()
    while bench.controller._reach_until_ns is None:
        bench.tick()
        reached, bench.q = bench.q, frozen.copy()
    bench.tick(100)
    bench.q = reached
    bench.until(Mode.STANDING, 0.1)


def test_walking_begins_with_sticks_at_rest(bench):
    assert bench.ask(ModeEvent.STAND).accepted
    bench.until(Mode.STANDING)
    bench.controller.velocity.offer(0.3, 0.0, 0.0, bench.now)
    refused = bench.ask(ModeEvent.WALK)
    assert not refused.accepted
    assert "planner commands (0.3, 0, 0)" in refused.words
    bench.controller.velocity.offer(0.0, 0.0, 0.0, bench.now)
    assert bench.ask(ModeEvent.WALK).accepted


def test_a_silent_supervisor_does_not_clear_a_fault_it_never_heard_of(bench):
    """Control fails, the supervisor dies before it hears of it, a new one comes up clear."""
    bench.walk()
    bench.controller.fail("the policy gave NaN", bench.now)
    silent = dataclasses.replace(ESTOP, healthy=False, reason="supervisor silent")
    bench.tick(50, silent)
    bench.tick(50)
    assert not bench.ask(ModeEvent.STAND).accepted
    bench.tick(1, ESTOP)  # the new one has heard of it and holds the latch
    bench.tick(1)  # and somebody has called reset
    assert bench.ask(ModeEvent.STAND).accepted


def test_what_would_be_decided_is_known_before_the_wire_is_claimed(bench):
    bench.controller.situation.sport_released = False
    assert bench.controller.foresee(ModeEvent.STAND, bench.now).accepted
    assert not bench.ask(ModeEvent.STAND).accepted, "foreseeing changes nothing"
    bench.controller.fail("broken", bench.now)
    assert "broken" in bench.controller.foresee(ModeEvent.STAND, bench.now).words


def test_estop_wins_over_sitting_down(bench):
    bench.walk()
    bench.tick(100, STOP)
    assert is_damping(bench.tick(verdict=ESTOP))


def test_derating_reaches_the_torque(bench):
    bench.walk()
    bench.tick(300)
    bench.q = bench.q + np.float32(0.5)
    state = make_state(SPEC, received_ns=bench.now + TICK, q=bench.q)
    weak = dataclasses.replace(CLEAR, torque_fraction=0.25)
    sent = bench.controller.step(state, bench.now + TICK, weak)
    assert np.all(np.abs(pd_torque(sent, state)) <= 0.25 * 0.8 * SPEC.torque_limit + 0.01)
    assert any(bits & Limit.TORQUE for bits in bench.controller.limiter.acted)


class Broken:
    """Stands in front of a real policy and spoils what it gives."""

    def __init__(self, policy, spoil):
        self._policy, self._spoil = policy, spoil

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def infer(self):
        target = self._policy.infer()
        self._spoil(target)
        return target


def raise_error(target):
    raise RuntimeError("the network is gone")


def put_nan(target):
    target[5] = np.nan


def put_infinity(target):
    target[0] = np.inf


@pytest.mark.parametrize("spoil", [raise_error, put_nan, put_infinity])
def test_a_broken_policy_is_damping_in_the_same_tick_and_latched(bundle, spoil):
    broken = []
    bench = Bench(Broken(bundle.open(), lambda target: spoil(target) if broken else None)).walk()
    bench.tick(500)
    broken.append(True)
    for _ in range(10):
        sent = bench.tick()
        assert is_damping(sent) is bench.controller.policy_failed
    assert bench.controller.policy_failed
    broken.clear()
    assert is_damping(bench.tick(500))
    assert "latched" in bench.ask(ModeEvent.STAND).words


def test_a_fault_of_our_own_is_lifted_by_the_supervisors_reset_only(bundle):
    bench = Bench(Broken(bundle.open(), put_nan)).walk()
    assert bench.controller.mode is Mode.DAMPING
    bench.tick(1000)
    assert not bench.ask(ModeEvent.STAND).accepted
    bench.tick(5, ESTOP)
    assert not bench.ask(ModeEvent.STAND).accepted
    bench.tick()
    assert bench.ask(ModeEvent.STAND).accepted
    assert not bench.controller.policy_failed


def test_a_silent_robot_is_damped(bench):
    bench.walk()
    ticks = STATE_TIMEOUT_NS // TICK
    assert not is_damping(bench.tick(ticks, silent=True))
    assert is_damping(bench.tick(silent=True))
    assert "no state" in bench.controller.situation.fault
    assert is_damping(bench.tick(10))


def test_lost_supervisor_forbids_starting(bundle):
    bench = Bench(bundle.open())
    bench.tick(verdict=dataclasses.replace(CLEAR, healthy=False, reason="no heartbeat yet"))
    assert "no heartbeat yet" in bench.ask(ModeEvent.STAND).words


def test_no_policy_no_walking():
    bench = Bench(None)
    assert bench.ask(ModeEvent.STAND).accepted
    bench.until(Mode.STANDING)
    assert "no policy" in bench.ask(ModeEvent.WALK).words


def test_a_robot_on_its_side_does_not_stand_up(bench):
    side = np.array([0.707, 0.707, 0, 0], np.float32)
    state = make_state(SPEC, received_ns=bench.now, quaternion=side)
    bench.controller.step(state, bench.now, CLEAR)
    assert "not upright" in bench.ask(ModeEvent.STAND).words


def test_the_command_reaches_the_policy_shaped(bench):
    bench.walk()
    for _ in range(1000):
        bench.controller.velocity.offer(1.0, 0.0, 0.0, bench.now)
        bench.tick()
    where = bench.controller.policy.labels.index("velocity_command.0")
    assert bench.controller.policy.observation[where] == pytest.approx(STAGE.velocity.vx)


outputs = st.one_of(
    st.floats(-3, 3, width=32),
    st.sampled_from([1e30, -1e30, 3.4e38, -3.4e38, np.nan, np.inf, -np.inf]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(outputs, min_size=N, max_size=N), min_size=1, max_size=12))
def test_no_sequence_of_policy_outputs_gets_past_the_limits(bundle, sequence):
    rows = iter(sequence)

    def spoil(target):
        row = next(rows, None)
        if row is not None:
            target[:] = row

    bench = Bench(Broken(bundle.open(), spoil)).walk()
    low, high = SPEC.position_low + STAGE.joint_margin, SPEC.position_high - STAGE.joint_margin
    for _ in range(10 * len(sequence)):
        q = bench.q.copy()
        sent = bench.tick()
        if is_damping(sent):
            assert not np.isfinite(np.array(sequence, np.float32)).all()
            return
        state = make_state(SPEC, q=q)
        assert np.all(sent.q >= low - 1e-6)
        assert np.all(sent.q <= high + 1e-6)
        assert np.all(np.abs(pd_torque(sent, state)) <= 0.8 * SPEC.torque_limit + 0.01)
        assert np.all(np.abs(sent.q - q) <= STAGE.joint_step + 1e-5)
