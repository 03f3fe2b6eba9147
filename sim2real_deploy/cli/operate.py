"""`sim2real estop|stop|reset|stand|walk|sit|damp|switch|status|teleop`: operate without `ros2`."""

from collections.abc import Callable

import typer

from sim2real_deploy import topics
from sim2real_deploy.bringup.graph import Process
from sim2real_deploy.bringup.node_process import become
from sim2real_deploy.cli import app

NAMESPACE = typer.Option("", help="ROS namespace of the stack.")
ROBOT = typer.Option("go2", help="Robot: a name in config/robots.")
VERBS = {
    "estop": "Damp the robot at once, and latch: `sim2real reset` comes before any new motion.",
    "stop": "Sit down, then damp, and latch.",
    "reset": "Release the latch, if no cause persists. Starts no motion.",
    "stand": "Stand up from any pose.",
    "walk": "Hand over to the policy, from standing.",
    "sit": "Sit down, then damp.",
    "damp": "Damp the joints.",
}


def _verb(name: str) -> Callable[[str, str], None]:
    def call(robot: str = ROBOT, namespace: str = NAMESPACE) -> None:
        become(Process("call", {"robot": robot, "service": name}), namespace)

    return call


for _name, _words in VERBS.items():
    app.command(_name, help=_words)(_verb(_name))


@app.command("switch")
def switch(
    policy: str = typer.Argument("", help="Name of the policy; default: the next in the list."),
    robot: str = ROBOT,
    namespace: str = NAMESPACE,
) -> None:
    """Change over to another of the loaded policies, walking or not."""
    service = topics.switch_to(policy) if policy else "switch"
    become(Process("call", {"robot": robot, "service": service}), namespace)


@app.command("status")
def status(namespace: str = NAMESPACE) -> None:
    """Print what the stack is doing: mode, safety, recording, timing."""
    become(Process("status"), namespace)


@app.command("teleop")
def teleop(
    robot: str = ROBOT,
    namespace: str = NAMESPACE,
    stage: str = typer.Option("field", help="Largest velocity that the keys command."),
) -> None:
    """Drive with the keyboard: w/s/a/d/q/e, 1 stand, 2 walk, 3 sit, 0 damp, x emergency stop."""
    become(Process("teleop", {"robot": robot, "stage": stage}), namespace)
