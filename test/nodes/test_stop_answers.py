"""What the safety and control nodes tell a person, and what a message may not make them do."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from std_msgs.msg import String

from sim2real_deploy.nodes.control import MIRROR_FAILS, ControlNode
from sim2real_deploy.nodes.safety_supervisor import (
    RecorderHealth,
    SafetySupervisor,
    nothing_to_stop,
)
from support.safety_world import DAMPING, WALKING


def test_a_stop_that_stops_nothing_says_so() -> None:
    """`estop` while control is passive used to send nothing and report success."""
    passive = SimpleNamespace(mode="passive")
    assert "control is not running" in nothing_to_stop(None)
    assert "control is passive and sends nothing" in nothing_to_stop(passive)  # type: ignore[arg-type]
    assert nothing_to_stop(WALKING) == nothing_to_stop(DAMPING) == ""


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
