"""A bag of the wire only (states and commands as bytes), for runs without the recorder."""

from collections.abc import Mapping
from pathlib import Path

from sim2real_deploy.bags.definitions import wire_topic
from sim2real_deploy.bags.topic import Message
from sim2real_deploy.bags.writer import BagWriter
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.topics import LOW_CMD, LOW_STATE

_BATCH = 2000


class WireBag:
    """Write in time order; an existing bag is never overwritten."""

    def __init__(
        self,
        directory: Path,
        robot: RobotSpec,
        information: Mapping[str, str],
        attachments: Mapping[str, bytes] | None = None,
    ) -> None:
        attached = {"robot.json": robot.model_dump_json().encode(), **(attachments or {})}
        self._writer = BagWriter(directory, {"robot": robot.name, **information}, attached)
        for name in (LOW_STATE, LOW_CMD):
            self._writer.add_topic(wire_topic(robot, name))
        self._batch: list[Message] = []

    def state(self, now_ns: int, sample: bytes) -> None:
        self._add(f"/{LOW_STATE}", now_ns, sample)

    def command(self, now_ns: int, sample: bytes) -> None:
        self._add(f"/{LOW_CMD}", now_ns, sample)

    def close(self) -> None:
        if self._batch:
            self._writer.write(self._batch)
        self._writer.close()

    def _add(self, topic: str, now_ns: int, sample: bytes) -> None:
        self._batch.append(Message(now_ns, topic, now_ns, 0, sample))
        if len(self._batch) >= _BATCH:
            self._writer.write(self._batch)
            self._batch.clear()
