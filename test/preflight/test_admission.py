"""However a process was started: nothing unwatched, nothing uncleared, no twin that is none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.clearance import WAIVER
from sim2real_deploy.preflight import admission
from support.wire_support import free_domain


def test_on_the_loopback_anything_goes() -> None:
    admission.check_wire("lo", "w1234", supervised=False)
    admission.check_policy("lo", True, "go2", "none", "field", Path("nowhere"), "", "")
    admission.check_robot("lo", False, "")
    assert not admission.is_real("lo", True)


def test_off_this_machine_nothing_runs_unwatched_or_on_a_twins_time() -> None:
    admission.check_wire("eth0", "")
    with pytest.raises(Refusal, match="supervised:=false on interface 'eth0'"):
        admission.check_wire("eth0", "", supervised=False)
    with pytest.raises(Refusal, match="clock:=w1234 on interface 'eth0'"):
        admission.check_wire("eth0", "w1234")


def test_a_foreign_simulator_is_taken_on_this_machine_alone() -> None:
    admission.check_foreign_simulator("lo", True)
    admission.check_foreign_simulator("eth0", False)
    with pytest.raises(Refusal, match="there may be a robot"):
        admission.check_foreign_simulator("eth0", True)


def test_a_stage_is_earned_whoever_starts_the_process(tmp_path: Path) -> None:
    admission.check_policy("eth0", True, "go2", "go2_walk", "tether", tmp_path, "", "")
    admission.check_policy("eth0", False, "go2", "go2_walk", "field", tmp_path, "", "")
    with pytest.raises(Refusal, match="stages rise one at a time"):
        admission.check_policy("eth0", True, "go2", "go2_walk", "field", tmp_path, "", WAIVER)


def test_a_twin_on_a_cable_must_be_one() -> None:
    admission.check_robot("eth0", True, "Go2")
    admission.check_robot("eth0", False, "twin")
    for name in ("Go2", ""):
        with pytest.raises(Refusal, match="not from a twin"):
            admission.check_robot("eth0", False, name)


@pytest.mark.parametrize(
    ("node", "parameter", "words"),
    [
        ("control", "supervised:=false", "supervised:=false on interface 'eth9'"),
        ("control", "clock:=w1", "clock:=w1 on interface 'eth9'"),
        ("control", "stage:=field", "stage 'field' on a real robot|stages rise one at a time"),
        ("safety_supervisor", "clock:=w1", "clock:=w1 on interface 'eth9'"),
    ],
)
def test_a_node_started_by_itself_asks_the_same(node: str, parameter: str, words: str) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    given = ["-p", "interface:=eth9", "-p", f"domain:={free_domain()}", "-p", parameter]
    done = subprocess.run(
        [sys.executable, "-m", f"sim2real_deploy.nodes.{node}", "--ros-args", *given],
        env={**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert re.search(words, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
