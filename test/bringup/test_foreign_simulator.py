"""robot:=simulator: the whole stack on a simulator that has no motion switcher and no battery."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from sim2real_deploy.wire.domains import free_domain
from support import foreign_simulator
from support.stack_support import Operator, stack


@pytest.fixture
def simulator() -> Iterator[int]:
    domain = free_domain()
    command = [sys.executable, foreign_simulator.__file__, str(domain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "simulating\n"
        yield domain
        process.terminate()
    assert process.returncode == 0, os.strerror(process.returncode)


@pytest.mark.slow
def test_it_stands_walks_and_stops(simulator: int, tmp_path: Path) -> None:
    arguments = ("go2_walk", f"domain:={simulator}", "robot:=simulator", "stage:=indoor")
    with stack(simulator, tmp_path, *arguments):
        operator = Operator(simulator)
        operator.reach("go2_driver/stand", "standing")
        operator.reach("go2_driver/walk", "walking")
        until = time.monotonic() + 4
        while time.monotonic() < until:
            operator.drive(0.3)
            time.sleep(0.05)
        assert operator.mode == "walking", operator.safety.message
        assert operator.call("safety/estop").success
        operator.close()


@pytest.mark.slow
def test_without_the_argument_it_is_refused(simulator: int, tmp_path: Path) -> None:
    """The preset is behind its one argument: the same simulator on a robot's rules may not move."""
    arguments = ("go2_walk", f"domain:={simulator}", "robot:=real", "interface:=lo")
    ended = subprocess.run(
        [sys.executable, "-c", "from sim2real_deploy.cli import main; main()", "up", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    assert "interface:=NAME" in ended.stdout + ended.stderr
