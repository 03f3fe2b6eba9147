"""A stand-in for rosbag2_py, which is on no package index: it comes with a ROS 2 install only.

Its names and signatures are those of rosbag2's sources (branches humble, jazzy, rolling); the
storage below is real, read by the rosbags package.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rosbags.rosbag2 import Reader


class StorageOptions:
    def __init__(self, uri: str, storage_id: str = "") -> None:
        self.uri, self.storage_id = uri, storage_id


class ConverterOptions:
    def __init__(self, input_serialization_format: str, output_serialization_format: str) -> None:
        pass


class StorageFilter:
    def __init__(self, topics: Sequence[str] = ()) -> None:
        self.topics = topics


class SequentialReader:
    """Reads in the order of time; `seek` keeps the filter."""

    unpacks = False

    def open(self, storage: StorageOptions, _converter: ConverterOptions) -> None:
        if not Path(storage.uri).is_dir():
            raise RuntimeError("No storage could be initialized")
        self._reader = Reader(storage.uri)
        self._reader.open()
        if bool(self._reader.compression_mode) != self.unpacks:
            raise RuntimeError(
                "the storage is compressed, the reader is not for it, or the reverse"
            )
        self._topics: set[str] = set()
        self._from_ns, self._left = 0, self._read()

    def set_filter(self, wanted: StorageFilter) -> None:
        self._topics = set(wanted.topics)
        self._left = self._read()

    def seek(self, timestamp: int) -> None:
        self._from_ns = timestamp
        self._left = self._read()

    def has_next(self) -> bool:
        self._next: Any = next(self._left, None)
        return self._next is not None

    def read_next(self) -> tuple[str, bytes, int]:
        found: tuple[str, bytes, int] = self._next
        return found

    def _read(self) -> Iterator[tuple[str, bytes, int]]:
        for connection, stamp_ns, data in self._reader.messages():
            wanted = not self._topics or connection.topic in self._topics
            if wanted and stamp_ns >= self._from_ns:
                yield connection.topic, bytes(data), stamp_ns


class SequentialCompressionReader(SequentialReader):
    unpacks = True
