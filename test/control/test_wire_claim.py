"""The wire is claimed under a robot that lies, from a vendor that lets go, or not at all."""

import threading
import time
from collections.abc import Iterator

import pytest

from sim2real_deploy.control import wire_claim
from sim2real_deploy.control.modes import Situation
from sim2real_deploy.control.wire_claim import WireClaim
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.twin.sport import STAND_UP
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.motion_switcher import SELECT
from support.twin_support import ROBOT
from support.wire_support import free_domain


class World:
    """A twin in sport mode, and a claim on it."""

    def __init__(self) -> None:
        self.twin = TwinOnWire(TwinRobot(ROBOT, sport_mode=True), "lo", free_domain())
        self.twin.start()
        self.link = DdsLink(ROBOT, "lo", free_domain(), name="control")
        self.situation = Situation()
        self.claim = WireClaim(
            self.link,
            ROBOT,
            self.situation,
            lambda: "",
            lambda: Participant(free_domain(), "lo", "control listens"),
        )
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        while self.link.latest is None:
            time.sleep(0.01)

    def _read(self) -> None:
        while not self._closing.is_set():
            self.link.wait(0.05)

    def stop_reading(self) -> None:
        self._closing.set()
        self._reader.join()

    @property
    def mode(self) -> str:
        return self.twin.twin.sport.mode

    def stand_up(self) -> None:
        self.twin.ask(lambda twin: twin.sport.serve_sport(STAND_UP, "", twin.now_ns()))
        deadline = time.monotonic() + 20.0  # it takes about a second
        while abs(self.link.latest.q - ROBOT.stand_pose).max() > 0.3:
            assert time.monotonic() < deadline, "the twin does not stand up"
            time.sleep(0.05)

    def close(self) -> None:
        self.stop_reading()
        self.link.close()
        self.twin.close()
        self.twin.check()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_a_robot_that_lies_is_claimed_though_the_vendor_keeps_its_writer(world: World) -> None:
    world.claim.take()
    assert world.mode == ""
    assert world.situation.sport_released
    assert world.situation.other_writers == ""
    assert "sport mode" in {w.name for w in world.link.other_writers()}


def test_a_robot_that_stands_lies_down_first(world: World) -> None:
    world.stand_up()
    released_at = []
    world.claim._switcher.release = lambda: released_at.append(  # type: ignore[method-assign]
        world.link.latest.q.copy()
    )
    world.claim.take()
    assert abs(released_at[0] - ROBOT.sit_pose).max() < wire_claim.LYING_RAD


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((0, ""), r"does not lie after 0\.5 s"),
        ((4001, ""), "refuses to lie down: code 4001"),
        (None, "could not be told to lie down"),
    ],
    ids=["agrees and stays", "refuses", "is silent"],
)
def test_sport_mode_is_never_released_under_a_robot_that_stands(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str] | None, words: str
) -> None:
    monkeypatch.setattr(wire_claim, "LIE_DOWN_S", 0.5)
    monkeypatch.setattr(wire_claim, "RPC_TIMEOUT_S", 0.5)
    world.stand_up()
    world.twin.twin.sport.serve_sport = lambda *_: answer  # type: ignore[method-assign]
    with pytest.raises(Refusal, match=words):
        world.claim.take()
    assert world.mode == "normal"
    assert not world.situation.sport_released


def test_a_robot_that_gets_up_is_still_ours(world: World) -> None:
    """What was true when it was claimed, perhaps an hour ago, was once believed."""
    world.claim.take()
    world.claim.confirm()
    assert world.situation.sport_released
    assert world.situation.other_writers == ""
    world.twin.ask(lambda twin: twin.sport.serve_switcher(SELECT, '{"name": "normal"}', 0))
    with pytest.raises(Refusal, match="sport mode is on again"):
        world.claim.confirm()
    assert not world.situation.sport_released
    assert world.mode == "normal", "nothing is released under a robot that may stand"


def test_without_a_fresh_state_nothing_is_released(world: World) -> None:
    world.stop_reading()
    time.sleep(0.2)
    with pytest.raises(Refusal, match="no fresh state"):
        world.claim.take()
    assert world.mode == "normal"


def test_who_writes_on_is_named(world: World) -> None:
    rival = DdsLink(ROBOT, "lo", free_domain(), name="rival")
    stopped = threading.Event()

    def write() -> None:
        while not stopped.wait(0.005):
            rival.send(JointCommand.damping(ROBOT.joint_count, 3.0))

    writing = threading.Thread(target=write)
    writing.start()
    try:
        world.claim.take()
    finally:
        stopped.set()
        writing.join()
        rival.close()
    assert world.situation.other_writers.startswith("rival on ")
