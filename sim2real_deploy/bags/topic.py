"""A bag's contents: topics with their types, and timed messages as bytes."""

from dataclasses import dataclass
from typing import Any, NamedTuple

FOREVER = {"sec": 9223372036, "nsec": 854775807}


@dataclass(frozen=True, slots=True)
class Qos:
    """The QoS that a topic's publishers offer, in rosbag2's terms; playback offers the same."""

    reliability: str = "reliable"  # or best_effort
    durability: str = "volatile"  # or transient_local
    depth: int = 10

    def as_rosbag2(self) -> dict[str, Any]:
        """As written by rosbag2 since Jazzy."""
        return {
            "history": "keep_last",
            "depth": self.depth,
            "reliability": self.reliability,
            "durability": self.durability,
            "deadline": dict(FOREVER),
            "lifespan": dict(FOREVER),
            "liveliness": "automatic",
            "liveliness_lease_duration": dict(FOREVER),
            "avoid_ros_namespace_conventions": False,
        }

    @classmethod
    def read(cls, text: str) -> "Qos":
        """From a bag's channel, in the form of any distribution."""
        best_effort = ("reliability: best_effort", "reliability: 2")
        latched = ("durability: transient_local", "durability: 1")
        return cls(
            "best_effort" if any(words in text for words in best_effort) else "reliable",
            "transient_local" if any(words in text for words in latched) else "volatile",
        )

    def as_numbers(self) -> dict[str, Any]:
        """As rosbag2 of Humble and Iron reads it: policies as rmw's numbers."""
        return self.as_rosbag2() | {
            "history": 1,
            "reliability": 1 if self.reliability == "reliable" else 2,
            "durability": 1 if self.durability == "transient_local" else 2,
            "liveliness": 1,
        }


@dataclass(frozen=True, slots=True)
class Topic:
    name: str  # with its namespace
    type: str  # "package/msg/Name"
    definition: str  # in ros2msg form, nested types included
    qos: Qos = Qos()
    type_hash: str = ""


class Message(NamedTuple):
    """One sample. The log time comes first, so that messages sort by time."""

    log_ns: int  # when it was received, since the epoch
    topic: str
    publish_ns: int  # when its writer sent it, by the writer's clock
    sequence: int
    data: bytes
