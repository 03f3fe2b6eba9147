"""`cmd_vel`, as Twist or as TwistStamped, whichever its publisher sends.

nav2 sends TwistStamped since Kilted, most other programs Twist. DDS does not match the two, and
within one process a topic has one type, so the subscription takes the type of the publishers.
"""

from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist, TwistStamped
from rclpy.node import Node

from sim2real_deploy.nodes.common import every

LOOK_S = 0.5
_STAMPED = "geometry_msgs/msg/TwistStamped"


class VelocityTopic:
    """Passes on the topic's messages, by type."""

    def __init__(
        self,
        node: Node,
        topic: str,
        on_twist: Callable[[Twist], None],
        on_stamped: Callable[[TwistStamped], None],
    ) -> None:
        self._node, self._topic = node, topic
        self._callbacks: dict[bool, tuple[Any, Callable[[Any], None]]] = {
            False: (Twist, on_twist),
            True: (TwistStamped, on_stamped),
        }
        self._stamped = False
        self._told_both = False
        self._subscription = self._subscribe()
        every(node, LOOK_S, self._look)

    def _subscribe(self) -> Any:
        kind, callback = self._callbacks[self._stamped]
        return self._node.create_subscription(kind, self._topic, callback, 10)

    def _look(self) -> None:
        """With publishers of both types, the first type stays."""
        name = self._node.resolve_topic_name(self._topic)
        found = self._node.get_publishers_info_by_topic(name)
        stamped = {publisher.topic_type == _STAMPED for publisher in found}
        if len(stamped) > 1 and not self._told_both:
            self._told_both = True
            self._node.get_logger().warning(
                f"{self._topic} has publishers of Twist and of TwistStamped; only "
                f"{self._callbacks[self._stamped][0].__name__} is listened to. Stop the other one"
            )
        if len(stamped) != 1 or self._stamped in stamped:
            return
        self._stamped = not self._stamped
        self._node.destroy_subscription(self._subscription)
        self._subscription = self._subscribe()
        kind = self._callbacks[self._stamped][0].__name__
        self._node.get_logger().info(f"{self._topic}: its publisher sends {kind}")
