"""Topics and messages to fill a bag with."""

from sim2real_deploy.bags import Message, Qos, Topic, definitions
from sim2real_deploy.wire.messages import FAMILIES

STATE = Topic("/wire/lowstate", *definitions.of_wire(FAMILIES["go"].state), Qos("best_effort"))
LATCHED = Topic("/mode", "std_msgs/msg/String", "string data\n", Qos("reliable", "transient_local"))


def sample(number: int, topic: Topic = STATE) -> Message:
    data = number.to_bytes(4, "little") * (FAMILIES["go"].state.size // 4)
    return Message(1_000_000_000 + number * 2_000_000, topic.name, number, number, data)
