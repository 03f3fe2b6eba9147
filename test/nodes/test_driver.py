"""What the driver takes for a velocity command, and what it does not."""

import time
from collections.abc import Callable, Iterator

import pytest
import rclpy
from geometry_msgs.msg import Twist, TwistStamped
from rclpy.executors import SingleThreadedExecutor

from sim2real_deploy.nodes.driver import is_stale
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
