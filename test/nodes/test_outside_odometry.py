"""Odometry of another program in place of the legs': what is taken, and under which names."""

import math
import time
from collections.abc import Iterator
from typing import ClassVar

import pytest
import rclpy
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor

from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import SENSOR
from sim2real_deploy.nodes.frames import Frames
from sim2real_deploy.nodes.outside_odometry import SILENT_S, OutsideOdometry, flaw_of
from sim2real_deploy.nodes.policy import PolicyNode
from support.wire_support import free_domain

FRAMES = Frames.of("dog1")


def sound(child: str = "") -> Odometry:
    message = Odometry(child_frame_id=child)
    message.header.frame_id = "camera_init"
    message.pose.pose.orientation.w = 1.0
    message.pose.pose.position.x = 2.5
    return message


@pytest.mark.parametrize("child", ["", "base_link", "dog1/base_link"])
def test_a_sound_one_is_taken(child: str) -> None:
    assert flaw_of(sound(child), FRAMES.base) == ""


def test_what_is_not_the_bases_pose_is_not_taken() -> None:
    assert "frame 'lidar'" in flaw_of(sound("lidar"), FRAMES.base)
    broken = sound()
    broken.pose.pose.orientation.w = 0.0
    assert "length 0.000" in flaw_of(broken, FRAMES.base)
    for where in ("linear", "angular"):
        broken = sound()
        getattr(broken.twist.twist, where).z = math.inf
        assert "not finite" in flaw_of(broken, FRAMES.base)


@pytest.fixture
def ros() -> Iterator[None]:
    rclpy.init(domain_id=free_domain())
    yield
    rclpy.try_shutdown()


def test_it_is_handed_on_under_this_robots_frames(ros: None) -> None:
    node = rclpy.create_node("driver")
    taken: list[Odometry] = []
    now = [0]
    source = OutsideOdometry(node, "/lio/odom", FRAMES, taken.append, lambda: now[0])
    publisher = node.create_publisher(Odometry, "/lio/odom", SENSOR)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    deadline = time.monotonic() + 20
    while not taken and time.monotonic() < deadline:
        publisher.publish(sound("lidar"))
        publisher.publish(sound())
        executor.spin_once(timeout_sec=0.1)
    assert (taken[0].header.frame_id, taken[0].child_frame_id) == ("dog1/odom", "dog1/base_link")
    assert taken[0].pose.pose.position.x == 2.5
    with pytest.raises(Refusal, match="publish elsewhere"):
        OutsideOdometry(node, "/odom", FRAMES, taken.append, lambda: 0)  # it would hear itself
    source.watch()
    assert not source._told_silence
    now[0] = int((SILENT_S + 0.1) * 1e9)
    source.watch()
    assert source._told_silence
    node.destroy_node()


def test_a_policy_gets_the_velocity_of_sound_ones_alone(ros: None) -> None:
    class Policy:
        given: ClassVar[list[tuple[float, ...]]] = []

        def give_velocity(self, velocity: tuple[float, ...]) -> None:
            self.given.append(velocity)

    node, policy = PolicyNode(), Policy()
    for child, speed in (("lidar", 9.0), ("base_link", 0.5)):
        message = sound(child)
        message.twist.twist.linear.x = speed
        node._hand_on_velocity(policy, message)
    assert policy.given == [(0.5, 0.0, 0.0)]
    node.destroy_node()
