"""From one policy to another: guards, no step in the command, and the fallback."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.analysis.policy_steps import GOES_ON
from sim2real_deploy.analysis.policy_steps import _begins as begins_of
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.limits import Limit
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.repertoire import (
    BLEND_S,
    LEAD_S,
    Fallback,
    Repertoire,
)
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.safety.chain import CLEAR
from support.policy_samples import contract_for, make_state, network, write_bundle

SPEC = load_robot("go2")
N = SPEC.joint_count
TICK = 2_000_000
STAGE = load_stage("tether")
SWITCH_TICKS = round((LEAD_S + BLEND_S) * 500) + 1


def bundle(folder, name, seed=1, **changes):
    weights = 0.05 * np.random.default_rng(seed).standard_normal((9 + 3 * N, N))
    model = network(9 + 3 * N, N, weights=weights)
    digest = hashlib.sha256(model).hexdigest()
    content = contract_for(SPEC, model, name=name, sha256=digest, **changes)
    return load_bundle(write_bundle(folder / name, content, model), SPEC)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A soft policy near the stand pose, and a stiff one that crouches."""
    folder = tmp_path_factory.mktemp("policies")
    crouch = [float(v) for v in (SPEC.stand_pose + 0.25 * (SPEC.sit_pose - SPEC.stand_pose))[::-1]]
    stiff = {"kp": [60.0] * N, "kd": [2.0] * N}
    action = {"output": "actions", "scale": [0.4] * N, "offset": crouch}
    return (
        bundle(folder, "soft", 1),
        bundle(folder, "stiff", 2, action=action, **stiff),
        bundle(folder, "third", 3),
    )


class Bench:
    """A robot that is always where its last command put it."""

    def __init__(self, bundles, fallback=None):
        self.repertoire = Repertoire([item.open() for item in bundles], fallback)
        self.controller = Controller(SPEC, STAGE, self.repertoire)
        self.controller.situation.sport_released = True
        self.now, self.q = 0, SPEC.sit_pose.copy()
        self.quaternion = np.array([1, 0, 0, 0], np.float32)
        self.tick()

    def tick(self, count=1):
        for _ in range(count):
            self.now += TICK
            state = make_state(
                SPEC,
                received_ns=self.now,
                tick=self.now // 1_000_000,
                q=self.q,
                quaternion=self.quaternion,
            )
            sent = self.controller.step(state, self.now, CLEAR)
            if sent is not None and sent.kp.any():
                self.q = sent.q.copy()
        return sent

    def walk(self):
        for event, mode in ((ModeEvent.STAND, Mode.STANDING), (ModeEvent.WALK, Mode.WALKING)):
            assert self.controller.request(event, self.now).accepted
            for _ in range(2500):
                if self.controller.mode is mode:
                    break
                self.tick()
            assert self.controller.mode is mode
        self.tick(250)
        return self

    def switch(self, name=""):
        return self.controller.switch(name, self.now)


@pytest.fixture(scope="module")
def soft_and_stiff(bundles):
    return lambda: Bench(bundles[:2])  # a function: bundles are too long to be printed


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, SWITCH_TICKS + 40), min_size=1, max_size=5))
def test_no_step_in_the_command_whenever_it_switches(soft_and_stiff, waits):
    """Targets stay within the stage's step per tick, gains change gradually, at any time of asking;
    what is asked while the last change is under way is refused and changes nothing."""
    bench = soft_and_stiff().walk()
    last = bench.controller.limiter.sent.copy()
    for wait in waits:
        busy = bench.repertoire.outgoing is not None
        before = bench.repertoire.active
        decision = bench.switch()
        if busy:
            assert not decision.accepted
            assert "still under way" in decision.words
        assert (bench.repertoire.active != before) == decision.accepted
        for _ in range(wait):
            sent = bench.tick()
            held = np.frombuffer(bench.controller.limiter.acted, np.uint8)
            free = held & (Limit.TORQUE | Limit.VELOCITY) == 0
            assert np.abs(sent.q - last.q)[free].max() <= STAGE.joint_step + 1e-6
            assert np.abs(sent.kp - last.kp).max() < 35.0 * 0.02
            assert np.abs(sent.kd - last.kd).max() < 1.5 * 0.02
            last = sent.copy()
    assert bench.controller.mode is Mode.WALKING


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from([0, 0, 1, 3, 40]), min_size=2, max_size=6), st.integers(0, 900))
def test_the_rows_of_a_walk_tell_where_each_policy_began(soft_and_stiff, waits, breaks_at):
    """Switched back as soon as it is allowed or a little later, and once a policy fails: a replay
    resets each one exactly where control did."""
    bench = soft_and_stiff().walk()
    rows, resets, ran = [], [], [False, False]
    fresh = [False, False]  # reset since its last step

    def spy(place, reset):
        def noted():
            fresh[place] = True
            reset()

        return noted

    for place, policy in enumerate(bench.repertoire.policies):
        policy.reset = spy(place, policy.reset)
    bench.tick(20)
    waits, wait = [*waits], 0
    for tick in range(1000):
        if tick == breaks_at and bench.repertoire.outgoing is not None:
            fail_once(bench.repertoire.policy)
        if waits and not bench.controller.walking.handing_over:
            wait += 1
            if wait > waits[0] and bench.switch().accepted:
                waits, wait = waits[1:], 0
        bench.tick()
        stepped = bench.controller.walking.stepped
        rows.append((bench.controller.mode, stepped, bench.repertoire.active))
        for place in range(2):
            if stepped >> place & 1:
                if ran[place] or place == 1:
                    resets.append((tick, place, fresh[place]))
                ran[place], fresh[place] = True, False
    assert bench.controller.mode is Mode.WALKING
    column = dict(zip(("mode", "policy_stepped", "policy"), np.array(rows, float).T, strict=True))
    steps = np.flatnonzero(column["policy_stepped"])
    found = [begins_of(column, steps, place) for place in range(2)]
    row_of = {tick: row for row, tick in enumerate(steps.tolist())}
    for tick, place, was_reset in resets:
        assert (found[place][row_of[tick]] != GOES_ON) == was_reset, (tick, place)


def fail_once(policy):
    """The policy's next step returns NaN."""
    infer = policy.infer

    def broken():
        infer()
        policy.target[:] = np.nan
        policy.infer = infer
        return policy.target

    policy.infer = broken


def test_after_the_blend_the_new_policy_is_alone(bundles):
    bench = Bench(bundles[:2]).walk()
    assert bench.switch("stiff").accepted
    bench.tick(5)
    np.testing.assert_array_equal(bench.controller.asked.kp, bundles[0].open().kp)  # unheard yet
    stepped = [bench.controller.walking.stepped for _ in range(100) if bench.tick() is not None]
    new = [tick for tick, bits in enumerate(stepped) if bits == 0b10]
    old = [tick for tick, bits in enumerate(stepped) if bits == 0b01]
    assert set(stepped) == {0b00, 0b01, 0b10}  # never both in one tick
    assert old == [tick + 1 for tick in new]
    bench.tick(SWITCH_TICKS)
    assert bench.repertoire.outgoing is None
    asked, policy = bench.controller.asked, bench.repertoire.policies[1]
    np.testing.assert_array_equal(asked.kp, policy.kp)
    np.testing.assert_array_equal(asked.q, policy.target)
    stepped = {bench.controller.walking.stepped for _ in range(100) if bench.tick() is not None}
    assert stepped == {0b00, 0b10}
    assert bench.switch("stiff").words == "stiff is active already"


def test_standing_the_choice_counts_from_the_next_walk_on(bundles):
    bench = Bench(bundles)
    assert bench.switch("third").accepted
    assert bench.switch("fourth").words == (
        "cannot switch: policy 'fourth' is not loaded; loaded are: soft, stiff, third"
    )
    bench.walk()
    assert bench.repertoire.name == "third"
    assert bench.switch().accepted  # the next of the list, round
    assert bench.repertoire.name == "soft"


def test_a_tilted_robot_is_not_switched(bundles):
    bench = Bench(bundles[:2]).walk()
    bench.quaternion = np.array([np.cos(0.25), np.sin(0.25), 0, 0], np.float32)  # 29 degrees
    bench.tick()
    assert "tilts too far" in bench.switch().words
    assert bench.repertoire.name == "soft"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate_hz": 100.0}, "run at 50 and 100 Hz"),
        ({"name": "soft"}, "'soft' is listed more than once"),
    ],
)
def test_policies_that_do_not_go_together_are_refused(bundles, tmp_path, changes, words):
    other = bundle(tmp_path, changes.pop("name", "other"), 4, **changes)
    with pytest.raises(Refusal, match=words):
        Repertoire([bundles[0].open(), other.open()])


def test_a_fallback_that_is_not_loaded_is_refused(bundles):
    with pytest.raises(Refusal, match="'other' is not loaded; loaded are: soft, stiff"):
        Repertoire([item.open() for item in bundles[:2]], Fallback("other", 6.0, 0.1))


def spoil(policy, what):
    """From here on the policy fails in this way."""
    observe = policy.observe

    def spoiled(state, command):
        observe(state, command)
        if what == "error":
            raise RuntimeError("broken")
        policy.observation[:] = np.nan

    policy.observe = spoiled


@pytest.mark.parametrize("what", ["error", "nan"])
def test_the_fallback_takes_over_once_and_then_it_stops(bundles, what):
    bench = Bench(bundles[:2], Fallback("stiff", 6.0, 0.1)).walk()
    spoil(bench.repertoire.policies[0], what)
    last = bench.controller.limiter.sent.copy()
    for _ in range(400):
        sent = bench.tick()
        assert np.isfinite(sent.q).all()
        assert np.abs(sent.q - last.q).max() <= STAGE.joint_step + 1e-6
        last = sent.copy()
    assert bench.controller.mode is Mode.WALKING
    assert bench.repertoire.name == "stiff"
    assert bench.controller.walking.switched.startswith("in place of soft: ")
    spoil(bench.repertoire.policies[1], what)
    bench.tick(20)
    assert bench.controller.mode is Mode.DAMPING
    assert bench.controller.policy_failed


def test_without_a_fallback_a_failing_policy_ends_in_damping_as_ever(bundles):
    bench = Bench(bundles[:2]).walk()
    spoil(bench.repertoire.policies[0], "nan")
    bench.tick(20)
    assert bench.controller.mode is Mode.DAMPING


def test_a_new_policy_that_fails_before_it_is_heard_leaves_the_old_one_walking(bundles):
    bench = Bench(bundles[:2]).walk()
    spoil(bench.repertoire.policies[1], "nan")
    assert bench.switch("stiff").accepted
    bench.tick(100)
    assert bench.controller.mode is Mode.WALKING
    assert bench.repertoire.name == "soft"
    assert bench.controller.walking.switched == "in place of stiff: its output is not finite"


def test_far_from_its_training_for_long_or_by_much_is_astray(bundles):
    bench = Bench(bundles[:2], Fallback("stiff", 6.0, 0.1)).walk()
    surprise = [7.0]
    bench.repertoire.policies[0].surprise = lambda: surprise[0]
    bench.tick(45)  # 90 ms
    assert bench.repertoire.name == "soft"
    bench.tick(20)
    assert bench.repertoire.name == "stiff"
    assert "7 standard deviations" in bench.controller.walking.switched

    bench = Bench(bundles[:2], Fallback("stiff", 6.0, 0.1)).walk()
    bench.repertoire.policies[0].surprise = lambda: 13.0
    bench.tick(11)
    assert bench.repertoire.name == "stiff"


def test_the_new_policy_goes_on_at_the_same_point_of_the_stride():
    walk, rough = (load_bundle(name, SPEC).open() for name in ("go2_walk", "go2_rough"))
    state = make_state(SPEC)
    for _ in range(33):
        walk.observe(state, (0.5, 0.0, 0.0))
        walk.infer()
    rough.reset()
    rough.keep_time(walk)
    for policy in (walk, rough):
        policy.observe(state, (0.5, 0.0, 0.0))
    sines = [
        policy.observation[[i for i, n in enumerate(policy.labels) if n.startswith("gait_phase")]]
        for policy in (walk, rough)
    ]
    before, after = (math.atan2(*sine_and_cosine) for sine_and_cosine in sines)
    half_a_step = math.pi * 0.02 / 0.5  # of the new clock: it moves in whole policy steps
    assert abs(math.remainder(after - before, 2 * math.pi)) <= half_a_step
