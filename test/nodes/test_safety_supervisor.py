"""The supervisor as a real process on a real wire: services, latch, takeover, incident file.

Control is a stand-in (safety_control.py); the whole stack with its times is `sim2real faults`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.places import SUPPORT
from support.safety_robot import WireRobot

rclpy = pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.qos import QoSProfile  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from sim2real_deploy.nodes.common import LATCHED  # noqa: E402


class Stack:
    """Robot, supervisor and control, and a person's view of them."""

    def __init__(self, folder: Path) -> None:
        self.domain = random.randint(1, 90)
        self.folder = folder
        self.env = os.environ | {
            "ROS_DOMAIN_ID": str(random.randint(1, 100)),  # higher ones reach ephemeral ports
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.robot = WireRobot(self.domain)
        self.supervisor = self.start(
            *("-m", "sim2real_deploy.nodes.safety_supervisor", "--ros-args"),
            *("-p", f"domain:={self.domain}", "-p", f"runs:={folder}/runs"),
        )
        os.environ["ROS_DOMAIN_ID"] = self.env["ROS_DOMAIN_ID"]
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("person", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.state: DiagnosticStatus | None = None
        self.diagnostics: dict[str, DiagnosticStatus] = {}
        self.node.create_subscription(DiagnosticStatus, "safety/state", self._on_state, LATCHED)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)
        self.clients = {
            name: self.node.create_client(
                Trigger, f"safety/{name}", qos_profile=QoSProfile(depth=200)
            )
            for name in ("estop", "stop", "reset")
        }

    def await_services(self) -> None:
        self.until(lambda: all(client.service_is_ready() for client in self.clients.values()))

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([sys.executable, *arguments], env=self.env)
        self.processes.append(process)
        return process

    def start_control(self, *arguments: str) -> "subprocess.Popen[bytes]":
        control = self.start(str(SUPPORT / "safety_control.py"), str(self.domain), "/", *arguments)
        self.until(lambda: self.fact("control") == "walking" or "--disobey" in arguments)
        return control

    def _on_state(self, message: DiagnosticStatus) -> None:
        self.state = message

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        self.diagnostics.update({status.name: status for status in message.status})

    def fact(self, key: str) -> str:
        values = self.state.values if self.state else []
        return next((pair.value for pair in values if pair.key == key), "")

    def until(self, condition: Callable[[], Any], within_s: float = 30.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain; state: {self.state}"
            self.executor.spin_once(timeout_sec=0.02)

    def call(self, name: str, times: int = 1) -> list[Trigger.Response]:
        futures = [self.clients[name].call_async(Trigger.Request()) for _ in range(times)]
        self.until(lambda: all(future.done() for future in futures))
        return [future.result() for future in futures]

    def reset_until(self, expected: Callable[[Trigger.Response], bool]) -> None:
        """A cause stays in force a moment after it is gone: ask again, without haste."""
        deadline = time.monotonic() + 15.0
        while not expected(answer := self.call("reset")[0]):
            assert time.monotonic() < deadline, answer.message
            time.sleep(0.1)

    def close(self) -> None:
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            process.wait(10)
        self.robot.close()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path)
    try:
        stack.await_services()
        yield stack
    finally:
        stack.close()


def test_estop_a_hundred_times_at_once_then_reset_then_again(stack: Stack) -> None:
    control = stack.start_control()
    time.sleep(1.0)  # of states, for the incident file
    called_ns = time.monotonic_ns()
    answers = stack.call("estop", times=100)
    assert all(answer.success for answer in answers)
    assert answers[0].message == "estop: emergency stop was called"
    stack.robot.damped_after(called_ns, 0.5)
    stack.until(lambda: stack.fact("stop") == "estop")
    assert stack.state is not None
    assert stack.state.level == DiagnosticStatus.ERROR
    assert control.poll() is None, "control obeyed and must be left alive"
    stack.diagnostics.clear()  # a monitor that looks later sees the latch, too
    state = "safety_supervisor: state"
    stack.until(lambda: state in stack.diagnostics, 10.0)
    assert stack.diagnostics[state].level == DiagnosticStatus.ERROR
    assert stack.diagnostics[state].message == "estop: emergency stop was called"

    stack.until(lambda: stack.fact("control") == "damping")
    stack.reset_until(lambda answer: answer.success)
    stack.until(lambda: stack.fact("control") == "walking")
    assert stack.fact("resets") == "1"
    both = [stack.clients[name].call_async(Trigger.Request()) for name in ("reset", "estop")]
    stack.until(lambda: all(future.done() for future in both))
    stack.until(lambda: stack.fact("stop") == "estop")
    assert "emergency stop" in stack.call("reset")[0].message

    stack.until(lambda: len(list((stack.folder / "runs").glob("incident_*.json"))) > 1)
    first = min((stack.folder / "runs").glob("incident_*.json"))
    content = json.loads(first.read_text())
    assert content["reason"] == "emergency stop was called"
    assert "estop_called" in [event["event"] for event in content["events"]]
    assert len(content["states"]["q"]) == len(content["states"]["t_s"]) > 100
    assert content["measured"]["fall"]["threshold"] == 0.8
    assert "safety_supervisor: joint_range" in stack.diagnostics
    assert stack.diagnostics["safety_supervisor: joint_range"].hardware_id == "go2"


def test_a_control_that_does_not_obey_is_replaced(stack: Stack) -> None:
    control = stack.start_control("--disobey")
    stack.until(lambda: stack.fact("control") == "walking")
    called_ns = time.monotonic_ns()
    stack.call("estop")
    stack.robot.damped_after(called_ns, 0.6)
    assert control.wait(2) == -signal.SIGKILL
    stack.until(lambda: stack.fact("taken_over") == "true")
    counted = len(stack.robot.commands)
    stack.until(lambda: len(stack.robot.commands) > counted + 100)
    assert all(damping for _, damping in stack.robot.commands[counted:])
    refusal = "control is not running; start it first"
    stack.reset_until(lambda answer: answer.message == refusal)

    stack.start(str(SUPPORT / "safety_control.py"), str(stack.domain), "/")
    stack.until(lambda: stack.fact("control") == "damping")
    assert stack.fact("taken_over") == "true", "handed back without a reset"
    stack.reset_until(lambda answer: answer.success)
    stack.until(lambda: stack.fact("control") == "walking" and stack.fact("taken_over") == "false")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_control_that_is_gone_is_replaced(stack: Stack, how: signal.Signals) -> None:
    control = stack.start_control()
    killed_ns = time.monotonic_ns()
    control.send_signal(how)
    stack.robot.damped_after(killed_ns, 0.6)
    stack.until(lambda: stack.fact("taken_over") == "true")
    assert control.wait(2) == -signal.SIGKILL


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGINT])
def test_control_damps_when_the_supervisor_is_gone(stack: Stack, how: signal.Signals) -> None:
    control = stack.start_control()
    killed_ns = time.monotonic_ns()
    stack.supervisor.send_signal(how)
    stack.robot.damped_after(killed_ns, 1.0)
    assert control.poll() is None


def test_a_control_that_leaves_in_order_is_no_event(stack: Stack) -> None:
    control = stack.start_control()
    control.terminate()
    assert control.wait(5) == 0
    stack.until(lambda: stack.fact("control") == "not running")
    assert stack.fact("stop") == "none"
    assert stack.fact("taken_over") == "false"


def test_what_the_robot_says_stops_it(stack: Stack) -> None:
    stack.start_control()
    stack.robot.changes = {"quaternion": np.array([0, 1, 0, 0], np.float32)}
    stack.until(lambda: stack.fact("stop") == "estop")
    assert stack.state is not None
    assert stack.state.message.startswith("estop: fell")
    assert "fell" in stack.call("reset")[0].message
    stack.robot.changes = {}
    stack.reset_until(lambda answer: answer.success)
    stack.until(lambda: stack.fact("control") == "walking")
    stack.robot.silent = True
    stack.until(lambda: stack.fact("stop") == "estop")
    assert "no state from the robot" in stack.state.message


def test_a_second_supervisor_is_refused(stack: Stack) -> None:
    second = subprocess.run(
        [
            *(sys.executable, "-m", "sim2real_deploy.nodes.safety_supervisor"),
            *("--ros-args", "-p", f"domain:={stack.domain}"),
        ],
        env=stack.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 2
    assert "another 'safety' process is running" in second.stderr
    assert "Traceback" not in second.stderr
