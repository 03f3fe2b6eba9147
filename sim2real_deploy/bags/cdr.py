"""Decodes ROS messages into flat columns, from the definition stored in the bag, without ROS.

Most messages of a topic have the same shape, that is the same string and sequence lengths. So one
message of each shape is walked to locate its values, and all others are read at once.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags.definitions import SEPARATOR
from sim2real_deploy.bags.growing import Columns
from sim2real_deploy.errors import Refusal

HEADER = 4
_CODES = {
    "bool": "?",
    "byte": "u1",
    "char": "u1",
    "int8": "i1",
    "uint8": "u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float32": "<f4",
    "float64": "<f8",
}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: str
    count: int | None = None  # of a fixed array; None where it is not one
    sequence: bool = False


@dataclass(slots=True)
class _Shape:
    """The layout of messages whose strings and sequences have the same lengths."""

    leaves: list[tuple[str, str, int, int | None]]  # path, numpy code, offset, count
    lengths: list[tuple[int, int]]  # offset, value


class Definition:
    """A message type read from ros2msg text."""

    def __init__(self, type_name: str, text: str) -> None:
        package, _, name = type_name.split("/")
        self._types: dict[str, list[_Field]] = {}
        blocks = text.split(SEPARATOR)
        self._root = f"{package}/{name}"
        self._types[self._root] = _fields(blocks[0], package)
        for block in blocks[1:]:
            head, _, body = block.strip().partition("\n")
            nested = head.removeprefix("MSG:").strip()
            self._types[nested] = _fields(body, nested.split("/")[0])

    def groups(self, messages: Sequence[bytes]) -> Iterator[tuple[npt.NDArray[np.intp], Columns]]:
        """For each shape: the indices of its messages, and one array per value."""
        by_size: dict[int, list[int]] = {}
        for row, message in enumerate(messages):
            by_size.setdefault(len(message), []).append(row)
        for indices in by_size.values():
            rows = np.array(indices)
            table = np.frombuffer(b"".join(messages[row] for row in indices), np.uint8)
            table = table.reshape(len(indices), -1)
            while len(rows):
                shape = self._walk(table[0].tobytes())
                same = np.ones(len(rows), np.bool_)
                for offset, value in shape.lengths:
                    same &= _column(table, "<u4", offset, None) == value
                part = table[same]
                yield (
                    rows[same],
                    {path: _column(part, code, at, n) for path, code, at, n in shape.leaves},
                )
                rows, table = rows[~same], table[~same]

    def _walk(self, message: bytes) -> _Shape:
        if message[:2] != b"\x00\x01":
            raise Refusal(f"a {self._root} message is not little-endian CDR: cannot be read here")
        shape = _Shape([], [])
        try:
            self._walk_struct(self._root, "", message, HEADER, shape)
        except (struct.error, KeyError) as error:
            raise Refusal(
                f"a {self._root} message does not fit its own definition ({error})"
            ) from None
        return shape

    def _walk_struct(self, name: str, prefix: str, message: bytes, at: int, shape: _Shape) -> int:
        for field in self._types[name]:
            path, count = prefix + field.name, field.count
            if field.sequence:
                at, count = _length(message, at, shape)
            code = _CODES.get(field.type)
            if code is not None:
                if count == 0:
                    continue
                width = np.dtype(code).itemsize
                at = _aligned(at, width)
                shape.leaves.append((path, code, at, count))
                at += width * (1 if count is None else count)
                continue
            for index in range(1 if count is None else count):
                here = path if count is None else f"{path}.{index}"
                if field.type == "string":
                    at, length = _length(message, at, shape)
                    start = at if length else at - 4  # its length's own zeros
                    shape.leaves.append((here, f"S{max(length - 1, 1)}", start, None))
                    at += length
                else:
                    at = self._walk_struct(field.type, here + ".", message, at, shape)
        if at > len(message):
            raise struct.error("it is too short")
        return at


def texts(column: npt.NDArray[Any]) -> list[str]:
    """A string column as Python strings."""
    return [value.decode("utf-8", "replace").rstrip("\0") for value in column.tolist()]


def _fields(body: str, package: str) -> list[_Field]:
    fields = []
    for line in body.splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2 or "=" in words[1] or (len(words) > 2 and words[2].startswith("=")):
            continue  # a comment, an empty line or a constant
        kind, bracket, size = words[0].partition("[")
        kind = kind.split("<=")[0]
        if kind not in _CODES and kind != "string" and "/" not in kind:
            kind = f"{package}/{kind}"
        size = size.rstrip("]")
        fixed = int(size) if size.isdecimal() else None
        fields.append(_Field(words[1], kind, fixed, bool(bracket) and fixed is None))
    return fields


def _aligned(at: int, width: int) -> int:
    """CDR aligns to the body, which begins after the header."""
    return HEADER + -(-(at - HEADER) // width) * width


def _length(message: bytes, at: int, shape: _Shape) -> tuple[int, int]:
    at = _aligned(at, 4)
    (length,) = struct.unpack_from("<I", message, at)
    shape.lengths.append((at, length))
    return at + 4, length


def _column(
    table: npt.NDArray[np.uint8], code: str, offset: int, count: int | None
) -> npt.NDArray[Any]:
    width = np.dtype(code).itemsize * (1 if count is None else count)
    values = np.ascontiguousarray(table[:, offset : offset + width]).view(code)
    return values[:, 0] if count is None else values
