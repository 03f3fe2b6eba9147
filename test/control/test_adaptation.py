"""Adaptation: it finds what is wrong, and no reading takes its corrections out of their bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.control.adaptation import Adapts, friction, open_adaptation, strength
from sim2real_deploy.control.adaptation.adaptation import (
    CARRIED_KG,
    CYCLE,
    GAIN_HIGH,
    GAIN_LOW,
    LEVEL,
    PAYLOAD_BOUND_KG,
    TORQUE_BOUND,
)
from sim2real_deploy.control.adaptation.friction import STRAIN, Friction
from sim2real_deploy.control.adaptation.leg_loads import LEFT, TICK, Legs, Seen, mark, measure
from sim2real_deploy.control.adaptation.reference import Link, load_reference
from sim2real_deploy.control.adaptation.strength import Motors, learn, plain_learn
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import Drive, heading_velocity
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.robots.odometry import LegOdometry, legs_of
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.per_joint import per_joint
from sim2real_deploy.twin.robot import TwinRobot
from support.places import SHARED_DATA
from support.policy_samples import make_state

SPEC = load_robot("go2")
N = SPEC.joint_count
CALF = 2  # of the first leg
BOUND = TORQUE_BOUND * SPEC.torque_limit
FREE = np.zeros(N, np.uint8)
CHIRPS = sorted((SHARED_DATA / "real/go2_chirp").glob("torque_*.npz"))


class Bench:
    """Motors that follow the PD law as it was `delay` ticks ago, and joints that move anyhow."""

    def __init__(self, strength=None, delay=4, adapts="all", seed=0):
        self.adaptation = open_adaptation(SPEC, adapts)
        self.strength = self.adaptation.nominal.copy() if strength is None else strength
        self.rng = np.random.default_rng(seed)
        self.delay, self.tick = delay, 0
        self.sent = [self._command()]
        self.adaptation.begin()

    def _command(self):
        block = np.zeros((5, N), np.float32)
        block[0] = SPEC.stand_pose + self.rng.normal(0, 0.2, N)
        block[2], block[3] = 25.0 * self.adaptation.gain, 0.5 * self.adaptation.gain
        block[4] = self.adaptation.torque
        return block

    def state(self, **changes):
        time_s = self.tick / SPEC.wire.rate_hz
        q = SPEC.stand_pose + 0.1 * np.sin(12 * time_s + np.arange(N))
        dq = 1.2 * np.cos(12 * time_s + np.arange(N))
        command = self.sent[max(0, len(self.sent) - self.delay)]
        law = command[2] * (command[0] - q) + command[3] * (command[1] - dq) + command[4]
        values = {"q": q, "dq": dq, "torque": self.strength * law + self.rng.normal(0, 0.05, N)}
        values |= {"gyroscope": np.zeros(3), "accelerometer": np.array((0.0, 0.0, 9.81))}
        values |= {name: change(values[name]) for name, change in changes.items()}
        return make_state(SPEC, tick=2 * self.tick, **{k: np.float32(v) for k, v in values.items()})

    def run(self, seconds, allowed=True, acted=FREE, **changes):
        for _ in range(round(seconds * SPEC.wire.rate_hz)):
            self.tick += 1
            state, gains = self.state(**changes), np.ones(N, np.float32)
            self.adaptation.correct(state, gains, gains, np.zeros((5, N), np.float32))
            if self.tick % 10 == 0:  # the policy's rate
                self.sent.append(self._command())
            else:
                self.sent.append(self.sent[-1])
            self.adaptation.learn(state, self.sent[-1], acted, allowed)
            self.check()
        return self.adaptation

    def check(self):
        gain, torque = self.adaptation.gain, self.adaptation.torque
        assert (gain >= np.float32(GAIN_LOW)).all()
        assert (gain <= np.float32(GAIN_HIGH)).all()
        assert (np.abs(torque) <= BOUND + 1e-5).all()
        friction = self.adaptation.friction.believed
        assert ((friction >= 0.0) & (friction <= BOUND + 1e-5)).all()


def weak(joint=CALF, share=0.8):
    strength = open_adaptation(SPEC, "all").nominal.copy()
    strength[joint] *= share
    return strength


@pytest.mark.parametrize("delay", [1, 4, 8])
def test_strength_and_delay_are_found_on_the_way(delay):
    strength = weak(share=0.85)
    adaptation = Bench(strength, delay).run(3.0)
    assert adaptation.motors.delay_ticks == delay
    assert adaptation.motors.strength == pytest.approx(strength, rel=0.03)
    assert adaptation.gain[CALF] == pytest.approx(1 / 0.85, rel=0.03)
    assert (np.delete(adaptation.gain, CALF) == 1.0).all()


def test_a_motor_that_weakens_is_found_within_three_seconds():
    bench = Bench()
    assert (bench.run(3.0).gain == 1.0).all()
    bench.strength = weak(share=0.85)
    assert bench.run(3.0).gain[CALF] == pytest.approx(1 / 0.85, rel=0.03)


def test_gains_stop_at_their_bound_and_say_so():
    bench = Bench(weak(share=0.6))
    adaptation = bench.run(4.0)
    assert adaptation.gain[CALF] == pytest.approx(GAIN_HIGH)
    assert adaptation.strain > 1.5
    assert Bench(weak(share=0.8)).run(4.0).strain < 1.1


def test_nothing_is_learnt_where_a_limit_acts_or_nothing_moves():
    acted = np.uint8(2) * (np.arange(N) == CALF)
    adaptation = Bench(weak()).run(3.0, acted=acted)
    assert adaptation.motors.error[CALF] == 1.0
    assert adaptation.gain[CALF] == 1.0
    bench = Bench(weak())
    bench._command = lambda: bench.sent[0]
    still = bench.run(3.0, q=lambda q: SPEC.stand_pose, dq=np.zeros_like)
    assert (still.gain == 1.0).all()


def test_an_offset_of_the_torque_sensor_is_not_taken_for_strength():
    adaptation = Bench().run(3.0, torque=lambda torque: torque + 2.0)
    assert adaptation.motors.strength == pytest.approx(adaptation.nominal, rel=0.03)


@pytest.mark.skipif(not CHIRPS, reason="no recordings of a real robot beside the project")
@pytest.mark.parametrize("path", CHIRPS, ids=lambda path: path.stem)
def test_real_motors_are_believed_only_where_they_can_be_judged(path):
    """Hung legs that swing fast: a delay of one more tick looks like a tenth more strength."""
    log, nominal = np.load(path), open_adaptation(SPEC, "all").nominal
    motors = Motors.of(SPEC.torque_limit, nominal, SPEC.wire.rate_hz / CYCLE)
    command = np.zeros((5, N), np.float32)
    command[2], command[3] = log["kp"], log["kd"]
    seen = np.stack([log[name] for name in ("q", "dq", "tau")], axis=1).astype(float)
    for row, target in enumerate(log["q_des"]):
        if row % CYCLE == 0:
            strength.take(motors, seen[row])
            strength.compare(motors)
            strength.estimate(motors)
            assert (np.abs(motors.strength / nominal - 1.0) < 0.25).all()
        command[0] = target
        strength.remember(motors, command, FREE)
    assert np.median(np.abs(motors.strength / nominal - 1.0)) < 0.1


def test_switched_off_corrections_fade_and_stay_away():
    bench = Bench(weak())
    assert bench.run(4.0).gain[CALF] > 1.2
    before = bench.adaptation.gain[CALF]
    bench.run(CYCLE / SPEC.wire.rate_hz, allowed=False)
    assert before - bench.adaptation.gain[CALF] < 0.01
    bench.run(1.5, allowed=False)
    assert (bench.adaptation.gain == 1.0).all()
    assert not bench.adaptation.torque.any()


def test_only_what_was_chosen_is_corrected():
    heavy = {"torque": lambda torque: np.where(np.arange(N) % 3 == CALF, 20.0, torque)}
    strength = Bench(weak(), adapts="strength").run(4.0, **heavy)
    assert not strength.torque.any()
    assert (Bench(weak(), adapts="mrac").run(4.0).gain == 1.0).all()
    assert open_adaptation(SPEC, "none") is None


HOSTILE = {
    "nan": lambda x: np.where(np.arange(x.size) % 2, np.nan, x),
    "infinite": lambda x: np.where(np.arange(x.size) % 3, np.inf, x),
    "jumps": lambda x: x + 1e6,
    "large": lambda x: x * 30,
    "zero": np.zeros_like,
    "backwards": lambda x: -x,
    "lies up": lambda x: x * 1.3,
    "lies down": lambda x: x * 0.7,
    "frozen": lambda x: np.full(x.size, 0.5),
}
READINGS = ["q", "dq", "torque", "gyroscope", "accelerometer"]


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(READINGS), st.sampled_from(sorted(HOSTILE))),
        min_size=1,
        max_size=5,
    ),
    adapts=st.sampled_from(["strength", "mrac", "all"]),
    seed=st.integers(0, 100),
)
def test_no_reading_takes_a_correction_out_of_its_bounds(steps, adapts, seed):
    """`check` runs in every tick; whatever was read, the estimates stay numbers. Everything is at
    work from the first tick on: a weak motor, a payload, friction."""
    bench = Bench(weak(), adapts=adapts, seed=seed)
    parts = bench.adaptation.parts
    parts.now[[LEVEL, CARRIED_KG]] = 1.0, PAYLOAD_BOUND_KG
    bench.adaptation.friction.believed[:] = BOUND
    parts.factor[:] = GAIN_HIGH
    with np.errstate(all="ignore"):
        for reading, lie in steps:
            bench.run(0.15, **{reading: HOSTILE[lie]})
    motors, load = bench.adaptation.motors, bench.adaptation.load
    assert np.isfinite(motors.strength).all()
    assert np.isfinite(load.payload_kg)
    assert np.isfinite(bench.adaptation.friction.found).all()
    assert np.abs(bench.adaptation.torque).max() > 0.0 or adapts == "strength"


def test_a_sensor_that_lies_by_30_percent_reaches_the_bound_and_no_further():
    bench = Bench()
    adaptation = bench.run(5.0, torque=HOSTILE["lies down"])
    assert adaptation.gain == pytest.approx(np.full(N, GAIN_HIGH))
    assert adaptation.strain > 1.15
    assert Bench().run(5.0, torque=HOSTILE["lies up"]).gain == pytest.approx(
        np.full(N, GAIN_LOW), abs=0.01
    )


def test_the_reference_is_the_robots_own_twin():
    motors, reference = load_imperfections(robot=SPEC.name).motors, load_reference(SPEC)
    assert open_adaptation(SPEC, "all").nominal == pytest.approx(motors.strengths(SPEC))
    for name in ("friction", "damping", "armature"):
        expected = per_joint(getattr(motors, name), SPEC, name)
        assert np.tile(getattr(reference, name), 4) == pytest.approx(expected)


def test_a_robot_without_a_reference_is_refused():
    with pytest.raises(Refusal, match="adaptation:=none"):
        open_adaptation(load_robot("g1"), Adapts.ALL)


def walk(drive, seconds):
    for _ in range(round(seconds * SPEC.wire.rate_hz)):
        drive.walk_at((0.6, 0.0, 0.0))
        drive.tick()


def test_a_motor_too_weak_to_make_up_for_is_left_to_the_policy():
    twin = TwinRobot(SPEC, imperfections=load_imperfections(), seed=2)
    drive = Drive(load_bundle("go2_walk", SPEC), twin, supervised=True, adaptation="all")
    adaptation, safety = drive.controller.adaptation, drive.safety
    drive.stand_and_walk()
    walk(drive, 2.0)
    twin.boards.weaken(weak(share=0.65))
    walk(drive, 5.0)
    assert [change.event.key for change in safety.changes] == ["adaptation_bound"]
    assert (adaptation.gain == 1.0).all()
    assert drive.controller.mode is Mode.WALKING


def test_a_walking_twin_shows_weak_motors_and_what_it_carries():
    twin = TwinRobot(SPEC, imperfections=load_imperfections(), seed=1)
    drive = Drive(load_bundle("go2_walk", SPEC), twin, adaptation="all")
    adaptation = drive.controller.adaptation
    drive.stand_and_walk()
    walk(drive, 4.0)
    assert (adaptation.gain == 1.0).all()
    assert not adaptation.torque.any()
    twin.boards.weaken(weak())
    twin.carry(2.0)
    walk(drive, 4.0)
    assert adaptation.motors.strength == pytest.approx(weak(), rel=0.03)
    assert adaptation.load.payload_kg == pytest.approx(2.0, abs=0.5)
    assert adaptation.gain[CALF] == pytest.approx(GAIN_HIGH, abs=0.02)
    assert adaptation.load.payload_kg < PAYLOAD_BOUND_KG
    most = 0.0
    for _ in range(30):  # strides
        walk(drive, 0.02)
        most = max(most, np.abs(adaptation.torque).max())
    assert 0.3 < most <= BOUND.max()


def test_the_trunks_velocity_is_that_of_feet_that_stand():
    """At 1 m/s, feet that touch down move at many times the error that is made up for. The filters
    of the hold take a mean over a stride and more."""
    twin = TwinRobot(SPEC, imperfections=load_imperfections(), seed=3)
    drive = Drive(load_bundle("go2_walk", SPEC), twin, adaptation="strength")
    drive.stand_and_walk()
    load, seen, true = drive.controller.adaptation.load, [], []
    for _ in range(round(8.0 * SPEC.wire.rate_hz)):
        drive.walk_at((1.0, 0.0, 0.0))
        drive.tick()
        if drive.controller.walking.stepped and np.isfinite(load.velocity).all():
            seen.append(load.velocity.copy())
            true.append(heading_velocity(twin.base_truth)[:2])
    off = np.subtract(seen, true)[len(seen) // 4 :]
    assert len(seen) > 200
    assert off.std(axis=0).max() < 0.06
    strides = np.stack([off[k : k + 60].mean(axis=0) for k in range(0, len(off) - 60, 10)])
    assert strides.std(axis=0).max() < 0.006


def weightless(reference):
    """Legs that nothing is needed to move."""
    link = Link(mass=0.0, centre=(0.0, 0.0, 0.0), inertia=(0.0, 0.0, 0.0))
    none = dict.fromkeys(("friction", "damping", "armature"), (0.0, 0.0, 0.0))
    return reference.model_copy(update=none | {"links": (link, link, link)})


def seen_in(state):
    joints = np.stack([state.q, state.dq, state.torque]).astype(float)
    trunk = np.concatenate([state.quaternion, state.gyroscope, state.accelerometer]).astype(float)
    return Seen(trunk, joints, np.array([state.tick]))


def test_compiled_legs_are_the_plain_ones():
    """Loads as the odometry has them, and a foot that rolls on the ground as the trunk moves."""
    kinematics, rng = legs_of(SPEC), np.random.default_rng(4)
    legs = Legs.of(SPEC, kinematics, weightless(load_reference(SPEC)))
    down = np.array((0.0, 0.0, -1.0))
    for _ in range(20):
        joints = {name: rng.normal(0, 0.5, N).astype(np.float32) for name in ("q", "dq", "torque")}
        rate = rng.normal(0, 1, 3).astype(np.float32)
        state = make_state(SPEC, **joints, gyroscope=rate, tick=4)
        odometry = LegOdometry(SPEC)
        odometry.update(state)
        for number, leg in enumerate(kinematics):
            mark(legs, seen_in(make_state(SPEC, tick=2)))
            load = measure(legs, number, seen_in(state), np.zeros(N))
            assert load == pytest.approx(odometry.loads[number], rel=1e-6)
            foot, axes, columns = leg.pose(joints["q"].tolist())
            dq = joints["dq"][list(leg.joints)]
            moving = np.cross(rate, foot) + dq @ np.array(columns)
            rolling = np.cross(rate + dq @ np.array(axes), -leg.foot_radius * down)
            assert legs.out[:3] == pytest.approx(rolling - moving, rel=1e-5, abs=1e-5)
            late = seen_in(make_state(SPEC, tick=40))
            assert math.isnan(measure(legs, number, late, np.zeros(N))), "a gap"


def test_the_reference_legs_are_the_twins():
    """Legs that swing anyhow in the air, on a trunk that is moved anyhow: MuJoCo's inverse dynamics
    gives the torques, and the reference model leaves next to nothing of them."""
    mujoco = pytest.importorskip("mujoco")
    twin = TwinRobot(SPEC, imperfections=load_imperfections(robot=SPEC.name), seed=0)
    model, data, rng = twin.model, mujoco.MjData(twin.model), np.random.default_rng(3)
    legs = Legs.of(SPEC, legs_of(SPEC), load_reference(SPEC))
    assert load_reference(SPEC).mass_kg == pytest.approx(model.body_mass.sum(), abs=0.02)
    for _ in range(10):
        data.qpos[:7] = 0, 0, 2, 1, 0, 0, 0
        data.qpos[7:] = SPEC.stand_pose + rng.normal(0, 0.3, N)
        data.qvel[:], data.qacc[:] = rng.normal(0, 0.3, N + 6), rng.normal(0, 1.0, N + 6)
        data.qvel[6:], data.qacc[6:] = 8 * rng.choice((-1, 1), N), rng.normal(0, 60, N)
        mujoco.mj_inverse(model, data)
        torque, force = data.qfrc_inverse[6:], np.add(data.qacc[:3], (0.0, 0.0, 9.81))
        now = {"q": data.qpos[7:], "dq": data.qvel[6:], "torque": torque}
        trunk = {"gyroscope": data.qvel[3:6], "accelerometer": force}
        before = {"dq": data.qvel[6:] - 0.002 * data.qacc[6:]}
        before["gyroscope"] = data.qvel[3:6] - 0.002 * data.qacc[3:6]
        mark(legs, seen_in(make_state(SPEC, tick=2, **as_floats(before))))
        for number in range(4):
            legs.before[:], legs.memo[TICK] = before["dq"], 2
            state = make_state(SPEC, tick=4, **as_floats(now | trunk))
            measure(legs, number, seen_in(state), np.zeros(N))
            assert legs.out[LEFT:] == pytest.approx(np.zeros(3), abs=0.15), "no products of inertia"
            assert np.abs(torque).max() > 1.5


def as_floats(arrays):
    return {name: np.float32(value) for name, value in arrays.items()}


def rubbing(extra, ups=10.0, downs=10.0):
    """An estimator that has seen a calf lose so much in both directions, and one direction only."""
    found = Friction.of(SPEC.torque_limit, BOUND.astype(float), SPEC.wire.rate_hz / CYCLE)
    joints, speed = np.array([CALF]), np.zeros(N)
    for number in range(400):
        up = number % 2 == 0
        speed[CALF] = 2.0 if up else -2.0
        if ups if up else downs:
            friction.learn(found, joints, speed, np.array([0.3 + (extra if up else -extra)]))
        friction.update(found, True)
    return found


def test_friction_is_what_turns_round_with_the_joint():
    found = rubbing(1.4)
    assert found.found[CALF] == pytest.approx(1.4, abs=0.01)
    assert found.believed[CALF] == pytest.approx(1.4, abs=0.01)
    assert not np.delete(found.believed, CALF).any()
    assert rubbing(0.2).believed[CALF] == 0.0, "the dead zone"
    assert rubbing(-1.0).believed[CALF] == 0.0, "less friction than expected is no harm"
    stuck = rubbing(20.0)
    assert stuck.believed[CALF] == pytest.approx(BOUND[CALF]), "projection"
    assert stuck.figures[STRAIN] > 4.0, "the supervisor is told"
    assert found.figures[STRAIN] < 0.4
    assert rubbing(1.4, downs=0.0).believed[CALF] == 0.0, "an offset would look the same"


def test_friction_that_is_no_longer_seen_leaks_away():
    found, speed = rubbing(1.4), np.zeros(N)
    speed[CALF] = 2.0
    before = found.believed[CALF]
    for _ in range(1000):
        friction.learn(found, np.array([CALF]), speed, np.array([0.3]))
        friction.update(found, True)
    assert found.believed[CALF] < 0.1 * before


def test_compiled_regression_is_the_plain_one():
    rng = np.random.default_rng(2)
    sums = [rng.random((9, N)), rng.normal(size=(9, N)), rng.random((9, N)), rng.random((8, N))]
    sums.append(np.zeros(N))
    sent, seen = rng.normal(size=(8, 5, N)).astype(np.float32), rng.normal(size=(3, N))
    seen[1, 3], usable = np.nan, np.arange(N) != 5
    plain = [part.copy() for part in sums]
    learn(sent, seen, usable, np.full(N, 30.0), 0.02, tuple(sums))
    plain_learn(sent, seen, usable, np.full(N, 30.0), 0.02, tuple(plain))
    for one, other in zip(sums[1:], plain[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    assert sums[4].tolist() == [float(joint not in (3, 5)) for joint in range(N)]
