"""Prints once what the stack is doing, where there is no `ros2` command."""

import sys
import time

import rclpy

from sim2real_deploy.nodes.stack_client import StackClient

PATIENCE_S = 5.0


def main() -> None:
    rclpy.init(args=sys.argv)
    node = rclpy.create_node("sim2real_status", enable_rosout=False)
    stack = StackClient(node)
    patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < patience and not (stack.mode and stack.safety.message):
        rclpy.spin_once(node, timeout_sec=0.1)
    if not (stack.mode or stack.safety.message):
        print(
            f"nothing of the stack was heard in {PATIENCE_S:g} s. Is it up, with the same "
            "ROS_DOMAIN_ID and namespace?",
            file=sys.stderr,
        )
        sys.exit(3)
    settle = time.monotonic() + 1.2  # statistics come once a second
    while time.monotonic() < settle:
        rclpy.spin_once(node, timeout_sec=0.1)
    lines = {"mode": stack.mode, "safety": stack.safety.message, "recording": stack.recording}
    for name, value in (lines | stack.statistics).items():
        if value:
            print(f"{name:<24} {value}")


if __name__ == "__main__":
    main()
