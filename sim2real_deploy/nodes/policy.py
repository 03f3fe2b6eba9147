"""The `policy` node: observations and actions of the networks, step by step and by name."""

from collections.abc import Sequence
from functools import partial

from nav_msgs.msg import Odometry
from rclpy.node import Node
from std_msgs.msg import Float32MultiArray

from sim2real_deploy import topics
from sim2real_deploy.control.ticks import Ticks
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import REPLAYED, SENSOR, heard
from sim2real_deploy.nodes.frames import Frames
from sim2real_deploy.nodes.messages import floats, labelled
from sim2real_deploy.nodes.outside_odometry import LEGS, flaw_of
from sim2real_deploy.nodes.typed import Typed
from sim2real_deploy.policy.height_grid import HEIGHT_SCAN
from sim2real_deploy.policy.policy import BLIND_S, Policy


class PolicyNode(Node):
    """Only a mirror: the networks run in the control loop. It passes on the inputs of a policy
    besides the velocity command (a body height, a height scan), from `policy/<name>`."""

    def __init__(self) -> None:
        super().__init__("policy")
        self._shown: list[_Shown] = []

    def connect(self, policies: Sequence[Policy], odom_source: str = LEGS) -> None:
        """`odom_source`: legs, or a topic to take the base's velocity from instead."""
        self._shown = [_Shown(self, policy, place) for place, policy in enumerate(policies)]
        for policy in policies:
            for name in policy.extras:
                self.create_subscription(
                    Float32MultiArray, topics.extra(name), partial(self._hand_on, policy, name), 1
                )
            if odom_source != LEGS and policy.odometry is not None:
                self.create_subscription(
                    Odometry, odom_source, partial(self._hand_on_velocity, policy), SENSOR
                )

    def _hand_on_velocity(self, policy: Policy, message: Odometry) -> None:
        """What the driver rejects (and logs) must not reach a policy either."""
        if flaw_of(message, Frames.of(self.get_namespace()).base):
            return
        linear = message.twist.twist.linear  # in the child frame, the body's: REP-105, nav_msgs
        policy.give_velocity((linear.x, linear.y, linear.z))

    def _hand_on(self, policy: Policy, name: str, message: Float32MultiArray) -> None:
        try:
            policy.give(name, message.data.tolist())
        except Refusal as refusal:
            self.get_logger().warning(str(refusal), throttle_duration_sec=5.0)

    def show(self, ticks: Ticks, typed: Typed | None = None) -> None:
        for shown in self._shown:
            shown.show(ticks, typed)
            if shown.policy.blind and len(ticks.steps_of(shown.place)):
                self.get_logger().warning(
                    f"{shown.policy.contract.name}: no height scan on {topics.extra(HEIGHT_SCAN)}, "
                    f"or none for {BLIND_S:g} s: it stands until one comes",
                    throttle_duration_sec=5.0,
                )


class _Shown:
    """One policy's topics."""

    def __init__(self, node: Node, policy: Policy, place: int) -> None:
        self.policy, self.place, name = policy, place, policy.contract.name
        self._labels, self._joints = policy.labels, policy.contract.joints
        names = topics.observation(name, place), topics.action(name, place)
        self._observations, self._actions = (
            node.create_publisher(Float32MultiArray, topic, REPLAYED) for topic in names
        )
        self._estimates = None
        if policy.estimated:
            topic = topics.estimates(name, place)
            self._estimates = node.create_publisher(Float32MultiArray, topic, SENSOR)
        self._estimate = Float32MultiArray(layout=labelled(policy.estimated))
        self._observation = Float32MultiArray(layout=labelled(policy.labels))
        self._action = Float32MultiArray(layout=labelled(policy.contract.joints))

    def show(self, ticks: Ticks, typed: Typed | None) -> None:
        seen, given = ticks.observations[self.place], ticks.actions[self.place]
        if typed is not None:
            for row in ticks.steps_of(self.place):
                typed.show_step(self._labels, seen[row].tolist(), self._joints, given[row].tolist())
        if self._estimates is not None and heard(self._estimates):
            for row in ticks.steps_of(self.place):
                self._estimate.data = floats(ticks.estimates[self.place][row])
                self._estimates.publish(self._estimate)
        if not (heard(self._observations) or heard(self._actions)):
            return
        for row in ticks.steps_of(self.place):
            self._observation.data = floats(seen[row])
            self._action.data = floats(given[row])
            self._observations.publish(self._observation)
            self._actions.publish(self._action)
