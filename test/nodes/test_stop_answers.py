"""What the safety and control nodes tell a person, and what a message may not make them do."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy.control.modes import Decision, Mode, ModeEvent, ModeRequest
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
    latched = SimpleNamespace(latched=Stop.ESTOP, latched_reason="called", taken_over=False)
    chain = SimpleNamespace(report=report)
    loop = SimpleNamespace(chain=chain, press=lambda _: None, supervisor=latched, alive=True)
    node: Any = SimpleNamespace(loop=loop)
    answer = SafetySupervisor._press(node, "estop", Stop.ESTOP, Trigger.Response())
    assert answer.success is stops
    assert answer.message.startswith("estop: called" if stops else "nothing to stop")


class Claimed(Exception):
    """The wire was claimed."""


def claim() -> None:
    raise Claimed


def asking(mode: Mode, allowed: bool) -> Any:
    """A control node in this mode whose guards allow, or refuse, to stand up."""
    decision = Decision(allowed, mode, "the guards say so")
    loop = SimpleNamespace(
        controller=SimpleNamespace(mode=mode),
        foresee=lambda _: decision,
        request=lambda _: decision,
    )
    return SimpleNamespace(
        loop=loop,
        _link=SimpleNamespace(robot=None),
        _claim=SimpleNamespace(take=claim),
        _interface="lo",
        _real=False,
    )


def test_the_wire_is_claimed_after_the_guards_and_never_while_it_moves() -> None:
    """Claiming lays the robot down, releases sport mode and may take seconds."""
    stand = ModeRequest(ModeEvent.STAND)
    with pytest.raises(Claimed):
        ControlNode.ask(asking(Mode.PASSIVE, allowed=True), stand)
    assert not ControlNode.ask(asking(Mode.PASSIVE, allowed=False), stand).accepted
    assert ControlNode.ask(asking(Mode.WALKING, allowed=True), stand).accepted


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
