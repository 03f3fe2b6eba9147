"""BagWriter: a rosbag2 directory with MCAP storage that stays readable after a power cut.

Every `write` ends its chunk and syncs it to disk before it returns, so a crash loses only what was
not yet written. The same writer is used with and without ROS 2, so the bags are the same.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from mcap.writer import CompressionType, Writer

from sim2real_deploy import __version__
from sim2real_deploy.bags.topic import Message, Topic
from sim2real_deploy.errors import Refusal
from sim2real_deploy.runtime.distribution import BEFORE_JAZZY, distribution

# The form of metadata.yaml. Every rosbag2 reads its own and the older ones.
ROSBAG2_VERSION = 9  # since Jazzy
HUMBLE_VERSION = 5
METADATA_EVERY_S = 5.0
INFORMATION = "sim2real"  # the metadata record that says what this run is
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(slots=True)
class _File:
    """One .mcap file of the directory, with its figures for metadata.yaml."""

    path: Path
    opened_s: float
    counts: dict[str, int] = field(default_factory=dict)
    start_ns: int = 0
    end_ns: int = 0

    def note(self, message: Message) -> None:
        if not self.counts:
            self.start_ns = self.end_ns = message.log_ns
        self.start_ns = min(self.start_ns, message.log_ns)
        self.end_ns = max(self.end_ns, message.log_ns)
        self.counts[message.topic] = self.counts.get(message.topic, 0) + 1


class BagWriter:
    """Not thread-safe: one thread writes. The caller handles OSError (a full disk)."""

    def __init__(
        self,
        directory: Path,
        information: Mapping[str, str],
        attachments: Mapping[str, bytes] | None = None,
        max_file_bytes: int = 1 << 30,
        ring_s: float | None = None,
    ) -> None:
        """With `ring_s` only the last seconds (at least so many) are kept, until `keep_all`."""
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            raise Refusal(f"{directory}: already exists; a bag is never overwritten") from None
        self.directory = directory
        self.topics: dict[str, Topic] = {}
        self._records = {INFORMATION: dict(information)}
        self._attachments = dict(attachments or {})
        self._max_file_bytes = max_file_bytes
        self._ring_s = ring_s
        self._files: list[_File] = []
        self._file_number = 0
        self.latched: dict[str, Message] = {}  # the last of each transient_local topic
        self._metadata_due_s = 0.0
        self._distribution = distribution()
        self._old_form = self._distribution in BEFORE_JAZZY
        self._open_file()

    def add_topic(self, topic: Topic) -> None:
        if topic.name not in self.topics:
            self.topics[topic.name] = topic
            self._metadata_due_s = 0.0

    def annotate(self, name: str, record: Mapping[str, str]) -> None:
        """Add information about the current run, as a metadata record of this name."""
        self._records[name] = dict(record)
        self._mcap.add_metadata(name, self._records[name])

    def write(self, messages: Sequence[Message]) -> None:
        """Add a batch in time order, close its chunk and sync it to disk."""
        self._split_when_due()
        for message in sorted(messages, key=lambda m: m.log_ns):
            self._add(message)
        self._mcap.flush()  # type: ignore[no-untyped-call]
        os.fdatasync(self._stream.fileno())
        if time.monotonic() >= self._metadata_due_s:
            self._write_metadata()

    def keep_all(self) -> None:
        """An event occurred: from now on the ring drops nothing."""
        self._ring_s = None

    def close(self) -> None:
        self._close_file()
        self._write_metadata()

    @property
    def counts(self) -> dict[str, int]:
        """Messages per topic in the directory now."""
        return {name: sum(file.counts.get(name, 0) for file in self._files) for name in self.topics}

    def _add(self, message: Message) -> None:
        channel = self._channels.get(message.topic)
        if channel is None:
            channel = self._channels[message.topic] = self._register(self.topics[message.topic])
        self._mcap.add_message(
            channel, message.log_ns, message.data, message.publish_ns, message.sequence
        )
        self._files[-1].note(message)
        if self.topics[message.topic].qos.durability == "transient_local":
            self.latched[message.topic] = message

    def _register(self, topic: Topic) -> int:
        schema = self._schemas.get(topic.type)
        if schema is None:
            schema = self._mcap.register_schema(topic.type, "ros2msg", topic.definition.encode())
            self._schemas[topic.type] = schema
        labels = {"offered_qos_profiles": self._qos(topic), "topic_type_hash": topic.type_hash}
        return self._mcap.register_channel(topic.name, "cdr", schema, labels)

    def _qos(self, topic: Topic) -> str:
        offered = topic.qos.as_numbers() if self._old_form else topic.qos.as_rosbag2()
        return yaml.dump([offered], Dumper=_Dumper, sort_keys=False)

    def _split_when_due(self) -> None:
        file = self._files[-1]
        full = self._stream.tell() >= self._max_file_bytes
        # Each file spans half a window, so two files always cover a whole one.
        turned = self._ring_s is not None and time.monotonic() - file.opened_s >= self._ring_s / 2
        if not (full or turned):
            return
        self._close_file()
        self._open_file()
        if self._ring_s is not None:
            self._drop_old_files(self._ring_s)
            for message in self.latched.values():  # latched messages outlive the dropped file
                self._add(message._replace(log_ns=max(message.log_ns, file.end_ns)))
        self._write_metadata()

    def _drop_old_files(self, window_s: float) -> None:
        """Files that ended more than a window ago are of no use to an event now."""
        while len(self._files) > 2:
            closed_s = self._files[1].opened_s
            if time.monotonic() - closed_s < window_s:
                return
            self._files.pop(0).path.unlink(missing_ok=True)

    def _open_file(self) -> None:
        path = self.directory / f"{self.directory.name}_{self._file_number}.mcap"
        self._file_number += 1
        self._stream = path.open("xb")
        self._mcap = Writer(
            self._stream, chunk_size=16 << 20, compression=CompressionType.ZSTD
        )  # chunks end with each batch, not by size
        self._mcap.start("ros2", f"sim2real_deploy {__version__}")
        for name, record in self._records.items():
            self._mcap.add_metadata(name, record)
        now_ns = time.time_ns()
        for name, data in self._attachments.items():
            self._mcap.add_attachment(now_ns, now_ns, name, "application/octet-stream", data)
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._files.append(_File(path, time.monotonic()))

    def _close_file(self) -> None:
        self._mcap.finish()  # type: ignore[no-untyped-call]
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def _write_metadata(self) -> None:
        """Replace metadata.yaml atomically, so that there is a good one on disk at any time."""
        content = yaml.dump(
            {"rosbag2_bagfile_information": self._metadata()}, Dumper=_Dumper, sort_keys=False
        )
        fresh = self.directory / "metadata.yaml.new"
        with fresh.open("w", encoding="utf-8") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self.directory / "metadata.yaml")
        self._metadata_due_s = time.monotonic() + METADATA_EVERY_S

    def _metadata(self) -> dict[str, Any]:
        written = [file for file in self._files if file.counts]
        start_ns = min((file.start_ns for file in written), default=0)
        end_ns = max((file.end_ns for file in written), default=0)
        counts = self.counts
        return {
            "version": HUMBLE_VERSION if self._old_form else ROSBAG2_VERSION,
            "storage_identifier": "mcap",
            "duration": {"nanoseconds": end_ns - start_ns},
            "starting_time": {"nanoseconds_since_epoch": start_ns},
            "message_count": sum(counts.values()),
            "topics_with_message_count": [
                {
                    "topic_metadata": {
                        "name": topic.name,
                        "type": topic.type,
                        "serialization_format": "cdr",
                        "offered_qos_profiles": (
                            self._qos(topic) if self._old_form else [topic.qos.as_rosbag2()]
                        ),
                        "type_description_hash": topic.type_hash,
                    },
                    "message_count": counts[topic.name],
                }
                for topic in self.topics.values()
            ],
            "compression_format": "",
            "compression_mode": "",
            "relative_file_paths": [file.path.name for file in self._files],
            "files": [
                {
                    "path": file.path.name,
                    "starting_time": {"nanoseconds_since_epoch": file.start_ns},
                    "duration": {"nanoseconds": file.end_ns - file.start_ns},
                    "message_count": sum(file.counts.values()),
                }
                for file in self._files
            ],
            "custom_data": self._records[INFORMATION],
            "ros_distro": self._distribution or "rosbag2",
        }
