"""What the safety and control nodes tell a person, and what a message may not make them do."""

import queue
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy.control.modes import Decision, Mode, ModeEvent, ModeRequest
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.control import MIRROR_FAILS, ControlNode
from sim2real_deploy.nodes.safety_supervisor import (
    RecorderHealth,
    SafetySupervisor,
    nothing_to_stop,
)
from sim2real_deploy.safety.chain import Stop
from support.safety_world import DAMPING, WALKING


def test_a_stop_that_stops_nothing_says_so() -> None:
    """`estop` while control is passive used to send nothing and report success."""
    passive = SimpleNamespace(mode="passive")
    assert "control is not running" in nothing_to_stop(None)
    assert "control is passive and sends nothing" in nothing_to_stop(passive)  # type: ignore[arg-type]
    assert nothing_to_stop(WALKING) == nothing_to_stop(DAMPING) == ""


@pytest.mark.parametrize(
    ("report", "stops"), [(SimpleNamespace(mode="passive"), False), (None, False), (WALKING, True)]
)
def test_a_stop_succeeds_where_there_was_something_to_stop(report: Any, stops: bool) -> None:
    latched = SimpleNamespace(latched=Stop.ESTOP, latched_reason="called")
    loop = SimpleNamespace(
        chain=SimpleNamespace(report=report),
        press=lambda _: None,
        supervisor=latched,
        alive=True,
        commands=False,
    )
    node: Any = SimpleNamespace(loop=loop)
    answer = SafetySupervisor._press(node, "estop", Stop.ESTOP, Trigger.Response())
    assert answer.success is stops
    assert answer.message.startswith("estop: called" if stops else "nothing to stop")


class Claimed(Exception):
    """The wire was claimed."""


class Confirmed(Exception):
    """Who has the wire was asked again."""


class Claim:
    def __init__(self) -> None:
        self.asking = threading.Lock()

    def take(self) -> None:
        assert self.asking.locked(), "two at once would share one answer, and one claim"
        raise Claimed

    def confirm(self) -> None:
        assert self.asking.locked()
        raise Confirmed


def asking(mode: Mode, allowed: bool) -> Any:
    """A control node in this mode whose guards allow, or refuse, to stand up."""
    decision = Decision(allowed, mode, "the guards say so")
    loop = SimpleNamespace(
        controller=SimpleNamespace(mode=mode),
        foresee=lambda _: decision,
        request=lambda _: decision,
    )
    claim = Claim()
    node: Any = SimpleNamespace(
        loop=loop,
        _link=SimpleNamespace(robot=None),
        _claim=claim,
        _claiming=claim.asking,
        _ask_from_rest=lambda event: ControlNode._ask_from_rest(node, event),
        _interface="lo",
        _real=False,
    )
    return node


def test_the_wire_is_claimed_after_the_guards_and_never_while_it_moves() -> None:
    """Claiming lays the robot down, releases sport mode and may take seconds."""
    stand = ModeRequest(ModeEvent.STAND)
    with pytest.raises(Claimed):
        ControlNode.ask(asking(Mode.PASSIVE, allowed=True), stand)
    assert not ControlNode.ask(asking(Mode.PASSIVE, allowed=False), stand).accepted
    assert ControlNode.ask(asking(Mode.WALKING, allowed=True), stand).accepted


def test_before_it_gets_up_somebody_looks_who_has_the_wire() -> None:
    recover = ModeRequest(ModeEvent.RECOVER)
    with pytest.raises(Confirmed):
        ControlNode.ask(asking(Mode.DAMPING, allowed=True), recover)
    assert not ControlNode.ask(asking(Mode.DAMPING, allowed=False), recover).accepted


def test_a_message_does_not_choose_where_files_go(tmp_path: Path) -> None:
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for folder in (runs / "run1", elsewhere):
        folder.mkdir(parents=True)
    node: Any = SimpleNamespace(_runs=runs, _recorder=RecorderHealth())
    for path in (elsewhere, runs / ".." / "elsewhere", runs, runs / "missing", Path("/")):
        SafetySupervisor._on_run(node, String(data=str(path)))
        assert node._recorder.run is None, path
    SafetySupervisor._on_run(node, String(data=str(runs / "run1")))
    assert node._recorder.run == (runs / "run1").resolve()


def test_a_path_that_cannot_be_does_not_end_the_supervisor(tmp_path: Path) -> None:
    """It did, with the robot in mid-walk: one message on `recorder/run` was enough."""
    node: Any = SimpleNamespace(_runs=tmp_path, _recorder=RecorderHealth())
    (tmp_path / "loop").symlink_to("loop")
    for path in (f"{tmp_path}/{'a' * 400}", f"{tmp_path}/loop", "", "a/" * 5000, "a\0b"):
        SafetySupervisor._on_run(node, String(data=path))
        assert node._recorder.run is None, path


def test_another_robots_recorder_is_not_ours() -> None:
    """/diagnostics has no namespace: what one robot's recorder says kept a second robot, whose own
    had died, fit to walk unrecorded."""
    node: Any = SimpleNamespace(_recorder=RecorderHealth(), get_namespace=lambda: "/dog1")
    for namespace, heard in (("/dog2", False), ("", False), ("/dog1", True)):
        status = DiagnosticStatus(name="recorder", level=DiagnosticStatus.OK)
        if namespace:
            status.values = [KeyValue(key="namespace", value=namespace)]
        SafetySupervisor._on_diagnostics(node, DiagnosticArray(status=[status]))
        assert (node._recorder.heard_ns is not None) is heard, namespace


@pytest.mark.parametrize(("recorded", "silence"), [(True, True), (False, False)])
def test_a_recorder_that_never_was_is_silent_since_the_start(
    tmp_path: Path, recorded: bool, silence: bool
) -> None:
    loop = SimpleNamespace(recorder_silence_s=None, missing_rights=(), unfit="")
    node: Any = SimpleNamespace(
        loop=loop,
        _recorder=RecorderHealth(),
        _recorded=recorded,
        _started_ns=time.monotonic_ns() - 4_000_000_000,
        _real=False,
        _runs=tmp_path,
    )
    SafetySupervisor._look_once_a_second(node)
    assert (loop.recorder_silence_s is not None) is silence
    assert not silence or loop.recorder_silence_s > 3.9


@pytest.mark.parametrize(("real", "unfit"), [(True, "no FIFO; no lock"), (False, "")])
def test_missing_rights_are_told_before_a_real_robot(
    tmp_path: Path, real: bool, unfit: str
) -> None:
    loop = SimpleNamespace(missing_rights=("no FIFO", "no lock"), unfit="")
    node: Any = SimpleNamespace(
        loop=loop, _recorder=RecorderHealth(), _recorded=False, _real=real, _runs=tmp_path
    )
    SafetySupervisor._look_once_a_second(node)
    assert loop.unfit == unfit


def test_a_switcher_that_does_not_answer_is_told_and_its_last_word_stays() -> None:
    answers = iter([False, None, None])  # released; None: silence

    def check() -> Any:
        answer = next(answers)
        if answer is None:
            raise Refusal("did not answer")
        return SimpleNamespace(released=answer)

    silences = []
    loop = SimpleNamespace(driving=True, sport_mode=False, vendor_mode=False, mode_silence_s=0.0)

    def wait(_: float) -> bool:
        silences.append(loop.mode_silence_s)
        time.sleep(0.02)
        return len(silences) == 3

    node: Any = SimpleNamespace(
        loop=loop,
        _switcher=SimpleNamespace(check=check),
        _leaving=SimpleNamespace(wait=wait),
    )
    SafetySupervisor._watch_mode(node)
    assert silences[0] < 0.02 < silences[1] < silences[2]
    assert loop.sport_mode, "the last known mode stays"


def test_a_watch_that_fails_keeps_the_robot_from_starting() -> None:
    """Its last word, "all is well a moment ago", would stay for ever."""
    said: list[str] = []

    def look_around() -> None:
        raise OSError("the disk is gone")

    loop = SimpleNamespace(blind="")
    node: Any = SimpleNamespace(loop=loop, get_logger=lambda: SimpleNamespace(fatal=said.append))
    SafetySupervisor._watch(node, look_around)
    assert "the disk is gone" in loop.blind
    assert loop.blind in said[0]


def test_a_chord_that_fails_does_not_deafen_control_to_the_next() -> None:
    said: list[str] = []
    served: list[ModeRequest] = []

    def serve(request: ModeRequest) -> None:
        served.append(request)
        raise OSError("the wire is gone")

    chords: Any = queue.SimpleQueue()
    for request in (ModeRequest(ModeEvent.STAND), ModeRequest(ModeEvent.SIT), None):
        chords.put(request)
    node: Any = SimpleNamespace(
        _chords=chords,
        serve_remote=serve,
        get_logger=lambda: SimpleNamespace(error=said.append),
    )
    ControlNode._serve_chords(node)
    assert [request.event for request in served] == [ModeEvent.STAND, ModeEvent.SIT]
    assert "the wire is gone" in said[1]


def test_the_mirror_goes_on_after_a_failure() -> None:
    lives = iter([True, True, True, False])
    failures: list[int] = []

    def fail() -> None:
        raise ValueError("full")

    node: Any = SimpleNamespace(
        loop=SimpleNamespace(
            controller=SimpleNamespace(walking=SimpleNamespace(stepped_ns=0)),
        ),
        _loop_thread=SimpleNamespace(is_alive=lambda: next(lives)),
        _period_s=0.001,
        _mirror_state=fail,
        _mirror_ticks=fail,
        _mirror_remote=fail,
        _mirror_slow=fail,
        _tell_mirror_failure=lambda _, count: failures.append(count),
    )
    ControlNode._mirror(node)
    assert failures == [1, 2, 3]


def test_telemetry_that_fails_never_damps_and_at_last_sits() -> None:
    said: list[str] = []
    asked: list[int] = []
    node: Any = SimpleNamespace(
        get_logger=lambda: SimpleNamespace(error=said.append, fatal=said.append),
        _stop=SimpleNamespace(request=asked.append),
    )
    for failures in range(1, MIRROR_FAILS):
        ControlNode._tell_mirror_failure(node, ValueError("full"), failures)
    assert asked == []
    assert len(said) == 1
    ControlNode._tell_mirror_failure(node, ValueError("full"), MIRROR_FAILS)
    assert asked == [1], "an ordinary end: slow down, sit, damp"
