"""What the stack is doing, once, in words: for people without the `ros2` command."""

import sys
import time

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from std_msgs.msg import String

from sim2real_deploy.nodes.common import LATCHED

PATIENCE_S = 5.0


class Status(Node):
    """Collects the latched state of each part."""

    def __init__(self) -> None:
        super().__init__("sim2real_status", enable_rosout=False)
        self.lines: dict[str, str] = {}
        self.create_subscription(String, "control/mode", self._on_mode, LATCHED)
        self.create_subscription(DiagnosticStatus, "safety/state", self._on_safety, LATCHED)
        self.create_subscription(String, "recorder/run", self._on_run, LATCHED)
        self.create_subscription(DiagnosticArray, "control/stats", self._on_statistics, 10)

    def _on_mode(self, message: String) -> None:
        self.lines["mode"] = message.data

    def _on_safety(self, message: DiagnosticStatus) -> None:
        self.lines["safety"] = message.message

    def _on_run(self, message: String) -> None:
        self.lines["recording"] = message.data

    def _on_statistics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            for pair in status.values:
                self.lines[pair.key] = pair.value


def main() -> None:
    rclpy.init(args=sys.argv)
    node = Status()
    patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < patience and not {"mode", "safety"} <= node.lines.keys():
        rclpy.spin_once(node, timeout_sec=0.1)
    settle = time.monotonic() + 1.2  # statistics come once a second
    while node.lines and time.monotonic() < settle:
        rclpy.spin_once(node, timeout_sec=0.1)
    if not node.lines:
        print(
            f"nothing of the stack was heard in {PATIENCE_S:g} s. Is it up, with the same "
            "ROS_DOMAIN_ID and namespace?",
            file=sys.stderr,
        )
        sys.exit(3)
    for name, value in node.lines.items():
        print(f"{name:<24} {value}")


if __name__ == "__main__":
    main()
