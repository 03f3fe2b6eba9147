"""A bag that we do not read ourselves (sqlite3, other compression), through ROS 2's rosbag2_py.

Topics are read from the bag's metadata.yaml, which has the same form everywhere, while rosbag2_py
has another class for them in each distribution. Only names that Humble already has are used.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from sim2real_deploy.bags import definitions
from sim2real_deploy.bags.mcap_file import ALWAYS, Contents, Span
from sim2real_deploy.bags.topic import Message, Qos, Topic
from sim2real_deploy.errors import Refusal

_AT_ONCE = 1000  # messages in one list
_CONVERT = "`ros2 bag convert` or `rosbags-convert --dst-storage mcap`"


class Rosbag2Bag:
    """A whole bag directory, with the interface of one McapFile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            whole = yaml.safe_load((path / "metadata.yaml").read_text(encoding="utf-8"))
            info = whole["rosbag2_bagfile_information"]
            self._storage = str(info["storage_identifier"])
            self._compressed = str(info.get("compression_mode") or "NONE").upper() != "NONE"
            start_ns = int(info["starting_time"]["nanoseconds_since_epoch"])
            self._span = start_ns, start_ns + int(info["duration"]["nanoseconds"])
            topics = [_topic(entry) for entry in info["topics_with_message_count"]]
        except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError):
            raise Refusal(
                f"{path}: its metadata.yaml is missing or broken: `ros2 bag reindex` makes it anew"
            ) from None
        self._rosbag2 = _rosbag2_py(path, self._storage)
        self.contents = Contents(topics=dict(enumerate(topics)), complete=True)

    def messages(
        self, names: frozenset[str] | None = None, span: Span = ALWAYS
    ) -> Iterator[list[Message]]:
        """The messages of these topics (None: all) and times, in lists of limited length."""
        reader = self._open()
        if names is not None:
            reader.set_filter(self._rosbag2.StorageFilter(topics=sorted(names)))
        if span[0] > self._span[0]:
            reader.seek(span[0])
        found: list[Message] = []
        while reader.has_next():
            name, data, log_ns = reader.read_next()
            if log_ns >= span[1]:
                break
            if log_ns >= span[0] and (names is None or name in names):
                found.append(Message(log_ns, name, log_ns, 0, data))
            if len(found) == _AT_ONCE:
                yield found
                found = []
        if found:
            yield found

    def spans(self) -> Iterator[Span]:
        yield self._span

    def _open(self) -> Any:
        rosbag2 = self._rosbag2
        kind = rosbag2.SequentialCompressionReader if self._compressed else rosbag2.SequentialReader
        reader = kind()
        options = rosbag2.StorageOptions(uri=str(self.path), storage_id=self._storage)
        try:
            reader.open(options, rosbag2.ConverterOptions("", ""))
        except RuntimeError as error:
            raise Refusal(f"{self.path}: rosbag2 cannot open it: {error}") from None
        return reader


def _rosbag2_py(path: Path, storage: str) -> Any:
    try:
        return importlib.import_module("rosbag2_py")
    except ImportError:
        raise Refusal(
            f"{path}: is stored as {storage}, which ROS 2's rosbag2_py reads: it is not installed "
            f"here. Convert the bag first: {_CONVERT}"
        ) from None


def _topic(entry: dict[str, Any]) -> Topic:
    about = entry["topic_metadata"]
    name, kind = str(about["name"]), str(about["type"])
    qos = about.get("offered_qos_profiles") or ""
    text = qos if isinstance(qos, str) else yaml.safe_dump(qos)
    known = definitions.message_class(kind)
    definition = "" if known is None else definitions.of_class(known)[1]
    return Topic(
        name, kind, definition, Qos.read(text), str(about.get("type_description_hash", ""))
    )
