"""`sim2real doctor` on this machine: with a robot on the wire, and without."""

import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sim2real_deploy.cli import app
from sim2real_deploy.cli import doctor as doctor_verb
from sim2real_deploy.preflight import doctor
from sim2real_deploy.preflight.doctor import Finding, Health, Patient, examine
from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD
from support.safety_robot import WireRobot

assert doctor_verb


@pytest.fixture
def robot(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireRobot]:
    monkeypatch.setattr(doctor, "LISTEN_S", 0.5)
    monkeypatch.setattr(doctor, "MODE_TIMEOUT_S", 0.3)
    robot = WireRobot(random.randint(1, 90))
    yield robot
    robot.close()


def findings(domain: int, **changes: object) -> dict[str, Finding]:
    values = {"interface": "lo", "policy": "go2_walk", "stage": "tether", "runs": Path("runs")}
    patient = Patient(robot=load_robot("go2"), domain=domain, **(values | changes))  # type: ignore[arg-type]
    return {finding.name: finding for finding in examine(patient)}


def test_a_healthy_robot_passes(robot: WireRobot) -> None:
    vendor = Participant(robot.domain, "lo", "sport mode")
    silent = vendor.writer(LOW_CMD, FAMILIES["go"].command)  # open: it is judged by what it sends
    while not silent.matched():
        time.sleep(0.01)
    found = findings(robot.domain)
    vendor.close()
    for name in ("interface", "policy", "stage", "writers", "heat", "battery", "posture", "joints"):
        assert found[name].verdict is Health.OK, found[name]
        assert not found[name].remedy
    assert "link" in found
    assert found["mode"].verdict is Health.WARN, "this robot has no mode service"


@pytest.mark.parametrize(
    ("virtual", "interface", "verdict"),
    [(False, "robot0", Health.OK), (True, "lo", Health.OK), (True, "robot0", Health.WARN)],
)
def test_a_robot_is_not_to_be_driven_from_a_virtual_machine(
    monkeypatch: pytest.MonkeyPatch, virtual: bool, interface: str, verdict: Health
) -> None:
    monkeypatch.setattr(doctor, "cores_may_vanish", lambda: virtual)
    monkeypatch.setattr(doctor, "_robot", lambda patient: iter(()))
    found = findings(0, interface=interface)["machine"]
    assert found.verdict is verdict
    assert bool(found.remedy) == (verdict is Health.WARN)


def test_a_sick_robot_fails_with_a_remedy_each(robot: WireRobot) -> None:
    temperature = np.full(12, 30, np.int8)
    temperature[5] = 75
    q = load_robot("go2").stand_pose.copy()
    q[2] = 0.0
    robot.changes = {
        "temperature": temperature,
        "battery_percent": 9,
        "quaternion": np.array([0.7, 0.7, 0, 0], np.float32),
        "q": q,
    }
    intruder = Participant(robot.domain, "lo", "teleop")
    writer = intruder.writer(LOW_CMD, FAMILIES["go"].command)
    command = CommandEncoder(load_robot("go2")).encode(JointCommand.damping(12, 1.0))
    done = threading.Event()

    def intrude() -> None:
        while not done.wait(0.01):
            writer.write(command)

    thread = threading.Thread(target=intrude)
    thread.start()
    found = findings(robot.domain)
    done.set()
    thread.join()
    intruder.close()
    for name, words in (
        ("heat", "FL_calf_joint is the hottest motor, 75 C"),
        ("battery", "9 %"),
        ("posture", "tilted by"),
        ("joints", "FR_calf_joint is 0.84 rad beyond"),
        ("writers", "teleop"),
    ):
        assert found[name].verdict is Health.FAIL, found[name]
        assert words in found[name].text
        assert found[name].remedy


def test_no_robot_no_interface_no_policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "FIRST_STATE_S", 0.3)
    found = findings(random.randint(1, 90), policy="nix", stage="moon")
    assert found["robot"].verdict is Health.FAIL
    assert "nothing on rt/lowstate" in found["robot"].text
    assert found["policy"].verdict is Health.FAIL
    assert "nix" in found["policy"].text
    assert found["stage"].verdict is Health.FAIL
    assert "moon" in found["stage"].text
    found = findings(0, interface="eth9")
    assert found["interface"].verdict is Health.FAIL
    assert "eth9" in found["interface"].text
    assert "robot" not in found


def test_the_command_prints_writes_and_fails(
    robot: WireRobot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out" / "doctor.json"
    arguments = ["doctor", "--domain", str(robot.domain), "--json", str(file), "--policy", "nix"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "fail  policy" in result.stdout
    content = json.loads(file.read_text())
    assert content["command"] == "doctor"
    assert [c["name"] for c in content["checks"] if not c["ok"]] == ["policy"]
    assert {f["verdict"] for f in content["findings"]} >= {"ok", "fail"}


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.9, "ok"), (1.0, "ok"), (1.1, "warn"), (2.0, "warn"), (2.1, "fail")]
)
def test_grades(value: float, verdict: str) -> None:
    finding = doctor.graded("x", value, 2.0, 1.0, "text", "remedy")
    assert finding.verdict.value == verdict
    assert bool(finding.remedy) is (verdict != "ok")


def test_the_doctor_writes_nothing(robot: WireRobot, tmp_path: Path) -> None:
    """Examined during a walk, a second writer on rt/lowcmd would have the robot collapse."""
    eye = Participant(robot.domain, "lo", "eye")
    seen: set[str] = set()
    try:
        patient = Patient(load_robot("go2"), "lo", robot.domain, "go2_walk", "tether", tmp_path)
        for _ in examine(patient):
            seen |= {writer.name for writer in eye.other_writers(LOW_CMD)}
    finally:
        eye.close()
    assert "doctor" not in seen
