"""The loop's topics once more, in the types of sim2real_msgs, if that package is installed.

Nothing depends on it: our own readers and the bags use the standard messages.
"""

from collections.abc import Sequence
from typing import Any

from rclpy.node import Node

from sim2real_deploy import topics
from sim2real_deploy.control.lease import SOURCES
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.ticks import AXES, COLUMNS, Ticks
from sim2real_deploy.nodes.common import LATCHED, SENSOR, heard

try:
    from sim2real_msgs import msg as installed
except ImportError:
    installed = None

PRIORITIES = {source.name: source.priority for source in SOURCES}
BOOLEANS = frozenset({"policy_stepped", "missed"})
NUMBERS = frozenset({*AXES, *(f"trim_{axis}" for axis in AXES), "surprise"})


def tick_fields(row: Sequence[float]) -> dict[str, Any]:
    """A row of figures as the fields of a Tick."""
    fields: dict[str, Any] = {}
    for name, value in zip(COLUMNS, row, strict=False):
        kind = bool if name in BOOLEANS else float if name in NUMBERS else int
        fields[name] = kind(value)
    fields["limits"] = [int(bits) for bits in row[len(COLUMNS) :]]
    return fields


class Typed:
    """Publishers of the typed topics; a call does nothing if nobody listens."""

    def __init__(self, node: Node, joints: Sequence[str], messages: Any) -> None:
        self._node, self._joints, self._messages = node, list(joints), messages
        publish = node.create_publisher
        self._ticks = publish(messages.Ticks, topics.TYPED_TICKS, SENSOR)
        self._limits = publish(messages.Limits, topics.TYPED_LIMITS, SENSOR)
        self._steps = publish(messages.PolicyStep, topics.TYPED_POLICY_STEP, SENSOR)
        self._modes = publish(messages.Mode, topics.TYPED_MODE, LATCHED)
        self._leases = publish(messages.Lease, topics.TYPED_LEASE, LATCHED)

    def show_mode(self, mode: Mode, reason: str) -> None:
        self._modes.publish(self._stamped(self._messages.Mode(mode=int(mode), reason=reason)))

    def show_lease(self, holder: str) -> None:
        lease = self._messages.Lease(holder=holder, priority=PRIORITIES.get(holder, 0))
        self._leases.publish(self._stamped(lease))

    def show_ticks(self, ticks: Ticks) -> None:
        if heard(self._ticks):
            rows = [self._messages.Tick(**tick_fields(row)) for row in ticks.figures.tolist()]
            self._ticks.publish(
                self._stamped(self._messages.Ticks(joints=self._joints, ticks=rows))
            )

    def show_limits(self, acted: Sequence[int]) -> None:
        if heard(self._limits):
            limits = self._messages.Limits(joints=self._joints, acted=list(acted))
            self._limits.publish(self._stamped(limits))

    def show_step(
        self,
        labels: Sequence[str],
        observation: Sequence[float],
        joints: Sequence[str],
        action: Sequence[float],
    ) -> None:
        if heard(self._steps):
            step = self._messages.PolicyStep(
                labels=list(labels),
                observation=list(observation),
                joints=list(joints),
                action=list(action),
            )
            self._steps.publish(self._stamped(step))

    def _stamped(self, message: Any) -> Any:
        message.header.stamp = self._node.get_clock().now().to_msg()
        return message


def open_typed(node: Node, joints: Sequence[str]) -> Typed | None:
    """None if sim2real_msgs is not installed."""
    return None if installed is None else Typed(node, joints, installed)
