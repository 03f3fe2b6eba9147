"""The plugin's nodes: the panel's has its own thread, STOP's its own process.

rqt's shared node is not used: another plugin that blocks or spins it must not delay a request.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from nav_msgs.msg import Odometry
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float32MultiArray, Float64MultiArray, String
from std_srvs.srv import Trigger

from sim2real_deploy import topics
from sim2real_deploy.nodes.common import LATCHED, REPLAYED, SENSOR
from sim2real_deploy.nodes.messages import by_name, facts_of
from sim2real_deploy.nodes.newest import Newest
from sim2real_deploy.nodes.rqt_sim2real.model import Heard, Word
from sim2real_deploy.nodes.stack_client import StackClient

REQUESTS = ("estop", "stop", "reset", "stand", "walk", "sit")
SUPERVISOR = "safety_supervisor: state"  # the status it reports once a second
KEPT = 1000  # samples waiting to be drawn; a hung window loses the oldest
Samples = deque[tuple[float, tuple[float, ...]]]  # when, by the monotonic clock, and what
Answered = Callable[[str, bool, str], None]  # request, done, words


class Client:
    """What the stack says, as plain values, and the requests it takes."""

    def __init__(self, namespace: str, robot: str) -> None:
        self.heard = Heard()
        self._told = (0.0, 0.0)  # forward and turning, as last given to the policy
        self.speeds: Samples = deque(maxlen=KEPT)  # forward and turning: commanded, measured
        self.torques: Samples = deque(maxlen=KEPT)  # Nm, of each joint
        self._node = Node("rqt_sim2real", namespace=namespace or None, enable_rosout=False)
        self._stack = StackClient(
            self._node, robot, REQUESTS, updated=self._on_stack, velocity=None
        )
        self._ticks = Newest(self._node, Float64MultiArray, topics.TICKS, REPLAYED)
        subscribe = self._node.create_subscription
        subscribe(JointState, topics.JOINTS, self._on_joints, SENSOR)
        subscribe(Odometry, topics.ODOMETRY, self._on_odometry, SENSOR)
        subscribe(String, topics.LEASE, self._on_lease, LATCHED)
        subscribe(Float32MultiArray, topics.TEMPERATURES, self._on_temperatures, SENSOR)
        subscribe(DiagnosticArray, topics.STATISTICS, self._on_statistics, 10)
        subscribe(DiagnosticArray, topics.DIAGNOSTICS, self._on_diagnostics, 10)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._spin, name="rqt_sim2real", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._executor.wake()
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()

    def service(self, request: str) -> str:
        """The full name of its service."""
        return f"{self._node.get_namespace().rstrip('/')}/{self._stack.services[request].srv_name}"

    def offered(self, request: str) -> bool:
        return bool(self._stack.services[request].service_is_ready())

    def ask(self, request: str, answered: Answered) -> None:
        """Call the service of this request and of no other, at once, from any thread."""
        self._stack.ask(request, lambda done, words: answered(request, done, words))

    def _spin(self) -> None:
        with suppress(ExternalShutdownException):  # rqt ended, and ROS in it before us
            while not self._closing.is_set():
                self._executor.spin_once(timeout_sec=0.5)

    def _on_stack(self) -> None:
        heard, safety = self.heard, self._stack.safety
        heard.mode, heard.safety = self._stack.mode, safety.message
        heard.stopped = safety.level == DiagnosticStatus.ERROR
        heard.safety_facts = facts_of(safety)

    def _on_joints(self, message: JointState) -> None:
        self.torques.append((time.monotonic(), tuple(message.effort)))

    def _on_odometry(self, message: Odometry) -> None:
        ticks, twist = self._ticks.take(), message.twist.twist
        if ticks is not None and len(ticks.layout.dim) == 2:
            columns = ticks.layout.dim[1].label.split(",")
            row = ticks.data[-len(columns) :]
            self._told = row[columns.index("vx")], row[columns.index("wz")]
        forward, turning = self._told
        row = (forward, twist.linear.x, turning, twist.angular.z)
        self.speeds.append((time.monotonic(), row))

    def _on_lease(self, message: String) -> None:
        self.heard.lease = message.data

    def _on_temperatures(self, message: Float32MultiArray) -> None:
        self.heard.temperatures = by_name(message)

    def _on_statistics(self, _: DiagnosticArray) -> None:
        self.heard.control_s = time.monotonic()
        self.heard.statistics = dict(self._stack.statistics)
        self.heard.recording = self._stack.recording

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        """/diagnostics is shared by all robots: only the report of our own supervisor counts."""
        for status in message.status:
            where = facts_of(status).get("namespace")
            if status.name == SUPERVISOR and where == self._node.get_namespace():
                self.heard.supervisor_s = time.monotonic()


class Stop:
    """Calls one service and reports the outcome."""

    def __init__(self, service: str) -> None:
        self._service = service
        self.node = Node("rqt_sim2real_stop", enable_rosout=False)
        self._client: Any = self.node.create_client(Trigger, service)

    def press(self, tell: Callable[[Word, str], None]) -> None:
        """Call it at once, from any thread. Errors are reported, since Qt would end the program on
        them."""
        try:
            if not self._client.service_is_ready():
                tell(Word.CANNOT, self._service)
                return
            future = self._client.call_async(Trigger.Request())
            tell(Word.ASKED, "")
            future.add_done_callback(lambda done: self._answered(done, tell))
        except Exception as error:
            tell(Word.REFUSED, f"not sent: {error!r}")

    def _answered(self, future: Any, tell: Callable[[Word, str], None]) -> None:
        answer = future.result()
        tell(Word.DONE if answer.success else Word.REFUSED, answer.message)
