"""Ctrl-C on `make walk`: how a walk without an end ends, and what another one makes of it."""

import json
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from sim2real_deploy.wire.domains import free_domain
from support.stack_support import stack

EARLY = "ended early"


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("duration", "code"), [(0, 0), pytest.param(60, 1, marks=pytest.mark.slow)]
)
def test_a_walk_may_be_interrupted_when_it_has_no_end(
    duration: int, code: int, tmp_path: Path
) -> None:
    arguments = ("walk_programme", "domain:=free", "stage:=indoor", f"duration:={duration}")
    with stack(free_domain(), tmp_path, *arguments) as running:
        running.wait_for(r" 5 s  forward ")
    said = "".join(running.lines)
    assert running.process.returncode == code, said
    (summary,) = (tmp_path / "runs").glob("*/summary.json")
    checks = {check["name"]: check["ok"] for check in json.loads(summary.read_text())["checks"]}
    assert checks.pop(EARLY) is (code == 0), said
    assert all(checks.values()), said
