"""Where every field of a message lies: from one declaration, everything a codec needs.

A sample is plain CDR, as it is on the network and in a bag; that packs a message without regard to
where a struct begins. The vendor's checksum is taken over the C struct with its padding. Both
placements follow from the declaration.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim2real_deploy.wire import descriptor

HEADER = 4  # bytes of encapsulation before a CDR body
PLAIN_CDR = b"\x00\x01\x00\x00"  # the header of all we write: plain, little-endian


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a message: a numpy type code, or a struct's members."""

    name: str
    of: "str | tuple[Member, ...]"
    count: int = 0  # 0: not an array


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A primitive, or an array of primitives, and where it starts."""

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
    """Of a C struct with these members."""
    return max(
        _alignment(m.of) if isinstance(m.of, tuple) else np.dtype(m.of).itemsize for m in members
    )


def _place(
    members: tuple[Member, ...], start: int, c_struct: bool, prefix: str = ""
) -> tuple[list[_Leaf], int]:
    """Every leaf with its offset, and where the members end: as CDR packs, or as C pads."""
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
    """Values of one type in a sample: `np.frombuffer(sample, place.dtype)[place.at]`."""

    dtype: np.dtype[Any]
    at: slice


def word_places(place: slice) -> npt.NDArray[np.uint16]:
    """The places of a slice, one by one."""
    return np.arange(place.stop, dtype=np.uint16)[place]


class Layout:
    """A message type on the wire.

    `dtype` lies over a whole sample (CDR header included); members of structs are named with a
    dot ("imu_state.gyroscope"), arrays of structs are sub-arrays ("motor_state", then "q").
    `irregular` holds the byte positions of what no dtype can express: the first member of the
    first array element, which follows the field before it unpadded (a motor's mode).
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
        # Byte 0 of a sample is always zero: padding is read from there.
        gather = np.zeros(c_size, np.intp)
        for here, there in zip(cdr, padded, strict=True):
            gather[there.offset : there.offset + there.size] = np.arange(
                HEADER + here.offset, HEADER + here.offset + here.size
            )
        # The checksum's own word is left out, and the vendor feeds each word high byte first.
        # Small numbers: at 500 Hz every table has fallen out of the caches when it is needed again.
        self.crc_gather = gather[:-4].reshape(-1, 4)[:, ::-1].ravel().astype(np.uint16)

    # To DDS, a message of fixed size is so many bytes: no endpoint announces more of its type than
    # the name, so what is sent and what comes need no codec on the way.

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
        """Where the values of a field lie; with a count, those of a struct array's member in its
        first elements ("motor_state.q"), `item` choosing one where the member is an array."""
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
        """The place of a float field in a sample seen as float32."""
        return self.place(path, count).at

    def scalars(self, *paths: str) -> struct.Struct:
        """Reads single values, named in the order they lie in, out of a sample at one go; an
        array as its bytes."""
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
