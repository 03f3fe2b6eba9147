"""The `policy` node: what the network saw and what it gave, step by step and by name."""

from functools import partial

import numpy as np
from nav_msgs.msg import Odometry
from rclpy.node import Node
from std_msgs.msg import Float32MultiArray

from sim2real_deploy.control.ticks import Ticks
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.arrays import floats, labelled
from sim2real_deploy.nodes.common import REPLAYED, SENSOR, heard
from sim2real_deploy.nodes.outside_odometry import LEGS
from sim2real_deploy.nodes.typed import Typed
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.topics import ACTION, OBSERVATION, extra


class PolicyNode(Node):
    """A mirror: the network itself runs in the control loop. What a policy takes beside the
    velocity command (a body height, a height scan) it hands on from `policy/<name>`."""

    def __init__(self) -> None:
        super().__init__("policy")
        self._observations = self.create_publisher(Float32MultiArray, OBSERVATION, REPLAYED)
        self._actions = self.create_publisher(Float32MultiArray, ACTION, REPLAYED)
        self._observation, self._action = Float32MultiArray(), Float32MultiArray()
        self._labels: tuple[str, ...] = ()
        self._joints: tuple[str, ...] = ()

    def connect(self, policy: Policy | None, odom_source: str = LEGS) -> None:
        """`odom_source`: legs, or a topic to take the base's velocity from instead."""
        if policy is None:
            return
        self._labels, self._joints = policy.labels, policy.contract.joints
        self._observation.layout = labelled(policy.labels)
        self._action.layout = labelled(policy.contract.joints)
        for name in policy.extras:
            self.create_subscription(
                Float32MultiArray, extra(name), partial(self._hand_on, policy, name), 1
            )

        if odom_source != LEGS and policy.odometry is not None:
            self.create_subscription(
                Odometry, odom_source, partial(self._hand_on_velocity, policy), SENSOR
            )

    def _hand_on_velocity(self, policy: Policy, message: Odometry) -> None:
        linear = message.twist.twist.linear  # in the child frame, the body's: REP-105, nav_msgs
        policy.give_velocity((linear.x, linear.y, linear.z))

    def _hand_on(self, policy: Policy, name: str, message: Float32MultiArray) -> None:
        try:
            policy.give(name, message.data.tolist())
        except Refusal as refusal:
            self.get_logger().warning(str(refusal), throttle_duration_sec=5.0)

    def show(self, ticks: Ticks, typed: Typed | None = None) -> None:
        if typed is not None and self._labels:
            for row in np.flatnonzero(ticks.column("policy_stepped")):
                seen, given = ticks.observation[row].tolist(), ticks.action[row].tolist()
                typed.show_step(self._labels, seen, self._joints, given)
        if not (heard(self._observations) or heard(self._actions)):
            return
        for row in np.flatnonzero(ticks.column("policy_stepped")):
            self._observation.data = floats(ticks.observation[row])
            self._action.data = floats(ticks.action[row])
            self._observations.publish(self._observation)
            self._actions.publish(self._action)
