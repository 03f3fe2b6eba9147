"""What the driver takes for a velocity command, and what it does not."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import rclpy
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor

from sim2real_deploy.nodes.driver import Driver, covariance, is_stale, pose_deviations
from sim2real_deploy.nodes.frames import Frames, transform_of
from sim2real_deploy.nodes.velocity_topic import VelocityTopic
from support.wire_support import free_domain

S = 1_000_000_000


@pytest.mark.parametrize(
    ("stamp_ns", "now_ns", "stale"),
    [
        (100 * S, 100 * S + 100_000_000, False),
        (100 * S, 101 * S, True),
        (0, 100 * S, False),  # no stamp: when it came counts
        (100 * S, 0, True),  # use_sim_time, and nobody publishes a clock
        (1_700_000_000 * S, 12 * S, True),  # the wall clock's stamp, simulated time here
        (100 * S + 100_000_000, 100 * S, False),  # two clocks a little apart
    ],
)
def test_a_stamped_command_is_of_now_or_not_taken(stamp_ns: int, now_ns: int, stale: bool) -> None:
    assert is_stale(stamp_ns, now_ns) is stale


@pytest.mark.parametrize("sec", [-1, -(1 << 31), (1 << 31) - 1])
def test_a_command_with_an_impossible_stamp_is_counted_and_ends_nothing(sec: int) -> None:
    """rclpy's Time raises for a time before 1970: one such message ended control in mid-walk."""
    velocity = SimpleNamespace(rejected=0)
    clock = SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=1_700_000_000 * S))
    node: Any = SimpleNamespace(
        _controller=SimpleNamespace(velocity=velocity), get_clock=lambda: clock
    )
    message = TwistStamped()
    message.header.stamp.sec = sec
    Driver._on_stamped(node, message)
    assert velocity.rejected == 1


def test_frames_follow_rep_105_and_two_robots_differ() -> None:
    assert Frames.of("/") == Frames("odom", "base_link", "imu_link")
    assert Frames.of("/dog1") == Frames("dog1/odom", "dog1/base_link", "dog1/imu_link")


def test_the_transform_is_what_odometry_says() -> None:
    odometry = Odometry(child_frame_id="base_link")
    odometry.header.frame_id, odometry.header.stamp.sec = "odom", 7
    odometry.pose.pose.position.x, odometry.pose.pose.position.z = 1.5, 0.3
    odometry.pose.pose.orientation.w, odometry.pose.pose.orientation.z = 0.6, 0.8
    found = transform_of(odometry)
    assert (found.header.frame_id, found.child_frame_id, found.header.stamp.sec) == (
        "odom", "base_link", 7,
    )  # fmt: skip
    assert (found.transform.translation.x, found.transform.translation.z) == (1.5, 0.3)
    assert (found.transform.rotation.w, found.transform.rotation.z) == (0.6, 0.8)


def test_a_planner_is_told_how_far_to_trust_odometry() -> None:
    odometry = Odometry()
    odometry.pose.covariance = covariance(pose_deviations(10.0))  # 36 numbers, or it is refused
    near, far = pose_deviations(0.0), pose_deviations(10.0)
    assert all(deviation > 0 for deviation in near)
    assert far[0] > 10 * near[0]  # position drifts with the way,
    assert far[3] == near[3]  # roll and pitch do not
    assert covariance((1.0, 2.0, 3.0)) == [1, 0, 0, 0, 4, 0, 0, 0, 9]


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[object, object]]:
    """Two, as if of two processes: within one a topic has one type."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    pair = rclpy.Context(), rclpy.Context()
    for context in pair:
        rclpy.init(context=context, domain_id=free_domain())
    yield pair
    for context in pair:
        rclpy.shutdown(context=context)


def test_cmd_vel_is_taken_in_the_type_it_comes_in(contexts: tuple[object, object]) -> None:
    ours, theirs = contexts
    node = rclpy.create_node("driver", context=ours)
    sender = rclpy.create_node("sender", context=theirs)
    executor = SingleThreadedExecutor(context=ours)
    executor.add_node(node)
    got: list[tuple[str, float]] = []
    VelocityTopic(
        node,
        "cmd_vel",
        lambda twist: got.append(("plain", twist.linear.x)),
        lambda message: got.append(("stamped", message.twist.linear.x)),
    )

    def send_until(kind: type, message: object, condition: Callable[[], bool]) -> None:
        publisher = sender.create_publisher(kind, "cmd_vel", 10)
        deadline = time.monotonic() + 15
        while not condition():
            assert time.monotonic() < deadline, f"nothing of {kind.__name__} came: {got[-3:]}"
            publisher.publish(message)
            executor.spin_once(timeout_sec=0.05)
        sender.destroy_publisher(publisher)

    try:
        plain, stamped = Twist(), TwistStamped()
        plain.linear.x, stamped.twist.linear.x = 0.25, 0.5
        send_until(TwistStamped, stamped, lambda: ("stamped", 0.5) in got)
        send_until(Twist, plain, lambda: ("plain", 0.25) in got)
        got.clear()
        send_until(TwistStamped, stamped, lambda: ("stamped", 0.5) in got)
    finally:
        executor.shutdown()
        node.destroy_node()
        sender.destroy_node()
