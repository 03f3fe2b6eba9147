"""The newest message of a topic, taken on demand, so that a fast topic costs little."""

from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile

from sim2real_deploy.nodes.raw_topics import Unexecuted


class Newest:
    """Bypasses the executor; call `take` in one thread only."""

    def __init__(self, node: Node, kind: type[Any], topic: str, qos: QoSProfile | int) -> None:
        self._kind = kind
        self._subscription: Any = node.create_subscription(
            kind, topic, lambda _: None, qos, callback_group=Unexecuted()
        )

    def take(self) -> Any:
        """The newest message since the last call, or None."""
        newest = None
        with self._subscription.handle:
            while taken := self._subscription.handle.take_message(self._kind, False):
                newest = taken[0]
        return newest
