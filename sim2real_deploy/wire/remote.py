"""The wireless controller in every LowState: 40 bytes of buttons and sticks."""

import math
import struct
from dataclasses import dataclass

# Low bit first, bytes 2 and 3.
BUTTONS = (
    *("R1", "L1", "start", "select", "R2", "L2", "F1", "F2"),
    *("A", "B", "X", "Y", "up", "right", "down", "left"),
)
HEADER = bytes((85, 81))  # while it is switched on; public recordings show zeros when it is off
_FORMAT = struct.Struct("<2sHfff4xf16x")


@dataclass(frozen=True, slots=True)
class Remote:
    """Sticks from -1 to 1, right and up positive."""

    lx: float = 0.0
    ly: float = 0.0
    rx: float = 0.0
    ry: float = 0.0
    pressed: frozenset[str] = frozenset()  # names of the buttons held down
    on: bool = True  # switched on and in range of the robot


def decode(remote: bytes) -> Remote:
    """A stick that is not finite counts as at rest."""
    header, held, *sticks = _FORMAT.unpack(remote)
    lx, rx, ry, ly = (max(-1.0, min(1.0, s)) if math.isfinite(s) else 0.0 for s in sticks)
    pressed = frozenset(name for bit, name in enumerate(BUTTONS) if held >> bit & 1)
    return Remote(lx, ly, rx, ry, pressed, header == HEADER)


def encode(remote: Remote) -> bytes:
    """All zeros while it is off, as the robot reports it."""
    if not remote.on:
        return bytes(_FORMAT.size)
    return _FORMAT.pack(HEADER, keys(remote), remote.lx, remote.rx, remote.ry, remote.ly)


def keys(remote: Remote) -> int:
    """The buttons as the vendor's bit field."""
    return sum(1 << bit for bit, name in enumerate(BUTTONS) if name in remote.pressed)
