"""What Cyclone DDS must know about a type: the instructions of its serialiser.

No type information is announced, so endpoints match by type name alone, with Cyclone 0.10 and 11
alike. With type information, the robot's 0.10 refuses the type objects of 11, and a process on 0.10
crashes when both kinds meet on one topic: on a robot's network, possibly one of its own services.
"""

import ctypes
from functools import cache

from sim2real_deploy.wire.libddsc import TopicDescriptor

_FIXED_SIZE = 0x10
_END, _ADDRESS = 0, 0x01 << 24
_1BY, _4BY, _8BY, _STRING, _SEQUENCE, _ARRAY = 0x01, 0x03, 0x04, 0x05, 0x07, 0x08
_SIGNED = 0x04
# Instructions for members of a C struct; each is followed by the member's offset.
BOOLEAN = _ADDRESS | _1BY << 16
INT32, INT64 = (_ADDRESS | width << 16 | _SIGNED for width in (_4BY, _8BY))
TEXT = _ADDRESS | _STRING << 16  # char *
OCTETS = _ADDRESS | _SEQUENCE << 16 | _1BY << 8  # capacity and length, pointer, ownership
_OF_NO_FIXED_SIZE = {TEXT, OCTETS}


def program(*members: tuple[int, int]) -> tuple[int, ...]:
    """The instructions for a struct, from each member's instruction and offset. CDR does not show
    nested structs: list their members in place."""
    return (*(word for member in members for word in member), _END)


def octets(count: int) -> tuple[int, ...]:
    """The instructions for an array of bytes, for a message whose CDR we make ourselves."""
    return (_ADDRESS | _ARRAY << 16 | _1BY << 8, 0, count, _END)


@cache
def descriptor(type_name: str, size: int, ops: tuple[int, ...]) -> TopicDescriptor:
    return TopicDescriptor(
        size=size,
        align=8 if _OF_NO_FIXED_SIZE & {*ops} else 1,
        flags=0 if _OF_NO_FIXED_SIZE & {*ops} else _FIXED_SIZE,
        type_name=type_name.encode(),
        op_count=len(ops),
        ops=(ctypes.c_uint32 * len(ops))(*ops),
        meta=b"",
    )
