"""Reads one .mcap file directly: fast enough for hours, and also if it was never closed.

The mcap package's own reader makes an object per message and needs the index at the end of the
file, which a crashed run lacks. This one reads all that is intact and reports what is damaged.
"""

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Metadata, Schema

from sim2real_deploy.bags.topic import Message, Qos, Topic
from sim2real_deploy.errors import Refusal

MAGIC = b"\x89MCAP0\r\n"
_HEAD = struct.Struct("<BQ")  # opcode, length
_MESSAGE_HEAD = struct.Struct("<BQH")  # opcode, length, channel
_MESSAGE_TIMES = struct.Struct("<IQQ")  # sequence, log time, publish time
_MESSAGE_FIELDS = 2 + _MESSAGE_TIMES.size
Span = tuple[int, int]  # of log times, ns; the end is exclusive
ALWAYS: Span = (0, 1 << 63)
_CHUNK = struct.Struct("<QQQII")  # start, end, size, CRC, length of the compression's name
ENDINGS = (".mcap", ".mcap.zstd")  # the second is a whole file that rosbag2 compressed
_ZSTD = b"\x28\xb5\x2f\xfd"  # begins a message that was compressed singly; no CDR begins like this


class Chunk(NamedTuple):
    """Where a chunk lies in the file, and the times of its first and last message."""

    start: int
    end: int
    span: Span


@dataclass(slots=True)
class Contents:
    """What a first pass over the file's outer records finds."""

    topics: dict[int, Topic] = field(default_factory=dict)  # by channel id
    chunks: list["Chunk"] = field(default_factory=list)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    attachments: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    complete: bool = False


class McapFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Not mapped: all that is read from a map counts as memory of this process.
            self._file = _open(path)
            self._size = os.fstat(self._file.fileno()).st_size
            begins = self._read(0, len(MAGIC))
        except OSError as error:
            raise Refusal(f"{path}: cannot be read: {error.strerror}") from None
        except zstandard.ZstdError as error:
            raise Refusal(
                f"{path}: cannot be unpacked, its zstd data is damaged: {error}"
            ) from None
        if self._size < len(MAGIC):
            raise Refusal(f"{path}: is empty ({self._size} bytes): nothing was recorded")
        if begins != MAGIC:
            raise Refusal(f"{path}: is not an MCAP file (its first bytes are wrong)")
        self._schemas: dict[int, Schema] = {}
        self.contents = Contents()
        self._scan()

    def messages(
        self, names: frozenset[str] | None = None, span: Span = ALWAYS
    ) -> Iterator[list[Message]]:
        """The messages of these topics (None: all) and times, one list per chunk, in the file's
        order. Chunks of other times are not even unpacked."""
        for chunk in self.contents.chunks:
            start_ns, end_ns = chunk.span
            if start_ns >= span[1] or end_ns < span[0]:
                continue
            data = self._unpacked(chunk)
            if data is not None:
                found = self._messages_of(data, names)
                if start_ns < span[0] or end_ns >= span[1]:
                    found = [message for message in found if span[0] <= message.log_ns < span[1]]
                yield found

    def spans(self) -> Iterator[Span]:
        """First and last time of each chunk, from its header."""
        return (chunk.span for chunk in self.contents.chunks)

    def _read(self, start: int, end: int) -> bytes:
        return os.pread(self._file.fileno(), end - start, start)

    def _scan(self) -> None:
        found, size, at = self.contents, self._size, len(MAGIC)
        while at + _HEAD.size <= size:
            opcode, length = _HEAD.unpack(self._read(at, at + _HEAD.size))
            body, after = at + _HEAD.size, at + _HEAD.size + length
            if after > size or opcode == 0:
                break
            if opcode == Opcode.CHUNK:
                start_ns, end_ns, *_ = _CHUNK.unpack(self._read(body, body + _CHUNK.size))
                found.chunks.append(Chunk(body, after, (start_ns, end_ns)))
            elif opcode == Opcode.FOOTER:
                found.complete = True
                break
            elif opcode == Opcode.METADATA:
                record = Metadata.read(_stream(self._read(body, after)))
                found.metadata[record.name] = record.metadata
            elif opcode == Opcode.ATTACHMENT:
                attachment = Attachment.read(_stream(self._read(body, after)))
                found.attachments[attachment.name] = attachment.data
            else:
                self._describe(opcode, self._read(body, after))
            at = after
        if not found.complete:
            found.problems.append(
                f"{self.path.name}: ends in the middle (the recorder was killed or the file cut); "
                f"read up to byte {at} of {size}; `sim2real mend` closes it for other tools"
            )
            for chunk in found.chunks:  # channels are repeated only at the end, which is missing
                data = self._unpacked(chunk)
                if data is not None:
                    self._messages_of(data, frozenset())

    def _describe(self, opcode: int, record: bytes) -> None:
        """Schemas and channels are in chunks and again in the summary."""
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(_stream(record))
            self._schemas[schema.id] = schema
        elif opcode == Opcode.CHANNEL:
            channel = Channel.read(_stream(record))
            known = self._schemas.get(channel.schema_id)
            if known is not None and channel.id not in self.contents.topics:
                self.contents.topics[channel.id] = _topic(channel, known)

    def _unpacked(self, chunk: Chunk) -> bytes | None:
        """A chunk's records; None, with a note, if it is damaged."""
        content = self._read(chunk.start, chunk.end)
        _, _, size, crc, name_length = _CHUNK.unpack_from(content)
        at = _CHUNK.size + name_length
        compression = content[_CHUNK.size : at].decode("ascii", "replace")
        (length,) = struct.unpack_from("<Q", content, at)
        packed = content[at + 8 : at + 8 + length]
        try:
            data = self._unpack(compression, packed, size)
        except zstandard.ZstdError:
            data = None
        if data is None or (crc and zlib.crc32(data) != crc):
            place = f"the chunk at byte {chunk.start - _HEAD.size}"
            self._note(f"{self.path.name}: {place} is damaged and left out")
            return None
        return data

    def _unpack(self, compression: str, packed: bytes, size: int) -> bytes:
        if compression == "zstd":
            return zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
        if compression == "":
            return packed
        raise Refusal(
            f"{self.path}: is compressed with '{compression}', which is not read here; "
            "convert it first: `mcap compress --compression zstd`"
        )

    def _messages_of(self, data: bytes, names: frozenset[str] | None) -> list[Message]:
        messages: list[Message] = []
        wanted = self._wanted(names)
        head, times = _MESSAGE_HEAD.unpack_from, _MESSAGE_TIMES.unpack_from
        at, size = 0, len(data)
        while at < size:
            opcode, length, channel = head(data, at)
            body, at = at + _HEAD.size, at + _HEAD.size + length
            if opcode == Opcode.MESSAGE:
                name = wanted.get(channel)
                if name is not None:
                    sequence, log_ns, publish_ns = times(data, body + 2)
                    content = data[body + _MESSAGE_FIELDS : at]
                    if content.startswith(_ZSTD):
                        content = self._unpack_message(name, content)
                        if not content:
                            continue
                    messages.append(Message(log_ns, name, publish_ns, sequence, content))
            else:
                self._describe(opcode, data[body:at])
                wanted = self._wanted(names)
        return messages

    def _unpack_message(self, topic: str, packed: bytes) -> bytes:
        """Unpack a message that was compressed singly; empty, with a note, if it is damaged."""
        try:
            return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
        except zstandard.ZstdError:
            self._note(f"{self.path.name}: damaged messages of {topic} are left out")
            return b""

    def _note(self, problem: str) -> None:
        if problem not in self.contents.problems:
            self.contents.problems.append(problem)

    def _wanted(self, names: frozenset[str] | None) -> dict[int, str]:
        topics = self.contents.topics.items()
        return {id: topic.name for id, topic in topics if names is None or topic.name in names}


def _stream(record: bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(record))


def _topic(channel: Channel, schema: Schema) -> Topic:
    return Topic(
        channel.topic,
        schema.name,
        schema.data.decode("utf-8", "replace"),
        Qos.read(channel.metadata.get("offered_qos_profiles", "")),
        channel.metadata.get("topic_type_hash", ""),
    )


def _open(path: Path) -> IO[bytes]:
    """Open it; a compressed file is unpacked onto disk, as rosbag2 does, because a run of hours
    does not fit into memory."""
    packed = path.open("rb")
    if path.suffix == ".mcap":
        return packed
    with packed:
        unpacked = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the reader
        zstandard.ZstdDecompressor().copy_stream(packed, unpacked)
        unpacked.flush()
    return unpacked
