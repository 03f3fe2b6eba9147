"""A policy that sees the ground climbs in the running stack: over DDS, its map over ROS."""

import math
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from nav_msgs.msg import Odometry

from sim2real_deploy.nodes.common import SENSOR
from sim2real_deploy.wire.domains import free_domain
from support.stack_support import Operator, stack

UP = 0.31 + 0.4  # m, the base on the second of four steps of 20 cm
WITHIN_S = 25.0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_climbs_stairs_that_it_sees(tmp_path: Path) -> None:
    domain = free_domain()
    arguments = ("policy:=go2_perceptive", "floor:=stairs_20", "stage:=indoor")
    with stack(domain, tmp_path, "go2_walk", *arguments, f"domain:={domain}"):
        operator = Operator(domain)
        seen: list[Odometry] = []
        operator.node.create_subscription(Odometry, "twin/odom", seen.append, SENSOR)
        operator.reach("go2_driver/stand", "standing")
        operator.reach("go2_driver/walk", "walking")
        began, highest = time.monotonic(), 0.0
        while highest < UP and time.monotonic() - began < WITHIN_S:
            time.sleep(0.1)
            if not seen:
                continue
            pose = seen[-1].pose.pose
            highest = max(highest, pose.position.z)
            yaw = 2.0 * math.atan2(pose.orientation.z, pose.orientation.w)
            operator.drive(
                0.5, -1.5 * yaw - 0.8 * pose.position.y
            )  # straight on, as a person would
        assert operator.mode == "walking", operator.safety.message
        operator.close()
    assert highest >= UP
