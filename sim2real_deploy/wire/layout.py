"""The memory layout of a message: from one declaration, everything a codec needs.

A sample is plain CDR, on the network and in a bag; CDR aligns each field but not nested structs.
The vendor's checksum covers the C struct with its padding. Both layouts follow from the
declaration.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim2real_deploy.wire import descriptor

HEADER = 4  # bytes of encapsulation before a CDR body
PLAIN_CDR = b"\x00\x01\x00\x00"  # the header we write: plain, little-endian


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a message: of a numpy type, or a struct with members of its own."""

    name: str
    of: "str | tuple[Member, ...]"
    count: int = 0  # 0: not an array


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A primitive or an array of primitives, with its offset."""

    path: str  # "tick", "imu_state.gyroscope", "motor_state.3.q"
    code: str
    count: int
    offset: int

    @property
    def size(self) -> int:
        return np.dtype(self.code).itemsize * max(self.count, 1)

    @property
    def format(self) -> "str | tuple[str, tuple[int]]":
        return (self.code, (self.count,)) if self.count else self.code


def _aligned(offset: int, width: int) -> int:
    return -(-offset // width) * width


def _alignment(members: tuple[Member, ...]) -> int:
    """The alignment of a C struct with these members."""
    return max(
        _alignment(m.of) if isinstance(m.of, tuple) else np.dtype(m.of).itemsize for m in members
    )


def _place(
    members: tuple[Member, ...], start: int, c_struct: bool, prefix: str = ""
) -> tuple[list[_Leaf], int]:
    """Every leaf with its offset, and the end of the last: as in CDR, or as in a C struct."""
    leaves: list[_Leaf] = []
    at = start
    for member in members:
        if isinstance(member.of, str):
            leaf = _Leaf(
                prefix + member.name,
                member.of,
                member.count,
                _aligned(at, np.dtype(member.of).itemsize),
            )
            leaves.append(leaf)
            at = leaf.offset + leaf.size
            continue
        width = _alignment(member.of) if c_struct else 1
        for index in range(max(member.count, 1)):
            name = f"{member.name}.{index}." if member.count else f"{member.name}."
            inner, at = _place(member.of, _aligned(at, width), c_struct, prefix + name)
            leaves += inner
            at = _aligned(at, width)
    return leaves, at


class Place(NamedTuple):
    """Where values of one type lie in a sample: `np.frombuffer(sample, place.dtype)[place.at]`."""

    dtype: np.dtype[Any]
    at: slice


def word_places(place: slice) -> npt.NDArray[np.uint16]:
    """The indices of a slice."""
    return np.arange(place.stop, dtype=np.uint16)[place]


class Layout:
    """A message type on the wire.

    `dtype` describes a whole sample, CDR header included. Members of structs have dotted names
    ("imu_state.gyroscope"); arrays of structs are sub-arrays ("motor_state", then "q"). `irregular`
    holds the byte positions of members that no dtype can express because they are not evenly
    spaced: a motor's mode, which in the first element follows the previous field unpadded.
    """

    def __init__(self, type_name: str, members: tuple[Member, ...]) -> None:
        self.type_name = type_name
        self.members = members
        cdr, cdr_end = _place(members, 0, c_struct=False)
        padded, padded_end = _place(members, 0, c_struct=True)
        c_size = _aligned(padded_end, _alignment(members))
        self.size = HEADER + cdr_end
        self.irregular: dict[str, npt.NDArray[np.intp]] = {}
        self.dtype = self._dtype(cdr)
        # Byte 0 of a sample is always zero: padding is gathered from there.
        gather = np.zeros(c_size, np.intp)
        for here, there in zip(cdr, padded, strict=True):
            gather[there.offset : there.offset + there.size] = np.arange(
                HEADER + here.offset, HEADER + here.offset + here.size
            )
        # The checksum's own word is left out, and the vendor feeds each word high byte first. As
        # uint16, because at 500 Hz the table is no longer in the CPU's cache when needed again.
        self.crc_gather = gather[:-4].reshape(-1, 4)[:, ::-1].ravel().astype(np.uint16)

    # DDS sees a fixed-size message as an array of bytes: endpoints announce only the type's name,
    # so samples pass through without a codec.

    @property
    def ops(self) -> tuple[int, ...]:
        return descriptor.octets(self.size - HEADER)

    @property
    def c_size(self) -> int:
        return self.size - HEADER

    def from_c(self, memory: bytearray, at: int) -> bytes:
        return PLAIN_CDR + memory[at : at + self.size - HEADER]

    def to_c(self, value: bytes, /) -> bytes:
        if len(value) != self.size:
            raise ValueError(f"a sample of {len(value)} bytes; {self.type_name} has {self.size}")
        return value[HEADER:]

    def span(self, path: str) -> slice:
        """The bytes of a plain field in a sample."""
        dtype, offset = self._field(self.dtype, path)
        return slice(offset, offset + dtype.itemsize)

    def place(self, path: str, count: int = 0, item: int = 0) -> Place:
        """Where a field's values lie. With a count, those of a member of a struct array
        ("motor_state.q") in its first `count` elements; `item` selects one of an array member."""
        if not count:
            dtype, offset = self._field(self.dtype, path)
            width = dtype.base.itemsize
            return Place(dtype.base, slice(offset // width, (offset + dtype.itemsize) // width))
        array, member = path.split(".")
        elements, base = self._field(self.dtype, array)
        dtype, offset = self._field(elements.base, member)
        width = dtype.base.itemsize
        first, step = (base + offset) // width + item, elements.base.itemsize // width
        return Place(dtype.base, slice(first, first + step * count, step))

    def floats(self, path: str, count: int = 0) -> slice:
        """Where a float field lies in a sample viewed as float32."""
        return self.place(path, count).at

    def scalars(self, *paths: str) -> struct.Struct:
        """A struct that unpacks single values, named in memory order, from a sample; an array as
        bytes."""
        form, at = "<", 0
        for path in paths:
            dtype, offset = self._field(self.dtype, path)
            form += f"{offset - at}x" + (f"{dtype.itemsize}s" if dtype.shape else dtype.char)
            at = offset + dtype.itemsize
        return struct.Struct(form)

    @staticmethod
    def _field(dtype: np.dtype[np.void], name: str) -> tuple[np.dtype[np.void], int]:
        assert dtype.fields is not None
        found = dtype.fields[name]
        return found[0], found[1]

    def _dtype(self, leaves: list[_Leaf]) -> np.dtype[np.void]:
        placed = [(leaf.path, leaf.format, HEADER + leaf.offset) for leaf in leaves]
        plain = [entry for entry in placed if entry[0].count(".") < 2]
        fields = [*plain, *self._arrays([entry for entry in placed if entry[0].count(".") == 2])]
        names, formats, offsets = zip(*fields, strict=True)
        return np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size}
        )

    def _arrays(self, placed: list[tuple[str, object, int]]) -> Iterator[tuple[str, object, int]]:
        groups: dict[str, dict[str, tuple[object, list[int]]]] = {}
        for path, form, offset in placed:
            array, _, member = path.split(".")
            groups.setdefault(array, {}).setdefault(member, (form, []))[1].append(offset)
        for array, members in groups.items():
            even = {
                name: (form, offsets)
                for name, (form, offsets) in members.items()
                if len(set(np.diff(offsets))) == 1
            }
            for name, (_, offsets) in members.items():
                if name not in even:
                    self.irregular[f"{array}.{name}"] = np.array(offsets, np.intp)
            base = min(offsets[0] for _, offsets in even.values())
            some = next(iter(even.values()))[1]
            element = np.dtype(
                {
                    "names": list(even),
                    "formats": [form for form, _ in even.values()],
                    "offsets": [offsets[0] - base for _, offsets in even.values()],
                    "itemsize": some[1] - some[0],
                }
            )
            yield array, (element, (len(some),)), base
