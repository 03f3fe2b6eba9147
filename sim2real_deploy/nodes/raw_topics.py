"""Every topic of a namespace as raw bytes, discovered as it appears, at little cost.

The subscriptions bypass the executor and are drained at 50 Hz. The middleware timestamps each
sample on arrival, so reading later loses nothing, and a stack's thousand messages per second cost a
few per cent of a core instead of all of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

from sim2real_deploy.bags import Message, Qos, Topic, definitions
from sim2real_deploy.topics import DIAGNOSTICS, TRANSFORMS, is_typed

DEPTH = 2000  # samples that may wait in the middleware between two looks
GLOBAL_TOPICS = frozenset(
    (DIAGNOSTICS, "/rosout", "/parameter_events", TRANSFORMS, "/tf_static", "/clock")
)


class Unexecuted(CallbackGroup):
    """Subscriptions in this group are never given to an executor."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        """Nothing was begun."""


class RawTopics:
    """Call `discover` in the executor's thread, `take` in one other thread."""

    def __init__(self, node: Node) -> None:
        # Messages that were never received, by the publishers' sequence numbers; None if ROS does
        # not tell who sent a message (before Kilted).
        self.lost: Counter[str] | None = None
        self.unknown: set[str] = set()  # types that are not installed here
        # Topics that are also sent in another type. A topic in a bag has one type, so the messages
        # of the other are not received.
        self.mixed: dict[str, str] = {}
        self._node = node
        self._group = Unexecuted()
        self._subscriptions: dict[str, Subscription[Any]] = {}
        self._types: dict[str, str] = {}
        self._last_sequence: dict[tuple[str, bytes], int] = {}

    def discover(self, on_new: Callable[[Topic], None]) -> None:
        """Subscribe to topics that have appeared in the namespace since the last call."""
        for name, types in self._node.get_topic_names_and_types():
            if not self._concerns_us(name) or (name in self._subscriptions and len(types) == 1):
                continue  # our own subscription is one of the types
            publishers = self._node.get_publishers_info_by_topic(name)
            if name in self._subscriptions:
                self._compare_types(name, publishers)
            elif publishers:
                self._begin(name, publishers, on_new)

    def _begin(self, name: str, publishers: Sequence[Any], on_new: Callable[[Topic], None]) -> None:
        """Subscribe in the type that is sent, whatever type other subscribers expect."""
        sent = publishers[0].topic_type
        kind = definitions.message_class(sent)
        if kind is None:
            self.unknown.add(sent)
            return
        topic = _describe(name, kind, publishers)
        on_new(topic)
        self._subscribe(topic, kind)

    def _compare_types(self, name: str, publishers: Sequence[Any]) -> None:
        recorded = self._types[name]
        for sent in {publisher.topic_type for publisher in publishers} - {recorded}:
            self.mixed[name] = f"{name} is recorded as {recorded}, and was sent as {sent}, too"

    def take(self) -> Iterable[Message]:
        """All samples received since the last call."""
        for name, subscription in tuple(self._subscriptions.items()):
            with subscription.handle:
                while taken := subscription.handle.take_message(subscription.msg_type, True):
                    data, info = cast(tuple[bytes, dict[str, Any]], taken)
                    sequence = info.get("publication_sequence_number") or 0  # none in Humble
                    if "publisher_gid" in info:
                        self._count_gap(name, info["publisher_gid"]["data"], sequence)
                    yield Message(
                        info["received_timestamp"], name, info["source_timestamp"], sequence, data
                    )

    def _count_gap(self, name: str, publisher: bytes, sequence: int) -> None:
        if self.lost is None:
            self.lost = Counter()
        last = self._last_sequence.get((name, publisher))
        if last is not None and sequence > last + 1:
            self.lost[name] += sequence - last - 1
        self._last_sequence[name, publisher] = sequence

    def _concerns_us(self, name: str) -> bool:
        namespace = self._node.get_namespace().rstrip("/")
        if is_typed(name, namespace):
            return False  # recorded already, in standard messages
        return name.startswith(f"{namespace}/") or name in GLOBAL_TOPICS

    def _subscribe(self, topic: Topic, kind: type[Any]) -> None:
        profile = QoSProfile(
            depth=DEPTH,
            reliability=ReliabilityPolicy[topic.qos.reliability.upper()],
            durability=DurabilityPolicy[topic.qos.durability.upper()],
        )
        self._types[topic.name] = topic.type
        self._subscriptions[topic.name] = self._node.create_subscription(
            kind,
            topic.name,
            lambda _: None,
            profile,
            callback_group=self._group,
            raw=True,
        )


def _describe(name: str, kind: type[Any], publishers: Sequence[Any]) -> Topic:
    """The topic as its publishers offer it."""
    offers = [publisher.qos_profile for publisher in publishers]
    reliable = all(o.reliability == ReliabilityPolicy.RELIABLE for o in offers)
    latched = all(o.durability == DurabilityPolicy.TRANSIENT_LOCAL for o in offers)
    qos = Qos(
        "reliable" if reliable else "best_effort",
        "transient_local" if latched else "volatile",
    )
    type_hash = getattr(publishers[0], "topic_type_hash", "")  # none in Humble
    return Topic(name, *definitions.of_class(kind), qos, str(type_hash))
