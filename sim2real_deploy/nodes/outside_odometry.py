"""Odometry from another program (lidar, camera, motion capture) instead of leg odometry.

It is republished as `odom` and `/tf` with this robot's frame names, so that navigation finds one
odometry whatever its source. The safety supervisor keeps using leg odometry.
"""

import math
from collections.abc import Callable

from nav_msgs.msg import Odometry
from rclpy.node import Node

from sim2real_deploy import topics
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import SENSOR
from sim2real_deploy.nodes.frames import Frames
from sim2real_deploy.nodes.messages import quaternion_of

LEGS = "legs"
SILENT_S = 0.5


class OutsideOdometry:
    """Passes on each valid message; logs why it rejects one, and when none comes."""

    def __init__(
        self,
        node: Node,
        topic: str,
        frames: Frames,
        publish: Callable[[Odometry], None],
        now_ns: Callable[[], int],
    ) -> None:
        if node.resolve_topic_name(topic) == node.resolve_topic_name(topics.ODOMETRY):
            raise Refusal(
                f"odom_source:={topic} is where this robot's own odometry is published: let the "
                "other program publish elsewhere, and name that topic"
            )
        self._topic, self._frames, self._publish, self._now_ns = topic, frames, publish, now_ns
        self._log = node.get_logger()
        self._heard_ns = now_ns()
        self._told_silence = False
        node.create_subscription(Odometry, topic, self._on_message, SENSOR)

    def watch(self) -> None:
        """Log once when it falls silent; call it periodically."""
        silence_s = (self._now_ns() - self._heard_ns) / 1e9
        if silence_s > SILENT_S and not self._told_silence:
            self._told_silence = True
            self._log.warning(
                f"odom_source: nothing usable on '{self._topic}' for {silence_s:.1f} s: "
                "odom and /tf stand still"
            )

    def _on_message(self, message: Odometry) -> None:
        flaw = flaw_of(message, self._frames.base)
        if flaw:
            self._log.warning(f"odom_source '{self._topic}': {flaw}", throttle_duration_sec=5.0)
            return
        self._heard_ns, self._told_silence = self._now_ns(), False
        message.header.frame_id, message.child_frame_id = self._frames.odom, self._frames.base
        self._publish(message)


def flaw_of(message: Odometry, base: str) -> str:
    """Why this message cannot replace our own odometry; "" if it can."""
    pose, twist = message.pose.pose, message.twist.twist
    quaternion = quaternion_of(pose.orientation)
    vectors = (pose.position, twist.linear, twist.angular)
    values = [*quaternion, *(value for v in vectors for value in (v.x, v.y, v.z))]
    if not all(map(math.isfinite, values)):
        return "a value is not finite"
    if abs(math.hypot(*quaternion) - 1.0) > 0.01:
        return f"its orientation has length {math.hypot(*quaternion):.3f}, not 1"
    child = message.child_frame_id
    if child and child not in (base, base.rpartition("/")[2]):
        return f"it is of frame '{child}'; the pose and velocity of '{base}' are needed"
    return ""
