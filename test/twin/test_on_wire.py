"""The twin on DDS: seen by our link, by the vendor's SDK and by a Cyclone DDS 0.10.2 peer."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.faults import Fault
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.requests import parse
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire import sport_state
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.messages import GO_LOW_CMD, LOW_CMD, SPORT_MODE_STATE, WIRELESS_CONTROLLER
from sim2real_deploy.wire.motion_switcher import MotionSwitcher
from sim2real_deploy.wire.remote import Remote
from sim2real_deploy.wire.rpc import RpcClient
from support.interop import run
from support.places import DATA, SUPPORT
from support.twin_support import JOINTS, ROBOT, command
from support.wire_support import free_domain, needs_vendor_sdk

ZERO = np.zeros(JOINTS, np.float32)


@pytest.fixture
def running() -> Iterator[TwinOnWire]:
    patient = Imperfections(command_timeout=5.0)  # the machine may be busy
    twin = TwinRobot(ROBOT, imperfections=patient, sport_mode=True)
    with TwinOnWire(twin, "lo", free_domain()) as on_wire:
        yield on_wire
        on_wire.check()


def wait_for(condition: object, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def test_a_link_releases_sport_mode_and_stands_the_twin_up(running: TwinOnWire) -> None:
    link = DdsLink(ROBOT, "lo", free_domain())
    try:
        switcher = MotionSwitcher(link.participant, 20.0)
        assert switcher.check().name == "normal"
        switcher.release()
        assert switcher.check().released
        start = time.monotonic()
        while (done := min(1.0, (time.monotonic() - start) / 1.5)) < 1.0:
            state = link.wait(0.1)
            pose = ROBOT.sit_pose + np.float32(done) * (ROBOT.stand_pose - ROBOT.sit_pose)
            link.send(JointCommand(pose, ZERO, ROBOT.kp, ROBOT.kd, ZERO))
        assert state is not None
        height = running.ask(lambda twin: twin.base_truth.position[2])
        assert height == pytest.approx(ROBOT.base_height, abs=0.05)
        assert link.counters.duplicate == link.counters.bad_crc == link.counters.bad_length == 0
        assert running.twin.boards.counters.accepted > 50
        assert running.twin.boards.counters.rejected == 0
    finally:
        link.close()


def test_sport_mode_state_carries_the_odometry(running: TwinOnWire) -> None:
    participant = Participant(free_domain(), "lo")
    try:
        reader = participant.reader(sport_state.SPORT_STATE_TOPIC, SPORT_MODE_STATE)
        assert reader.wait(20.0)
        state = np.frombuffer(reader.take()[-1].data, SPORT_MODE_STATE.dtype)[0]
        truth = running.ask(lambda twin: twin.base_truth)
        np.testing.assert_allclose(state["position"], truth.position, atol=0.02)
    finally:
        participant.close()


def test_the_remote_and_the_list_of_services_are_on_the_wire(running: TwinOnWire) -> None:
    """As unitree_rl_lab and the vendor's examples look for them."""
    participant = Participant(free_domain(), "lo")
    try:
        reader = participant.reader(sport_state.WIRELESS_TOPIC, WIRELESS_CONTROLLER)
        running.ask(parse("remote: {pressed: [L2, B], ly: 0.5}").apply)
        want = sport_state.encode_wireless(Remote(ly=0.5, pressed=frozenset({"L2", "B"})))
        assert wait_for(lambda: reader.wait(0.1) and reader.take()[-1].data == want)
        code, data = RpcClient(participant, "robot_state").call(1003, "{}", timeout_s=20.0)
        assert code == 0
        assert {"name": "sport_mode", "status": 1, "protect": 0} in json.loads(data)
    finally:
        participant.close()


def test_garbage_on_the_wire_is_counted_and_the_twin_lives_on(running: TwinOnWire) -> None:
    participant = Participant(free_domain(), "lo")
    try:
        writer = participant.writer(LOW_CMD, GO_LOW_CMD)
        assert wait_for(lambda: writer.matched() > 0)
        good = command(torque=0.1)
        flipped = good[:50] + bytes([good[50] ^ 8]) + good[51:]
        counters = running.twin.boards.counters
        for sample, name in ((flipped, "bad_crc"), (command(kp=1e6), "bad_gain")):
            assert wait_for(lambda s=sample, n=name: writer.write(s) or getattr(counters, n) > 3)
        accepted = counters.accepted
        assert wait_for(lambda: writer.write(good) or counters.accepted > accepted)
        periods = running.timing.periods
        assert wait_for(lambda: running.timing.periods > periods + 100)
    finally:
        participant.close()


def test_what_is_asked_is_done_between_two_periods_and_refusals_come_back(
    running: TwinOnWire,
) -> None:
    running.ask(parse('{"fault": {"target": "imu", "word": "stuck"}}').apply)
    assert running.twin.faults.active == (Fault(target="imu", word="stuck"),)
    running.ask(parse("clear: true").apply)
    assert running.twin.faults.active == ()
    with pytest.raises(Refusal, match="it can be"):
        running.ask(parse("fault: {target: imu, word: sad}").apply)
    running.check()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("push: {force: -5, direction: [0, 1, 0], duration: 1}", r"push.force: .*greater than 0"),
        ("push: {force: 5, direction: [0, 0, 0], duration: 1}", r"direction.*all zeros"),
        ("remote: {pressed: [L2, turbo]}", r"no button turbo; there are: R1, L1"),
        ("{push: {force: 5}, clear: true}", r"direction: is missing"),
        ("{slip: {friction: 0.1, duration: 1}, clear: true}", r"one of fault, push"),
        ("{}", r"one of fault, push"),
        ("{jump: 3}", r"jump: unknown key"),
        ("]", r"not a line of YAML"),
        ("x" * 5000, r"5000 characters"),
        ("12", r"a mapping was expected"),
    ],
)
def test_requests_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        parse(text)


@pytest.mark.parametrize(
    "text", ["remote: {pressed: [L2, B], ly: 0.5}", "slip: {friction: 0.2, duration: 1}"]
)
def test_requests_reach_the_robot(text: str) -> None:
    twin = TwinRobot(ROBOT)
    before = twin.model.geom_friction.copy(), twin._message.slow.remote
    parse(text).apply(twin)
    changed = (twin.model.geom_friction != before[0]).any(), twin._message.slow.remote != before[1]
    assert sorted(changed) == [False, True]


def test_a_failure_inside_ends_the_loop_and_is_raised() -> None:
    on_wire = TwinOnWire(TwinRobot(ROBOT), "lo", free_domain())
    with on_wire:
        on_wire.twin.exchange = None  # type: ignore[method-assign,assignment]
        assert wait_for(lambda: on_wire.stopped)
        with pytest.raises(TypeError):
            on_wire.check()


@needs_vendor_sdk
def test_the_vendor_sdk_stands_it_up_and_lays_it_down(running: TwinOnWire) -> None:
    arguments = [sys.executable, str(SUPPORT / "twin_vendor_client.py"), str(free_domain())]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        killer = threading.Timer(120, client.kill)
        killer.start()
        try:
            said, heights = [], []
            while len(said) < 2:
                line = client.stdout.readline()
                assert line, f"the client ended with {client.wait()}"
                if line.startswith("{"):
                    heights.append(float(running.ask(lambda twin: twin.base_truth.position[2])))
                    said.append(json.loads(line))
                    client.stdin.write("\n")
                    client.stdin.flush()
        finally:
            killer.cancel()
            client.kill()
    standing, lying = said  # as the SDK shows it, which may be late: the truth is asked for apart
    assert standing["mode"] == "normal"  # as it was found
    assert heights[0] > 0.25
    assert heights[1] < 0.17
    assert len(standing["force"]) == 4
    assert np.all(np.diff(standing["ticks"]) > 0)  # one sample each, in order
    assert 24 < lying["power_v"] < 34
    assert running.twin.boards.counters.rejected == 0


@pytest.mark.parametrize("interface", ["eth0", "lo"])
def test_a_client_on_the_robots_cyclone_sees_the_twin_once(
    peer: Path,
    networks: tuple[str, str],
    interface: str,
) -> None:
    """0.10.2 takes 4 s of states, each once, and its commands arrive: from a computer of its own,
    and on the twin's, over a plain loopback, which has no multicast."""
    robots, clients = networks if interface == "eth0" else (networks[0], networks[0])
    client = compiled_client(peer)
    twin = start_twin(robots, interface)
    try:
        taken = subprocess.run(
            ["ip", "netns", "exec", clients, str(client), "2000"],
            env={**os.environ, "CYCLONEDDS_URI": cyclone_on(interface)},
            capture_output=True,
            text=True,
            timeout=90,
        )
        said, _ = twin.communicate(input="", timeout=30)
    finally:
        twin.kill()
        twin.wait()
    assert taken.returncode == 0, taken.stderr
    seen = json.loads(taken.stdout)
    assert seen.pop("states") >= 2000
    assert seen == {"bad_crc": 0, "twice": 0, "gaps": 0}
    counters = json.loads(said)
    assert counters["accepted"] > 1900
    assert counters["bad_crc"] == counters["bad_length"] == 0


def test_a_c_client_on_the_robots_cyclone_stands_it_up_on_a_plain_loopback(
    peer: Path,
    networks: tuple[str, str],
) -> None:
    """As the vendor's stand example does: mode asked for and released, then commands."""
    build, home, pipe = peer.parent, ["ip", "netns", "exec", networks[0]], subprocess.PIPE
    run("idlc", str(DATA / "twin" / "unitree_api.idl"), cwd=build)
    sources = [str(DATA / "twin" / "stand.c"), *map(str, build.glob("unitree_*.c"))]
    run("gcc", "-O2", "-I", str(build), *sources, "-o", str(build / "stand"), "-lddsc")
    twin = start_twin(networks[0], "lo")
    uri = {**os.environ, "CYCLONEDDS_URI": cyclone_on("lo")}
    client = subprocess.Popen([*home, str(build / "stand")], env=uri, stdout=pipe, text=True)
    killer = threading.Timer(90, client.kill)
    killer.start()
    try:
        assert client.stdout is not None
        mode = json.loads(client.stdout.readline() or "null")
        said, _ = twin.communicate(input="", timeout=30)
    finally:
        killer.cancel()
        for process in (twin, client):
            process.kill()
            process.wait()
    assert mode["name"] == "normal"  # as it was found
    counters = json.loads(said)
    assert counters["height"] > 0.25
    assert counters["bad_crc"] == counters["bad_length"] == 0


@needs_vendor_sdk
def test_a_client_on_a_newer_cyclone_does_not_harm_one_on_the_robots(
    peer: Path,
    networks: tuple[str, str],
) -> None:
    """The vendor's Python SDK on the newest binding stands the twin up while a 0.10.2 client takes
    states: that one lives, and misses nothing."""
    home, pipe = ["ip", "netns", "exec", networks[0]], subprocess.PIPE
    client = compiled_client(peer)
    twin = start_twin(networks[0], "lo")
    uri = {**os.environ, "CYCLONEDDS_URI": cyclone_on("lo")}
    old = subprocess.Popen([*home, str(client), "4000"], env=uri, stdout=pipe, text=True)
    script = [sys.executable, str(SUPPORT / "twin_vendor_client.py"), "0"]
    new = subprocess.Popen([*home, *script], stdin=pipe, stdout=pipe, text=True)
    killer = threading.Timer(60, new.kill)
    killer.start()
    try:
        assert new.stdout is not None
        lines = iter(new.stdout.readline, "")
        standing = json.loads(next(line for line in lines if line.startswith("{")))
        said, _ = old.communicate(timeout=60)
    finally:
        killer.cancel()
        for process in (twin, old, new):
            process.kill()
            process.wait()
    assert len(standing["ticks"]) > 0
    assert old.returncode == 0
    seen = json.loads(said)
    assert seen.pop("states") >= 4000
    assert seen == {"bad_crc": 0, "twice": 0, "gaps": 0}


def cyclone_on(interface: str) -> str:
    return (
        f'<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="{interface}"/>'
        "</Interfaces></General></Domain></CycloneDDS>"
    )


def compiled_client(peer: Path) -> Path:
    build = peer.parent  # where the IDL has been compiled
    sources = [str(DATA / "twin" / "client.c"), str(build / "unitree_go.c")]
    run("gcc", "-O2", "-I", str(build), *sources, "-o", str(build / "client"), "-lddsc")
    return build / "client"


def start_twin(network: str, interface: str) -> "subprocess.Popen[str]":
    script = [str(SUPPORT / "twin_process.py"), interface, "0"]
    return subprocess.Popen(
        ["ip", "netns", "exec", network, sys.executable, *script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
