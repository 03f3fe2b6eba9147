"""`sim2real estop|stop|reset|stand|walk|sit|damp|status`: the stack's services, without `ros2`."""

import os
import sys
from collections.abc import Callable

import typer

from sim2real_deploy.cli import app

NAMESPACE = typer.Option("", help="ROS namespace of the stack.")
ROBOT = typer.Option("go2", help="The robot's name in config/robots.")
VERBS = {
    "estop": "Damp the robot at once, and latch: `sim2real reset` comes before any new motion.",
    "stop": "Sit down in order, then damp, and latch.",
    "reset": "Release the latch, where no cause persists. Starts no motion.",
    "stand": "Stand up from wherever the joints are.",
    "walk": "Hand over to the policy. Needs a robot that stands.",
    "sit": "Sit down, then damp.",
    "damp": "Damp the joints.",
}


def run_node(module: str, namespace: str, **parameters: str) -> None:
    """Become that node process; only nodes/ may import rclpy."""
    command = [sys.executable, "-m", f"sim2real_deploy.nodes.{module}", "--ros-args"]
    for name, value in parameters.items():
        command += ["-p", f"{name}:='{value}'"]
    if namespace:
        command += ["-r", f"__ns:=/{namespace.strip('/')}"]
    os.execv(command[0], command)


def _verb(name: str) -> Callable[[str, str], None]:
    def call(robot: str = ROBOT, namespace: str = NAMESPACE) -> None:
        run_node("call", namespace, robot=robot, service=name)

    return call


for _name, _words in VERBS.items():
    app.command(_name, help=_words)(_verb(_name))


@app.command("status")
def status(namespace: str = NAMESPACE) -> None:
    """Say what the stack is doing: mode, safety, recording, timing."""
    run_node("status", namespace)
