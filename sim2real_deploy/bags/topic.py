"""What a bag holds: topics with their types, and timed messages in the bytes they came in."""

from dataclasses import dataclass
from typing import Any, NamedTuple

FOREVER = {"sec": 9223372036, "nsec": 854775807}


@dataclass(frozen=True, slots=True)
class Qos:
    """What a topic's publishers offer, in rosbag2's words: a player offers the same again."""

    reliability: str = "reliable"  # or best_effort
    durability: str = "volatile"  # or transient_local
    depth: int = 10

    def as_rosbag2(self) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class Topic:
    name: str  # with its namespace
    type: str  # "package/msg/Name"
    definition: str  # in ros2msg form, nested types included
    qos: Qos = Qos()
    type_hash: str = ""


class Message(NamedTuple):
    """One sample. The log time stands first: sorting messages puts them in time order."""

    log_ns: int  # when it was received, since the epoch
    topic: str
    publish_ns: int  # when its writer sent it, by the writer's clock
    sequence: int
    data: bytes
