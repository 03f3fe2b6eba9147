"""With ROS 2's own tools, where they are: launch files, and the ros2 command as users call it."""

import os
import re
import shutil
import subprocess

import pytest

pytest.importorskip("launch_ros", reason="launch_ros is not installed: it comes with ROS 2 alone")
pytest.importorskip("rclpy", reason="rclpy is not installed")
from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch.actions import DeclareLaunchArgument

from sim2real_deploy.bringup.graph import BRINGUPS
from sim2real_deploy.bringup.ros_launch import description
from sim2real_deploy.wire.domains import free_domain
from support.stack_support import Operator, stack

PACKAGE = "sim2real_deploy"
ROS2 = shutil.which("ros2")


def installed():
    try:
        return bool(get_package_prefix(PACKAGE))
    except (OSError, PackageNotFoundError):
        return False


needs_ros2 = pytest.mark.skipif(
    ROS2 is None or not installed(),
    reason="needs the ros2 command and the package in the ament index",
)


def ros2(*arguments, domain=0, timeout=60):
    return subprocess.run(
        [ROS2, *arguments],
        env={**os.environ, "ROS_DOMAIN_ID": str(domain)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.parametrize("bringup", BRINGUPS)
def test_launch_shows_the_same_arguments_as_the_command(bringup):
    arguments, _ = BRINGUPS[bringup]
    declared = {
        entity.name: entity
        for entity in description(bringup).entities
        if isinstance(entity, DeclareLaunchArgument)
    }
    assert list(declared) == [argument.name for argument in arguments]
    for argument in arguments:
        assert argument.description in declared[argument.name].description
        assert declared[argument.name].choices == (argument.choices or None)


@needs_ros2
@pytest.mark.parametrize("file", BRINGUPS)
def test_ros2_launch_finds_the_files(file):
    shown = ros2("launch", PACKAGE, f"{file}.launch.py", "--show-args")
    arguments, _ = BRINGUPS[file]
    for argument in arguments:
        assert f"'{argument.name}'" in shown.stdout, shown.stderr


@needs_ros2
def test_a_mistake_is_one_line():
    said = ros2("launch", PACKAGE, "go2_walk.launch.py", "robot:=real")
    assert "interface:=NAME" in said.stdout + said.stderr
    assert "Traceback" not in said.stdout + said.stderr


@needs_ros2
@pytest.mark.timeout(400)
def test_the_ros2_command_on_a_launched_stack(tmp_path):
    domain = free_domain()
    command = [ROS2, "launch", "-n", PACKAGE, "go2_walk.launch.py"]
    with stack(domain, tmp_path, f"domain:={domain}", command=command) as running:
        operator = Operator(domain)
        operator.caller("go2_driver/stand")
        operator.caller("safety/estop")
        nodes = ros2("node", "list", "--no-daemon", "--spin-time", "5", domain=domain).stdout
        assert {"/go2_driver", "/policy", "/safety_supervisor", "/twin"} <= set(nodes.split())
        called = ros2("service", "call", "/safety/estop", "std_srvs/srv/Trigger", domain=domain)
        assert "nothing to stop" in called.stdout  # control is passive; the stop is latched
        assert "latched: emergency stop was called" in called.stdout
        operator.close()
    text = "".join(running.lines)
    assert text.count("process has finished cleanly") == 4, text
    assert not re.search("escalating to|has died", text), text
