"""The twin in process: repeatable, stands up, refuses bad input, fights while sport mode is on."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.twin.disturbances import Push, Slip
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import FLOORS
from sim2real_deploy.twin.message import StateMessage
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.twin.sport import (
    DAMP,
    NO_SUCH_SERVICE,
    RECOVERY_STAND,
    SERVICE_LIST,
    SERVICE_SWITCH,
    STAND_DOWN,
    STAND_UP,
    folded_pose,
)
from sim2real_deploy.wire import remote
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.in_process import InProcessLink
from sim2real_deploy.wire.messages import GO_LOW_CMD
from sim2real_deploy.wire.motion_switcher import CHECK, RELEASE, SELECT
from sim2real_deploy.wire.rpc import NOT_IMPLEMENTED
from support.twin_support import JOINTS, ROBOT, command, decode, stand, stand_up, twin
from support.wire_support import robot as wire_robot


def imperfect(seed: int = 0) -> TwinRobot:
    return TwinRobot(ROBOT, FLOORS["rough"], load_imperfections("default"), seed=seed)


def run(robot: TwinRobot, steps: int = 400) -> list[bytes]:
    return [sample for _ in range(steps) for sample in robot.exchange((stand(),))]


def test_same_seed_same_bytes_also_after_reset_and_on_threads() -> None:
    robot = imperfect(seed=3)
    first = run(robot)
    robot.push(Push(force=200, direction=(0, 1, 0), duration=0.1))
    robot.reset(3)
    assert run(robot) == first
    with ThreadPoolExecutor(3) as pool:
        assert all(again == first for again in pool.map(run, [imperfect(3) for _ in range(3)]))
    assert run(imperfect(seed=4)) != first


@pytest.mark.parametrize("floor", FLOORS)
def test_found_lying_down_and_stands_up_on_every_floor(floor: str) -> None:
    robot = TwinRobot(ROBOT, FLOORS[floor], load_imperfections("default"))
    first = decode(robot.advance(None))
    np.testing.assert_allclose(first.q, folded_pose(ROBOT), atol=0.15)
    assert np.abs(first.dq).max() < 1.0
    assert first.tick == 2
    low = robot.truth.position[2]
    assert low < 0.16
    stand_up(robot, 2.5)
    truth = robot.truth
    above = truth.position[2] - FLOORS[floor].height(*truth.position[:2])
    assert above == pytest.approx(ROBOT.base_height, abs=0.05)
    assert truth.foot_force.sum() == pytest.approx(15.2 * 9.81, rel=0.15)
    assert truth.contacts == ()


def test_behind_the_in_process_link_it_is_a_robot() -> None:
    link = InProcessLink(ROBOT, twin())
    nothing = np.zeros(JOINTS, np.float32)
    for _ in range(100):
        state = link.wait(0.01)
        link.send(JointCommand(ROBOT.sit_pose, nothing, ROBOT.kp, ROBOT.kd, nothing))
    assert state is not None
    assert state.tick == 200
    assert link.now_ns() == 200_000_000
    assert link.counters.received == 100
    assert link.counters.lost == link.counters.bad_crc == 0


def _broken(sample: bytes, byte: int) -> bytes:
    return sample[:byte] + bytes([sample[byte] ^ 1]) + sample[byte + 1 :]


def test_bad_input_is_counted_and_changes_nothing() -> None:
    robot = twin()
    good = stand()
    robot.advance(good)
    held = robot.boards.command.block.copy()
    nan = command()
    encoder = CommandEncoder(ROBOT)
    wild = JointCommand(*(np.zeros(JOINTS, np.float32) for _ in range(5)))
    encoder.encode(wild)
    encoder._fields["motor_cmd"][0, 3]["tau"] = np.nan  # the encoder itself would refuse
    nan = encoder._finish()
    bad = {
        "bad_crc": [_broken(good, 100)],
        "not_finite": [nan],
        "bad_gain": [command(kp=1e6), command(kd=1e3), command(kp=-1)],
        "bad_length": [b"", good[:-1], np.random.default_rng(0).bytes(60_000), b"\0" * 60_000],
    }
    for sample in itertools.chain.from_iterable(bad.values()):
        assert decode(robot.advance(sample)).tick > 0
    np.testing.assert_array_equal(robot.boards.command.block, held)
    for name, samples in bad.items():
        assert getattr(robot.boards.counters, name) == len(samples), name
    assert robot.boards.counters.accepted == 1
    assert robot.boards.counters.rejected == 9


def test_stop_values_and_mode_zero_switch_a_motor_off() -> None:
    robot = twin()
    robot.advance(command(q=2.146e9, dq=16000.0, kp=50, kd=5, torque=0.5))
    assert robot.boards.command.gains.max() == 0.0
    assert robot.boards.command.torque == pytest.approx(0.5)
    robot.advance(command(q=-1e30, kp=0.0, torque=0.5))  # means nothing without a gain
    assert decode(robot.advance(None)).torque == pytest.approx(0.5)
    encoder = CommandEncoder(ROBOT)
    encoder.encode(JointCommand(*(np.ones(JOINTS, np.float32) for _ in range(5))))
    encoder.sample[GO_LOW_CMD.irregular["motor_cmd.mode"][4]] = 0
    robot.advance(encoder._finish())
    assert robot.boards.command.kp.tolist() == [0.0 if j == 4 else 1.0 for j in range(JOINTS)]


@pytest.mark.parametrize("family", ["go", "hg"])
def test_the_state_message_is_good_on_either_wire_family(family: str) -> None:
    robot = wire_robot(family)
    message, decoder = StateMessage(robot), StateDecoder(robot)
    message.set_body(np.array([1.0] + 9 * [0.0]), np.full(len(robot.legs), 12.7))
    message.q[:] = np.arange(robot.joint_count)
    message.slow.temperature[:] = 41
    message.slow.voltage = 30.0
    message.refresh()
    sample = message.finish(1234)
    assert decoder.flaw(sample) is None
    state = decoder.decode(sample, 0).whole()
    assert state.tick == 1234
    np.testing.assert_array_equal(state.q, np.arange(robot.joint_count))
    assert set(state.temperature.tolist()) == {41}
    assert state.voltage == 30.0


def test_push_moves_the_trunk_by_its_momentum() -> None:
    robot = twin()
    stand_up(robot)
    start = robot.truth.velocity[1]
    robot.push(Push(force=150, direction=(0, 2, 0), duration=0.05))
    fastest = 0.0
    for _ in range(50):
        robot.advance(stand())
        fastest = max(fastest, robot.truth.velocity[1] - start)
    assert 0.2 * 150 * 0.05 / 15.2 < fastest <= 150 * 0.05 / 15.2
    assert not robot.data.xfrc_applied.any()


def test_slip_lets_the_feet_slide_and_ends() -> None:
    def drift(slip: Slip | None) -> float:
        robot = TwinRobot(ROBOT, FLOORS["slope"])
        stand_up(robot)
        if slip:
            robot.slip(slip)
        start = robot.truth.position[0]
        run(robot, 150)
        return abs(robot.truth.position[0] - start)

    assert drift(Slip(friction=0.05, duration=0.3)) > 0.05 > 5 * drift(None)


def test_remote_is_seen_in_the_state() -> None:
    robot = twin()
    held = remote.Remote(lx=0.5, pressed=frozenset({"L2", "B"}))
    robot.hold_remote(held)
    for _ in range(25):
        state = decode(robot.advance(None))
    assert remote.decode(state.whole().remote) == held


def test_sport_mode_fights_until_it_is_released() -> None:
    robot = TwinRobot(ROBOT, sport_mode=True)
    assert robot.sport.serve_switcher(CHECK, "{}", 0)[1] == '{"form": "0", "name": "normal"}'
    state = stand_up(robot, 1.5)
    assert robot.truth.position[2] < 0.22  # does not get up against sport mode
    torques = []
    for _ in range(20):
        torques.append(decode(robot.advance(stand())).torque[2])
    assert np.abs(np.diff(torques)).max() > 10  # and squirms
    assert robot.sport.serve_switcher(RELEASE, "{}", 0) == (0, "")
    assert robot.sport.serve_switcher(CHECK, "", 0)[1] == '{"form": "0", "name": ""}'
    state = stand_up(robot, 2.0)
    assert robot.truth.position[2] == pytest.approx(ROBOT.base_height, abs=0.04)
    assert state.torque[2] == pytest.approx(decode(robot.advance(stand())).torque[2], abs=1.0)


def test_sport_mode_stands_up_and_down_by_itself() -> None:
    robot = TwinRobot(ROBOT, sport_mode=True)
    heights = []
    for api in (STAND_UP, STAND_DOWN):
        robot.advance(None)
        assert robot.sport.serve_sport(api, "", robot.now_ns()) == (0, "")
        for _ in range(1000):
            robot.advance(None)
        heights.append(robot.truth.position[2])
    assert heights[0] == pytest.approx(ROBOT.base_height, abs=0.04)
    assert heights[1] < 0.16


@pytest.mark.parametrize("first", [(DAMP,), (STAND_UP, DAMP), ()], ids=str)
@pytest.mark.parametrize("stand", [STAND_UP, RECOVERY_STAND])
def test_sport_mode_stands_up_from_wherever_its_joints_are(
    first: tuple[int, ...], stand: int
) -> None:
    """Damped it has sunk to the floor, and what it commanded last says nothing of where it is."""
    robot = TwinRobot(ROBOT, sport_mode=True)
    tilts = []
    for api in (*first, stand):
        assert robot.sport.serve_sport(api, "", robot.now_ns()) == (0, "")
        for _ in range(1000):
            robot.advance(None)
            tilts.append(1 - 2 * np.sum(robot.truth.quaternion[1:3] ** 2))
    assert min(tilts) > 0.9  # upright all the time
    assert robot.truth.position[2] == pytest.approx(ROBOT.base_height, abs=0.04)


def test_sport_mode_that_is_selected_again_does_not_throw_a_standing_robot() -> None:
    robot = TwinRobot(ROBOT)
    stand_up(robot, 2.0)
    assert robot.sport.serve_switcher(SELECT, '{"name": "normal"}', robot.now_ns())[0] == 0
    speeds = []
    for _ in range(1000):
        robot.advance(None)
        speeds.append(np.abs(robot.truth.velocity).max())
    assert max(speeds) < 1.0


def test_the_robot_state_service_lists_and_switches_sport_mode() -> None:
    robot = TwinRobot(ROBOT, sport_mode=True)
    serve = robot.sport.serve_robot_state

    def status() -> int:
        code, data = serve(SERVICE_LIST, "{}")
        assert code == 0
        return {service["name"]: service["status"] for service in json.loads(data)}["sport_mode"]

    assert status() == 1
    assert serve(SERVICE_SWITCH, '{"name": "sport_mode", "switch": 0}')[0] == 0
    assert (status(), robot.sport.mode) == (0, "")
    assert serve(SERVICE_SWITCH, '{"name": "sport_mode", "switch": 1}')[0] == 0
    assert (status(), robot.sport.mode) == (1, "normal")
    protected = serve(SERVICE_SWITCH, '{"name": "motion_switcher", "switch": 0}')
    assert json.loads(protected[1])["status"] == 5
    assert serve(SERVICE_SWITCH, '{"name": "lidar", "switch": 0}')[0] == NO_SUCH_SERVICE
    assert serve(1099, "{}")[0] == NOT_IMPLEMENTED


@pytest.mark.parametrize("parameter", ["", "[]", "{", '{"name": 5}', '{"name": "dance"}'])
def test_a_mode_that_is_none_is_refused(parameter: str) -> None:
    robot = TwinRobot(ROBOT)
    assert robot.sport.serve_switcher(SELECT, parameter, 0)[0] != 0
    assert robot.sport.mode == ""


@pytest.mark.parametrize("name", ["go2", "g1"])
def test_placed_without_a_height_it_stands_on_the_floor(name):
    robot = load_robot(name)
    twin = TwinRobot(robot)
    pose = robot.stand_pose.astype(float)
    twin.place(np.array([0, 0, np.nan, 1, 0, 0, 0]), np.zeros(6), pose, np.zeros_like(pose))
    depths = [contact.dist for contact in twin.data.contact]
    assert depths, "no foot touches the floor"
    assert min(depths) > -1e-6, "a foot is in the floor"
