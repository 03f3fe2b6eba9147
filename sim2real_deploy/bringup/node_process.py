"""The one place that knows how a node process is started."""

import os
import sys
from typing import NoReturn

from sim2real_deploy.bringup.graph import Process, Value


def command_line(process: Process, namespace: str = "", params_file: str = "") -> list[str]:
    command = [sys.executable, "-m", f"sim2real_deploy.nodes.{process.name}", "--ros-args"]
    if params_file:  # first, so that the bring-up's own parameters override it
        command += ["--params-file", params_file]
    for name, value in process.parameters.items():
        command += ["-p", f"{name}:={_ros_value(value)}"]
    if namespace:
        command += ["-r", f"__ns:=/{namespace.strip('/')}"]
    return command


def become(process: Process, namespace: str = "") -> NoReturn:
    """Replace this process by the node: commands that need ROS import none of it themselves."""
    command = command_line(process, namespace)
    os.execv(command[0], command)


def _ros_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"  # quoted: a policy called 1.0 is still a name
    return str(value)
