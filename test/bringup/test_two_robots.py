"""Two robots on one computer: each obeys its own commands and its own stop, and no other's."""

import time

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from nav_msgs.msg import Odometry

from sim2real_deploy.nodes.common import SENSOR
from sim2real_deploy.wire.domains import free_domain
from support.stack_support import Operator, stack

pytestmark = pytest.mark.timeout(600)


class Dog:
    """One robot's operator, who also sees where it really is."""

    def __init__(self, ros_domain, name):
        self.operator = Operator(ros_domain, name)
        self.x = 0.0
        node = self.operator.node
        node.create_subscription(Odometry, "twin/odom", self._on_truth, SENSOR)

    def _on_truth(self, message):
        self.x = message.pose.pose.position.x


@pytest.fixture
def dogs(tmp_path):
    """Both in one ROS domain, told apart by namespace; each robot's bus is a domain of its own."""
    first = free_domain()
    second = next(d for d in iter(free_domain, None) if d != first)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    common = ("go2_walk", "record:=false", "preset:=ideal", "stage:=indoor")
    with (
        stack(first, tmp_path / "a", *common, f"domain:={first}", "namespace:=a") as first_stack,
        stack(first, tmp_path / "b", *common, f"domain:={second}", "namespace:=b") as second_stack,
    ):
        pair = Dog(first, "a"), Dog(first, "b")
        yield pair
        for dog in pair:
            dog.operator.close()
        print(*first_stack.lines, *second_stack.lines, sep="")  # shown when the test fails


def test_a_stop_and_a_mode_reach_one_robot_alone(dogs):
    a, b = (dog.operator for dog in dogs)
    for dog in (a, b):
        dog.caller("go2_driver/stand")
    assert "latched" in a.call("safety/estop").message  # lying down: nothing to stop, but latched
    deadline = time.monotonic() + 20
    while "emergency stop" not in a.safety.message and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "emergency stop" in a.safety.message
    refused = a.call("go2_driver/stand")
    assert not refused.success
    time.sleep(0.5)
    assert "emergency stop" not in b.safety.message


@pytest.mark.slow
def test_for_a_minute_each_walks_and_stops_by_itself(dogs):
    a, b = dogs
    for dog in dogs:
        dog.operator.reach("go2_driver/stand", "standing")
    a.operator.reach("go2_driver/walk", "walking")
    start = a.x, b.x
    end = time.monotonic() + 30
    while time.monotonic() < end:
        a.operator.drive(0.4)
        time.sleep(0.05)
    assert a.x - start[0] > 5.0, "a did not walk"
    assert abs(b.x - start[1]) < 0.2, "b walked on a's commands"
    assert b.operator.mode == "standing"

    b.operator.reach("go2_driver/walk", "walking")
    assert a.operator.call("safety/estop").success
    here = b.x
    end = time.monotonic() + 30
    while time.monotonic() < end:
        b.operator.drive(0.4)
        time.sleep(0.05)
    assert b.x - here > 5.0, "b did not walk on after a's stop"
    assert a.operator.mode == "damping"
    assert b.operator.mode == "walking"
