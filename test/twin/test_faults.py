"""Every fault, by its word, seen from the outside; what cannot happen is refused."""

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.twin.faults import TARGETS, Fault
from sim2real_deploy.twin.robot import TwinRobot
from support.twin_support import JOINTS, ROBOT, command, decode, hung, stand, twin

JOINT, INDEX = ROBOT.joint_names[5], 5
WORDS = ("off", "stuck", "garbage", "wrong", "slow", "delayed", "intermittent")


def inject(robot: TwinRobot, target: str, word: str, **how: float) -> None:
    joint = JOINT if TARGETS[target].per_joint else None
    robot.inject(Fault(target=target, word=word, joint=joint, **how))


def moving(k: int) -> bytes:
    """A command that keeps every joint moving."""
    return command(ROBOT.stand_pose + 0.2 * np.sin(2 * np.pi * 0.002 * k), 60, 2)


def series(target: str, word: str, steps: int = 200, **how: float) -> tuple[np.ndarray, np.ndarray]:
    """One reading with and without the fault, by tick."""
    result = []
    for faulty in (False, True):
        robot = hung(motors={"heat": {"rate": 50.0}}, power={"idle": 20.0, "capacity": 0.01})
        for k in range(100):
            robot.advance(moving(k))
        if faulty:
            inject(robot, target, word, **how)
        values = []
        for k in range(100, 100 + steps):
            state = decode(robot.advance(moving(k))).whole()
            values.append(
                {
                    "encoder": state.q[INDEX],
                    "imu": state.accelerometer[2] + state.quaternion[0],
                    "temperature": state.temperature[INDEX],
                    "battery": state.battery_percent,
                }[target]
            )
        result.append(np.array(values, float))
    return result[0], result[1]


@pytest.mark.parametrize("target", ["encoder", "imu", "temperature", "battery"])
def test_off_stuck_and_wrong_readings(target: str) -> None:
    _, off = series(target, "off")
    assert not off[25:].any()
    true, stuck = series(target, "stuck")
    assert np.ptp(stuck[25:]) == 0
    true, wrong = series(target, "wrong", amount=-3.0)
    assert not np.allclose(wrong[25:], true[25:])
    _, garbage = series(target, "garbage")
    assert np.ptp(garbage[25:]) > 3


def test_slow_encoder_changes_once_a_period_and_delayed_one_is_late() -> None:
    _, slow = series("encoder", "slow", amount=0.02)
    assert np.count_nonzero(np.diff(slow)) == pytest.approx(200 / 10, abs=2)
    robot = hung()
    inject(robot, "encoder", "delayed", amount=0.04)
    true, seen = [], []
    for k in range(200):
        seen.append(decode(robot.advance(command(torque=np.sin(0.1 * k)))).q[INDEX])
        true.append(robot.truth.joint_position[INDEX])
    np.testing.assert_allclose(seen[60:], true[40:-20], atol=0.002)
    assert np.abs(np.subtract(seen, true))[60:].max() > 0.02


def test_intermittent_encoder_is_gone_half_of_the_time() -> None:
    _, seen = series("encoder", "intermittent", 500, amount=0.1)
    assert np.mean(seen == 0) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("word", WORDS)
def test_state_stream(word: str) -> None:
    robot = twin()
    good = robot.advance(stand())
    assert good is not None
    inject(robot, "state", word)
    samples = [(robot.now_ns() // 1_000_000 + 2, robot.advance(stand())) for _ in range(500)]
    came = [(now, sample) for now, sample in samples if sample is not None]
    rate = len(came) / 500
    if word == "off":
        assert rate == 0
    elif word == "stuck":
        assert len({sample for _, sample in came}) == 1
    elif word in ("garbage", "wrong"):
        assert rate == 1
        with pytest.raises(AssertionError):
            decode(came[0][1])
    elif word == "slow":
        assert rate == pytest.approx(0.04, abs=0.005)  # 20 Hz
    elif word == "delayed":
        assert {now - decode(sample).tick for now, sample in came} == {50}
    else:
        assert rate == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("word", WORDS)
def test_command_path(word: str) -> None:
    """What reaches the boards of 250 commands, half a second of them."""
    robot = twin(command_timeout=10)
    robot.advance(command(torque=0.0))
    inject(robot, "command", word)
    torques = []
    for k in range(250):
        robot.advance(command(torque=0.001 * (k + 1)))
        torques.append(robot.boards.command.torque[0])
    counters = robot.boards.counters
    if word == "off":
        assert counters.accepted == 1
    elif word == "stuck":
        assert len(set(torques)) == 1
    elif word in ("garbage", "wrong"):
        assert counters.rejected == 250
    elif word == "slow":
        assert counters.accepted - 1 == pytest.approx(10, abs=1)
    elif word == "delayed":
        assert torques[-1] == pytest.approx(0.001 * (250 - 25))
    else:
        assert counters.accepted == pytest.approx(125, abs=30)


def test_motor_off_gives_no_torque_and_its_packets_count_as_lost() -> None:
    robot = hung()
    inject(robot, "motor", "off", duration=0.2)
    for _ in range(99):
        state = decode(robot.advance(command(torque=1.0)))
    assert state.torque[INDEX] == 0.0
    assert np.delete(np.array(state.torque), INDEX) == pytest.approx(1.0)
    assert 50 < state.whole().lost[INDEX] <= 100
    assert not np.delete(np.array(state.whole().lost), INDEX).any()
    for _ in range(3):
        state = decode(robot.advance(command(torque=1.0)))
    assert state.torque[INDEX] == pytest.approx(1.0)  # its time is over
    assert robot.faults.active == ()


@pytest.mark.parametrize(
    ("word", "check"),
    [
        ("wrong", lambda torque: np.allclose(torque, 1.0 + 8.0)),
        ("stuck", lambda torque: np.ptp(torque) == 0),
        ("garbage", lambda torque: np.ptp(torque) > 15),
        ("intermittent", lambda torque: 0.3 < np.mean(torque == 0) < 0.7),
    ],
)
def test_motor_faults(word: str, check: object) -> None:
    robot = hung()
    robot.model.dof_armature[6:] = 1e9
    inject(robot, "motor", word)
    torque = np.array(
        [decode(robot.advance(command(torque=1.0))).torque[INDEX] for _ in range(200)]
    )
    assert check(torque)  # type: ignore[operator]


def test_every_possible_fault_can_be_injected_together_and_cleared() -> None:
    for word in WORDS:
        robot = twin()
        for target, row in TARGETS.items():
            if word in row.words:
                inject(robot, target, word)
        for k in range(60):
            robot.exchange((moving(k),))
        robot.clear_faults()
        assert robot.faults.active == ()
        assert decode(robot.advance(stand())).tick == 122


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"target": "state", "word": "angry"}, r"it can be: off, stuck, garbage, wrong, slow"),
        (
            {"target": "battery", "word": "slow"},
            r"'battery'; it can be: off, stuck, garbage, wrong",
        ),
        ({"target": "wheels", "word": "off"}, r"there are: state, command, encoder, motor, imu"),
        ({"target": "motor", "word": "off"}, r"needs a joint.*FR_hip_joint"),
        ({"target": "motor", "word": "off", "joint": "tail"}, r"no joint 'tail'.*FR_hip_joint"),
        ({"target": "imu", "word": "off", "joint": JOINT}, r"leave out the joint"),
    ],
)
def test_what_cannot_happen_is_refused_with_what_can(fault: dict[str, str], words: str) -> None:
    with pytest.raises(Refusal, match=words):
        twin().inject(Fault(**fault))


def test_joints_are_as_many_as_the_robot_has() -> None:
    robot = twin()
    for name in ROBOT.joint_names:
        robot.inject(Fault(target="encoder", word="off", joint=name))
    assert len(robot.faults.active) == JOINTS
