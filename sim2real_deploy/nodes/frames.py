"""Names of frames (REP-105), the transforms between them, and the robot's description.

Transforms need tf2_msgs, which every ROS 2 install has and PyPI lacks. Without it `/tf` is not
published, the driver logs that, and odometry carries the same pose. The joints' transforms come
from `robot_state_publisher`, which reads the description.
"""

from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from std_msgs.msg import String

from sim2real_deploy import topics
from sim2real_deploy.nodes.common import LATCHED, heard
from sim2real_deploy.nodes.messages import set_vector
from sim2real_deploy.paths import config_file

try:
    from tf2_msgs.msg import TFMessage
except ImportError:
    TFMessage = None


@dataclass(frozen=True, slots=True)
class Frames:
    """A robot's frame names; prefixed with its namespace, so that those of two robots differ."""

    odom: str
    base: str
    imu: str

    @classmethod
    def of(cls, namespace: str) -> "Frames":
        prefix = f"{namespace.strip('/')}/" if namespace.strip("/") else ""
        return cls(f"{prefix}odom", f"{prefix}base_link", f"{prefix}imu_link")


class Transforms:
    """`/tf` from odom to base_link, and the robot description, latched."""

    def __init__(self, node: Node, robot: str) -> None:
        self._publisher: Any = None
        if TFMessage is not None:
            self._publisher = node.create_publisher(TFMessage, topics.TRANSFORMS, 10)
        else:
            words = "tf2_msgs is not installed: no /tf is published; odom carries the same pose"
            node.get_logger().info(words)
        description = config_file(f"robots/{robot}.urdf")
        if description.is_file():
            self._description = node.create_publisher(String, topics.DESCRIPTION, LATCHED)
            self._description.publish(String(data=description.read_text(encoding="utf-8")))

    @property
    def wanted(self) -> bool:
        return self._publisher is not None and heard(self._publisher)

    def show(self, odometry: Odometry) -> None:
        if self.wanted:
            self._publisher.publish(TFMessage(transforms=[transform_of(odometry)]))


def transform_of(odometry: Odometry) -> TransformStamped:
    """The pose in an odometry message as a transform."""
    transform = TransformStamped(header=odometry.header, child_frame_id=odometry.child_frame_id)
    at, pose = transform.transform, odometry.pose.pose
    set_vector(at.translation, (pose.position.x, pose.position.y, pose.position.z))
    at.rotation = pose.orientation
    return transform
