"""`sim2real teleop`: drive from the keyboard."""

import typer

from sim2real_deploy.bringup.graph import Process
from sim2real_deploy.bringup.node_process import become
from sim2real_deploy.cli import app
from sim2real_deploy.cli.operate import NAMESPACE, ROBOT


@app.command("teleop")
def teleop(
    robot: str = ROBOT,
    namespace: str = NAMESPACE,
    stage: str = typer.Option("field", help="Largest velocity that the keys command."),
) -> None:
    """Drive with the keyboard: w/s/a/d/q/e, 1 stand, 2 walk, 3 sit, 0 damp, x emergency stop."""
    become(Process("teleop", {"robot": robot, "stage": stage}), namespace)
