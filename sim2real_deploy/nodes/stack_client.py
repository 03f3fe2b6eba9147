"""A client of the stack: its reports, requests to it, and velocity commands."""

from collections.abc import Callable, Iterable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Twist
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy import topics
from sim2real_deploy.nodes.common import LATCHED
from sim2real_deploy.nodes.messages import facts_of


class StackClient:
    """For a node that operates or shows the stack.

    `updated` is called after each change of mode or safety, in the executor's thread. `velocity` is
    the topic for velocity commands; None for a node that sends none.
    """

    def __init__(
        self,
        node: Node,
        robot: str = "",
        requests: Iterable[str] = (),
        *,
        updated: Callable[[], None] = lambda: None,
        depth: int = 10,
        velocity: str | None = topics.VELOCITY,
    ) -> None:
        self.mode = ""
        self.safety = DiagnosticStatus()
        self.recording = ""  # the run's folder
        self.statistics: dict[str, str] = {}
        self._updated = updated
        quality = QoSProfile(depth=depth)
        self.services: dict[str, Any] = {
            name: node.create_client(Trigger, topics.service(robot, name), qos_profile=quality)
            for name in requests
        }
        # No publisher unless it drives: an idle publisher of Twist on `cmd_vel` would keep control
        # from listening to a planner that sends TwistStamped.
        drives = velocity if self.services else None
        self._velocity = node.create_publisher(Twist, drives, 10) if drives else None
        node.create_subscription(String, topics.MODE, self._on_mode, LATCHED)
        node.create_subscription(DiagnosticStatus, topics.SAFETY, self._on_safety, LATCHED)
        node.create_subscription(String, topics.RUN, self._on_run, LATCHED)
        node.create_subscription(DiagnosticArray, topics.STATISTICS, self._on_statistics, 10)

    def drive(self, vx: float, vy: float, wz: float) -> None:
        assert self._velocity is not None, "a client without requests does not drive"
        twist = Twist()
        twist.linear.x, twist.linear.y, twist.angular.z = vx, vy, wz
        self._velocity.publish(twist)

    def ask(self, request: str, answered: Callable[[bool, str], None]) -> None:
        """Call a service; `answered` gets whether it succeeded, and the message."""
        client = self.services[request]
        if not client.service_is_ready():
            answered(False, f"nobody offers {client.srv_name}: is the stack up?")
            return

        def on_done(future: Any) -> None:
            answer = future.result()
            answered(answer.success, answer.message)

        client.call_async(Trigger.Request()).add_done_callback(on_done)

    def _on_mode(self, message: String) -> None:
        self.mode = message.data
        self._updated()

    def _on_safety(self, message: DiagnosticStatus) -> None:
        self.safety = message
        self._updated()

    def _on_run(self, message: String) -> None:
        self.recording = message.data

    def _on_statistics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.statistics.update(facts_of(status))
