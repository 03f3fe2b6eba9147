"""The mode switch, and the slow topics beside it, held to the vendor's own classes."""

import json
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire import sport_state, vendor
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.messages import SPORT_MODE_STATE, WIRELESS_CONTROLLER
from sim2real_deploy.wire.motion_switcher import MotionSwitcher
from sim2real_deploy.wire.remote import Remote
from sim2real_deploy.wire.rpc import (
    NOT_IMPLEMENTED,
    REQUEST,
    RESPONSE,
    RpcClient,
    RpcServer,
    RpcTimeout,
)
from support.wire_support import free_domain, needs_vendor_sdk


class Robot:
    """The robot's side of the switch: releases only when told `stubborn` times more."""

    def __init__(self, participant: Participant) -> None:
        self.mode = "normal"
        self.stubborn = 0
        self.answer: str | None = None
        self.code = 0
        self._server = RpcServer(participant, "motion_switcher", self._handle)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._server.serve(0.02)

    def _handle(self, api: int, parameter: str) -> tuple[int, str]:
        if self.code:
            return self.code, ""
        if api == 1001:
            return 0, self.answer or json.dumps({"form": "0", "name": self.mode})
        if api == 1002:
            self.mode = json.loads(parameter)["name"]
            return 0, ""
        if api == 1003:
            self.stubborn -= 1
            if self.stubborn < 0:
                self.mode = ""
            return 0, ""
        return NOT_IMPLEMENTED, ""

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def ends() -> Iterator[tuple[Participant, Participant]]:
    here = Participant(free_domain(), "lo", "client")
    there = Participant(free_domain(), "lo", "robot")
    yield here, there
    here.close()
    there.close()


@pytest.fixture
def switch(ends: tuple[Participant, Participant]) -> Iterator[tuple[MotionSwitcher, Robot]]:
    robot = Robot(ends[1])
    yield MotionSwitcher(ends[0], timeout_s=3.0), robot
    robot.stop()


def test_the_mode_is_told_released_and_given_back(switch: tuple[MotionSwitcher, Robot]) -> None:
    client, robot = switch
    assert client.check().name == "normal"
    assert not client.check().released
    robot.stubborn = 2
    client.release()
    assert robot.mode == ""
    assert client.check().released
    client.select("ai")
    assert client.check().name == "ai"


def test_a_mode_that_comes_back_is_refused(ends: tuple[Participant, Participant]) -> None:
    robot = Robot(ends[1])
    robot.stubborn = 10**6
    try:
        with pytest.raises(Refusal, match="still in vendor mode 'normal'"):
            MotionSwitcher(ends[0], timeout_s=0.3).release()
    finally:
        robot.stop()


@pytest.mark.parametrize("answer", ["nonsense", "[]", "{}", '"normal"'])
def test_an_answer_we_do_not_know_is_refused(
    switch: tuple[MotionSwitcher, Robot], answer: str
) -> None:
    client, robot = switch
    robot.answer = answer
    with pytest.raises(Refusal, match="not an answer we know"):
        client.check()


def test_an_error_code_is_refused_with_its_number(switch: tuple[MotionSwitcher, Robot]) -> None:
    client, robot = switch
    robot.code = 7001
    with pytest.raises(Refusal, match="7001"):
        client.release()


def test_nobody_there_ends_in_time(ends: tuple[Participant, Participant]) -> None:
    client = MotionSwitcher(ends[0], timeout_s=0.2)
    before = time.monotonic()
    with pytest.raises(Refusal, match="no server"):
        client.check()
    assert time.monotonic() - before < 5


def test_a_server_that_does_not_answer_ends_in_time(
    ends: tuple[Participant, Participant],
) -> None:
    server = RpcServer(ends[1], "sport", lambda api, parameter: (0, ""))
    with pytest.raises(RpcTimeout, match="did not answer api 1004"):
        RpcClient(ends[0], "sport").call(1004, "{}", timeout_s=1.0)
    assert server.serve() == 1  # it was asked, and had not looked


def test_who_got_no_answer_asks_again(ends: tuple[Participant, Participant]) -> None:
    """As from a server that is found before it has found the client."""
    deaf = ends[1].reader("rt/api/sport/request", REQUEST)
    mute = ends[1].writer("rt/api/sport/response", RESPONSE)
    asked = threading.Event()

    def serve() -> None:
        assert deaf.wait(10.0)
        asked.set()
        server = RpcServer(ends[1], "sport", lambda api, parameter: (7, parameter))
        while not server.serve(10.0):
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    assert RpcClient(ends[0], "sport").call(1004, "{}", timeout_s=10.0) == (7, "{}")
    thread.join()
    assert asked.is_set()
    assert mute.matched() == 1


def test_a_request_says_what_was_asked_for(ends: tuple[Participant, Participant]) -> None:
    reader = ends[1].reader("rt/api/sport/request", REQUEST)
    server = ends[1].writer("rt/api/sport/response", RESPONSE)
    client = RpcClient(ends[0], "sport")
    with pytest.raises(RpcTimeout):
        client.call(1008, '{"x": 0.3, "why": "\u00e9"}', timeout_s=1.0)
    assert server.matched() == 1
    (sample,) = reader.take()
    assert sample.data.api == 1008
    assert sample.data.parameter == '{"x": 0.3, "why": "\u00e9"}'
    assert sample.data.wants_answer


@needs_vendor_sdk
def test_the_sport_state_is_what_the_vendors_class_reads() -> None:
    def numbers(count: int, first: float) -> np.ndarray:
        return np.arange(count, dtype=np.float32) + np.float32(first)

    given = sport_state.SportState(
        stamp_ns=12_000_000_345,
        quaternion=np.array([1, 0, 0, 0], np.float32),
        gyroscope=numbers(3, 1),
        accelerometer=numbers(3, 4),
        position=numbers(3, 7),
        velocity=numbers(3, 10),
        yaw_speed=0.5,
        body_height=0.25,
    )
    sample = sport_state.encode(given)
    read = vendor.idl(SPORT_MODE_STATE.type_name).deserialize(sample)
    assert (read.stamp.sec, read.stamp.nanosec) == (12, 345)
    assert list(read.imu_state.gyroscope) == [1, 2, 3]
    assert list(read.position) == [7, 8, 9]
    assert list(read.velocity) == [10, 11, 12]
    assert (read.yaw_speed, read.body_height) == (0.5, 0.25)
    assert read.serialize() == sample


@needs_vendor_sdk
def test_the_wireless_message_is_what_the_vendors_class_reads() -> None:
    remote = Remote(lx=0.5, ly=-0.25, rx=1.0, ry=-1.0, pressed=frozenset({"L2", "B"}))
    sample = sport_state.encode_wireless(remote)
    read = vendor.idl(WIRELESS_CONTROLLER.type_name).deserialize(sample)
    assert (read.lx, read.ly, read.rx, read.ry) == (0.5, -0.25, 1.0, -1.0)
    assert read.keys == (1 << 5) | (1 << 9)
