"""The `policy` node: what the network saw and what it gave, step by step and by name."""

import numpy as np
from rclpy.node import Node
from std_msgs.msg import Float32MultiArray

from sim2real_deploy.control.ticks import Ticks
from sim2real_deploy.nodes.arrays import floats, labelled
from sim2real_deploy.nodes.common import REPLAYED, heard
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.topics import ACTION, OBSERVATION


class PolicyNode(Node):
    """A mirror: the network itself runs in the control loop."""

    def __init__(self) -> None:
        super().__init__("policy")
        self._observations = self.create_publisher(Float32MultiArray, OBSERVATION, REPLAYED)
        self._actions = self.create_publisher(Float32MultiArray, ACTION, REPLAYED)
        self._observation, self._action = Float32MultiArray(), Float32MultiArray()

    def connect(self, policy: Policy | None) -> None:
        if policy is not None:
            self._observation.layout = labelled(policy.labels)
            self._action.layout = labelled(policy.contract.joints)

    def show(self, ticks: Ticks) -> None:
        if not (heard(self._observations) or heard(self._actions)):
            return
        for row in np.flatnonzero(ticks.column("policy_stepped")):
            self._observation.data = floats(ticks.observation[row])
            self._action.data = floats(ticks.action[row])
            self._observations.publish(self._observation)
            self._actions.publish(self._action)
