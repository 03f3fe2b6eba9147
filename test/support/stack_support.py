"""A whole stack as a user starts it, and an operator beside it, for tests that need both."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy.nodes.common import LATCHED

SIM2REAL = [sys.executable, "-c", "from sim2real_deploy.cli import main; main()"]
PATIENCE_S = 60.0  # a busy machine starts processes slowly


@dataclass
class Stack:
    """The launcher's process and everything it has said."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _new: "queue.Queue[str]" = field(default_factory=queue.Queue)

    def relay(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line)
            self._new.put(line)

    def wait_for(self, pattern: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                line = self._new.get(timeout=0.5)
            except queue.Empty:
                assert self.process.poll() is None, "".join(self.lines)
                continue
            found = re.search(pattern, line)
            if found:
                return found.group(found.lastindex or 0)
        raise AssertionError(f"never said {pattern!r}:\n" + "".join(self.lines))


@contextmanager
def stack(ros_domain: int, folder: Path, *arguments: str, command: Any = None) -> Iterator[Stack]:
    """`sim2real up ARGUMENTS`, or another command; one Ctrl-C at the end."""
    (folder / "run").mkdir()
    process = subprocess.Popen(
        [*(command or [*SIM2REAL, "up"]), *arguments],
        env={
            **os.environ,
            "ROS_DOMAIN_ID": str(ros_domain),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "COLUMNS": "200",
        },
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    running = Stack(process)
    reader = threading.Thread(target=running.relay, daemon=True)
    reader.start()
    try:
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        finally:
            process.kill()
            reader.join(5)
            process.stdout.close()


class Operator:
    """A person at a ROS machine: sees mode and safety, calls services, sends velocities."""

    def __init__(self, ros_domain: int, namespace: str = "") -> None:
        self.mode = ""
        self.safety = DiagnosticStatus()
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=ros_domain)
        self.node = rclpy.create_node("operator", namespace=namespace, context=self.context)
        self._command = self.node.create_publisher(Twist, "cmd_vel", 10)
        subscribe = self.node.create_subscription
        subscribe(String, "control/mode", self._on_mode, LATCHED)
        subscribe(DiagnosticStatus, "safety/state", self._on_safety, LATCHED)
        self._callers: dict[str, Any] = {}
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._closing.is_set():
            self.executor.spin_once(timeout_sec=0.2)

    def close(self) -> None:
        self._closing.set()
        self._thread.join(5)
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def _on_mode(self, message: String) -> None:
        self.mode = message.data

    def _on_safety(self, message: DiagnosticStatus) -> None:
        self.safety = message

    def caller(self, service: str) -> Any:
        if service not in self._callers:
            self._callers[service] = self.node.create_client(Trigger, service)
        caller = self._callers[service]
        assert caller.wait_for_service(PATIENCE_S), f"nobody offers {service}"
        return caller

    def call(self, service: str) -> Any:
        caller = self.caller(service)
        future = caller.call_async(Trigger.Request())
        answered = threading.Event()
        future.add_done_callback(lambda _: answered.set())
        assert answered.wait(20), f"no answer from {service}"
        return future.result()

    def reach(self, service: str, mode: str) -> None:
        """Ask until it is there. A busy machine may trip a stop: then reset, and ask again."""
        deadline = time.monotonic() + 2 * PATIENCE_S
        while self.mode != mode:
            assert time.monotonic() < deadline, f"still {self.mode}; {self.safety.message}"
            if self.safety.level == DiagnosticStatus.ERROR:
                self.call("safety/reset")
            elif self.mode in ("passive", "damping", "standing"):
                self.call(service)
            time.sleep(0.5)

    def drive(self, vx: float, wz: float = 0.0) -> None:
        twist = Twist()
        twist.linear.x, twist.angular.z = vx, wz
        self._command.publish(twist)
