"""The twin does what the hardware does and the data sheet does not say."""

import time
from collections.abc import Iterator

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.twin.faults import Fault
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.requests import parse
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.twin.sport import folded_pose
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.messages import GO_LOW_CMD, LOW_CMD
from sim2real_deploy.wire.motion_switcher import MotionSwitcher
from sim2real_deploy.wire.remote import Remote
from support.twin_support import ROBOT, command, decode, twin
from support.wire_support import free_domain

CALVES = slice(2, None, 3)


def test_it_lies_folded_beyond_the_published_range() -> None:
    """Public dumps of a real one lying down: calves at -2.795 to -2.818."""
    q = decode(twin().advance(None)).q
    assert np.all(q[CALVES] < ROBOT.position_low[CALVES] - 0.06)
    assert np.all(q[CALVES] > ROBOT.stop_low[CALVES] - 0.02)


def test_l2_b_damps_sport_mode_and_after_its_release_is_bytes() -> None:
    robot = TwinRobot(ROBOT, sport_mode=True)
    chord = Remote(pressed=frozenset({"L2", "B"}))
    robot.hold_remote(chord)
    for _ in range(25):
        sample = robot.advance(None)
    assert not robot.sport.command.kp.any(), "sport mode damps"
    assert decode(sample).whole().remote[:4] == bytes((85, 81, 0x20, 0x02))
    robot.hold_remote(Remote())
    robot.sport.serve_switcher(1003, "", 0)
    hold = command(folded_pose(ROBOT), ROBOT.kp, ROBOT.kd)
    robot.hold_remote(chord)
    for _ in range(25):
        sample = robot.advance(hold)
    assert decode(sample).whole().remote[:4] == bytes((85, 81, 0x20, 0x02))
    assert robot.boards.command.kp.any(), "nobody but the computer can stop it now"


def test_a_remote_that_is_off_sends_zeros() -> None:
    robot = twin()
    parse("{remote: {alive: false}}").apply(robot)
    for _ in range(25):
        sample = robot.advance(None)
    assert decode(sample).whole().remote == bytes(40)


@pytest.mark.parametrize(("timeout", "holds"), [(0.2, False), (0.0, True)])
def test_boards_may_have_no_timeout(timeout: float, holds: bool) -> None:
    robot = twin(command_timeout=timeout)
    robot.advance(command(folded_pose(ROBOT), ROBOT.kp, ROBOT.kd))
    for _ in range(500):
        robot.advance(None)
    assert robot.boards.command.kp.any() == holds


def test_a_board_that_is_off_drops_its_motor_out_of_its_mode() -> None:
    robot = twin()
    robot.inject(Fault(target="motor", word="off", joint="RL_hip_joint"))
    for _ in range(25):
        sample = robot.advance(None)
    modes = decode(sample).whole().motor_mode.tolist()
    assert modes == [int(name != "RL_hip_joint") for name in ROBOT.joint_names]
    robot.clear_faults()
    for _ in range(25):
        sample = robot.advance(None)
    assert decode(sample).whole().motor_mode.tolist() == [1] * ROBOT.joint_count


def test_motors_may_freeze() -> None:
    cold = {"ambient": -15.0, "start": -15.0}
    robot = twin(motors={"heat": cold})
    assert decode(robot.advance(None)).whole().temperature.tolist() == [-15] * ROBOT.joint_count


# on the wire


@pytest.fixture
def running() -> Iterator[TwinOnWire]:
    with TwinOnWire(TwinRobot(ROBOT, sport_mode=True), "lo", free_domain()) as on_wire:
        yield on_wire
        on_wire.check()


@pytest.fixture
def eye() -> Iterator[Participant]:
    participant = Participant(free_domain(), "lo", "eye")
    yield participant
    participant.close()


def test_sport_mode_writes_until_its_release_and_announces_itself_after(
    running: TwinOnWire, eye: Participant
) -> None:
    commands = eye.reader(LOW_CMD, GO_LOW_CMD)
    assert commands.wait(5.0)
    (writer,) = {eye.who(sample.writer).name for sample in commands.take()}
    assert writer == "sport mode"
    MotionSwitcher(eye).release()
    time.sleep(0.1)
    commands.take()
    assert not commands.wait(0.3), "it is silent"
    assert "sport mode" in {w.name for w in eye.other_writers(LOW_CMD)}, "and still there"


def test_the_motion_switcher_may_be_slow_broken_or_silent(
    running: TwinOnWire, eye: Participant
) -> None:
    patient, hasty = MotionSwitcher(eye, 5.0), MotionSwitcher(eye, 0.5)
    assert not patient.check().released
    running.twin.inject(Fault(target="switcher", word="delayed", amount=1.0))
    start = time.monotonic()
    assert not patient.check().released
    assert time.monotonic() - start > 0.9
    running.twin.inject(Fault(target="switcher", word="wrong"))
    with pytest.raises(Refusal, match="code 3104"):
        patient.check()
    running.twin.inject(Fault(target="switcher", word="off"))
    with pytest.raises(Refusal, match="did not answer"):
        hasty.check()


def test_a_second_robot_on_the_bus_is_counted_and_not_believed(running: TwinOnWire) -> None:
    link = DdsLink(ROBOT, "lo", free_domain(), listens=True)
    try:
        assert link.wait(5.0) is not None
        robot = link.robot
        assert robot is not None
        assert robot.name == "twin"
        running.ask(lambda twin: twin.inject(Fault(target="second_state", word="wrong")))
        deadline = time.monotonic() + 5.0
        while link.counters.foreign < 100 and time.monotonic() < deadline:
            state = link.wait(0.1)
            assert state is None or state.tick < 10_000_000
        assert link.counters.foreign >= 100
        assert link.counters.leaps == 0
        assert link.counters.lost < 100
    finally:
        link.close()
