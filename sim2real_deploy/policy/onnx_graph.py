"""The graph in an ONNX file: its operations and constants.

The onnx package would read it, too, but has tens of megabytes that a robot has no other use for.
These are the few fields of the format that matter here, by their numbers in onnx.proto.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = Any  # a numpy array
Fields = Mapping[int, Sequence[Any]]  # values by field number; bytes are not decoded further
KINDS = {1: "<f4", 6: "<i4", 7: "<i8", 9: "?", 11: "<f8"}  # TensorProto.DataType
PACKED = {4: "<f4", 10: "<f8"}  # of a tensor's numbers: float_data, double_data


class Unreadable(ValueError):
    """Not in a form that this module reads."""


class Node(NamedTuple):
    operation: str
    inputs: Sequence[str]  # "" where an optional one is missing
    outputs: Sequence[str]
    attributes: Mapping[str, Any]  # numbers, lists of whole numbers, text, arrays


class Graph(NamedTuple):
    nodes: Sequence[Node]  # each after those it depends on
    constants: Mapping[str, Array]


def read_graph(model: bytes) -> Graph:
    # A message that comes in parts is one message.
    graph = _fields(b"".join(_fields(model)[7]))
    constants = {_text(tensor, 8): _array(tensor) for tensor in map(_fields, graph[5])}
    return Graph([_node(_fields(node)) for node in graph[1]], constants)


def _node(fields: Fields) -> Node:
    attributes = map(_fields, fields[5])
    return Node(
        _text(fields, 4) if not _text(fields, 7) else f"{_text(fields, 7)}.{_text(fields, 4)}",
        [name.decode() for name in fields[1]],
        [name.decode() for name in fields[2]],
        {_text(attribute, 1): _value(attribute) for attribute in attributes},
    )


def _value(attribute: Fields) -> Any:
    kind = attribute[20][-1] if attribute[20] else 0
    if kind == 1:
        return float(np.frombuffer(attribute[2][-1], "<f4")[0])
    if kind == 2:
        return _signed(attribute[3][-1])
    if kind == 3:
        return attribute[4][-1].decode()
    if kind == 4:
        return _array(_fields(attribute[5][-1]))
    return _whole(attribute[8]) if kind == 7 else None  # None: nothing that is used here


def _array(tensor: Fields) -> Array:
    kind = KINDS.get(tensor[2][-1] if tensor[2] else 0)
    if kind is None or tensor[13] or (tensor[14] and tensor[14][-1]):
        raise Unreadable("a constant of another type, or outside of the file")
    if tensor[9]:
        values = np.frombuffer(tensor[9][-1], kind)
    elif tensor[5] or tensor[7]:
        values = np.array(_whole(tensor[5] or tensor[7]), kind)
    else:
        values = np.concatenate(
            [np.zeros(0, kind)]
            + [np.frombuffer(part, form) for at, form in PACKED.items() for part in tensor[at]]
        ).astype(kind)
    return values.reshape(_whole(tensor[1]))


def _text(fields: Fields, number: int) -> str:
    return fields[number][-1].decode() if fields[number] else ""


def _whole(values: Sequence[Any]) -> list[int]:
    """Whole numbers, one by one or packed."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(_signed(value))
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(_signed(number))
    return found


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _fields(message: bytes) -> Fields:
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value, at = _varint(message, at)
            found[tag >> 3].append(value)
            continue
        if tag & 7 == 2:
            size, at = _varint(message, at)
        elif tag & 7 in (1, 5):
            size = 8 if tag & 7 == 1 else 4
        else:
            raise Unreadable(f"a field of type {tag & 7}")
        found[tag >> 3].append(message[at : at + size])
        at += size
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and the place after it."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return number, at
