"""Learnt networks: what they find, what they leave alone, and how they go with a twin."""

from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.bench.learn_cost import random_actuator, write_random_twin
from sim2real_deploy.bench.twin import trot
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.figures import figures_of
from sim2real_deploy.identify.learn import store
from sim2real_deploy.identify.learn.actuator import learn_actuator
from sim2real_deploy.identify.learn.delta import learn_action
from sim2real_deploy.identify.learn.mlp import fit_mlp
from sim2real_deploy.identify.recording import Recording, from_arrays
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.actuator_net import ActuatorNet
from sim2real_deploy.twin.files import load_imperfections, load_twin_file
from sim2real_deploy.twin.robot import TwinRobot

ROBOT = load_robot("go2")
FIGURES = figures_of(load_imperfections("ideal"), ROBOT)
NOBODY = lambda what, done: None  # noqa: E731


def moving(kd: float, loss: float, seconds: float = 10.0) -> Recording:
    """Targets and joints that go their own ways, so that torque and speed are independent, with a
    motor that loses a share of its torque above 1 Nm."""
    rng = np.random.default_rng(round(100 * kd))
    t = np.arange(0, seconds, 0.002)
    phase = rng.uniform(0, 6, (2, 12))
    q = 0.2 * np.sin(2 * np.pi * (0.2 * t + 0.1 * t * t)[:, None] + phase[0])
    target = q + 0.15 * np.sin(2 * np.pi * 1.3 * t[:, None] + phase[1])
    dq = np.gradient(q, 0.002, axis=0)
    asked = 25 * (np.roll(target, 1, axis=0) - q) - kd * dq
    torque = asked - loss * np.sign(asked) * np.maximum(np.abs(asked) - 1, 0)
    torque = torque + rng.normal(0, 0.02, torque.shape)
    gains = {"kp": np.full(len(t), 25.0), "kd": np.full(len(t), kd)}
    columns = {"q": q, "dq": dq, "torque": torque, "target_q": target, **gains}
    columns["foot_force"] = np.full((len(t), 4), 50.0)  # it does not hang
    return from_arrays(f"kd {kd:g}", ROBOT, columns)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim2real_deploy.identify.learn.actuator.STEPS", 250)


def test_a_network_begins_as_zero_and_fits_what_is_there() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 2))
    y = np.stack((np.abs(x[:, 0]), x[:, 1] * 0), axis=1)
    nothing = fit_mlp(x, y, np.ones_like(y), hidden=16, steps=0, seed=0)
    assert not nothing(x).any()
    net = fit_mlp(x, y, np.ones_like(y), hidden=16, steps=400, seed=0)
    assert np.sqrt(np.mean((net(x) - y) ** 2)) < 0.1
    again = fit_mlp(x, y, np.ones_like(y), hidden=16, steps=400, seed=0)
    assert all((a == b).all() for a, b in zip(net.layers, again.layers, strict=True))


def test_a_loss_that_grows_with_the_load_is_learnt_and_holds_at_other_gains() -> None:
    recordings = [moving(0.5, 0.3), moving(2.0, 0.3)]
    found = learn_actuator(ROBOT, recordings, FIGURES, "torque", NOBODY)
    for error in found.reported:
        assert error.learned < 0.6 * error.identified
    for identified, unseen, seen in found.unseen_gains.values():
        assert unseen < 0.8 * identified
        assert seen < 0.6 * identified


def test_where_nothing_is_hidden_nothing_is_added() -> None:
    recordings = [moving(0.5, 0.0), moving(2.0, 0.0)]
    found = learn_actuator(ROBOT, recordings, FIGURES, "torque", NOBODY, leave_out=False)
    for error in found.reported:
        assert error.learned <= 1.02 * error.identified


@pytest.mark.parametrize(
    ("recordings", "words"),
    [
        ([moving(0.5, 0.1, 3.0), moving(2.0, 0.1, 3.0)], "are needed: record"),
        ([moving(0.5, 0.1, 20.0)], "only one set of gains"),
    ],
)
def test_too_little_is_refused_with_what_to_record(recordings: list[Recording], words: str) -> None:
    with pytest.raises(Refusal, match=words):
        learn_actuator(ROBOT, recordings, FIGURES, "torque", NOBODY)


def test_no_torque_and_another_robot_are_refused() -> None:
    silent = moving(0.5, 0.1)
    silent = from_arrays("silent", ROBOT, dict(silent.columns) | {"torque": 0 * silent["q"]})
    with pytest.raises(Refusal, match=r"no torque.*learn action"):
        learn_actuator(ROBOT, [silent], FIGURES, "torque", NOBODY)
    with pytest.raises(Refusal, match="is of go2, not of g1"):
        learn_actuator(load_robot("g1"), [moving(0.5, 0.1)], FIGURES, "torque", NOBODY)


def test_delta_actions_need_an_imu_and_the_ground() -> None:
    with pytest.raises(Refusal, match="no gyro"):
        learn_action(ROBOT, [moving(0.5, 0.1)], load_imperfections(), NOBODY)
    bag = moving(0.5, 0.1)
    imu = {"gyroscope": np.zeros((len(bag), 3)), "quaternion": np.eye(4)[np.zeros(len(bag), int)]}
    hung = dict(bag.columns) | imu | {"foot_force": np.zeros((len(bag), 4))}
    with pytest.raises(Refusal, match="the robot hangs"):
        learn_action(ROBOT, [from_arrays("hung", ROBOT, hung)], load_imperfections(), NOBODY)
    short = dict(bag.columns) | imu
    with pytest.raises(Refusal, match="half a minute of walking"):
        learn_action(ROBOT, [from_arrays("short", ROBOT, short)], load_imperfections(), NOBODY)


def test_a_twin_that_was_never_identified_is_refused(tmp_path: Path) -> None:
    for name in ("ideal", write_random_twin(ROBOT, tmp_path)):
        with pytest.raises(Refusal, match="never identified"):
            store.identified_twin(name, "go2")


def test_the_compiled_network_says_what_the_fitted_one_says_and_fades(tmp_path: Path) -> None:
    weights = random_actuator(ROBOT)
    net = ActuatorNet(weights, 0.002)
    rng = np.random.default_rng(0)
    told, gains = rng.normal(0, 0.1, (1, 12, 3)), np.full((1, 2, 12), 10.0)
    q, dq, none = rng.normal(0, 0.1, (1, 12)), rng.normal(0, 1, (1, 12)), np.zeros((1, 12))
    bounds = np.tile((-20.0, 20.0), (1, 12, 1))
    net.update(told, gains, none, q, dq, bounds)
    asked = 10 * (told[0, :, 0] - q[0]) + 10 * (told[0, :, 1] - dq[0])
    for joint in range(12):
        inputs = np.tile((asked[joint], dq[0, joint]), 3)[None]  # as if it had always been so
        expected = weights.batch(int(weights.kind[joint]), inputs)[0]
        assert net.given[0, :, joint] == pytest.approx(expected, abs=1e-5)
    far = random_actuator(ROBOT)
    far.reach[:] = 1e-3
    outside = ActuatorNet(far, 0.002)
    outside.update(told, gains, none, q, dq, bounds)
    assert not outside.given.any()


def test_a_twin_with_networks_opens_by_its_name_and_repeats_bit_for_bit(tmp_path: Path) -> None:
    name = write_random_twin(ROBOT, tmp_path)
    samples = trot(ROBOT)
    ends = []
    for preset in (name, name, "default"):
        twin = TwinRobot(ROBOT, imperfections=load_imperfections(preset))
        for sample in samples[:60]:
            twin.advance(sample)
        ends.append(twin.data.qpos.copy())
    assert (ends[0] == ends[1]).all()
    assert (ends[0] != ends[2]).any()


def test_nothing_is_overwritten_and_another_file_is_refused(tmp_path: Path) -> None:
    name = write_random_twin(ROBOT, tmp_path)
    with pytest.raises(Refusal, match="already exists"):
        store.check_free(name)
    named = load_twin_file(name, "go2").twin.learned.actuator
    assert named is not None
    Path(named.file).write_bytes(Path(named.file).read_bytes() + b" ")
    with pytest.raises(Refusal, match="not the network that the twin was made with"):
        TwinRobot(ROBOT, imperfections=load_imperfections(name))


def test_the_same_network_makes_the_same_file(tmp_path: Path) -> None:
    digests = []
    for part in ("a", "b"):
        name = write_random_twin(ROBOT, tmp_path / part)
        learned = load_twin_file(name, "go2").twin.learned
        assert learned.actuator is not None
        digests.append(learned.actuator.digest)
    assert digests[0] == digests[1]
