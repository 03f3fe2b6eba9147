"""Short lists of plain floats: in a loop that sleeps between ticks numpy's code is cold in the
caches, while the interpreter's is not."""

import struct
from collections.abc import Iterable, Sequence

Numbers = Sequence[float]
Bounds = Sequence[tuple[float, float]]  # low and high of each value
REST = (0.0, 0.0, 0.0)  # a velocity command: vx, vy, wz
_AS_RECORDED = struct.Struct("=3f")


def clip(values: Numbers, bounds: Bounds) -> list[float]:
    """Each value within its bounds; NaN stays NaN."""
    return [
        low if value < low else high if value > high else value
        for value, (low, high) in zip(values, bounds, strict=True)
    ]


def as_recorded(values: Iterable[float]) -> tuple[float, ...]:
    """Three values in single precision: a recording then holds the very values that were used."""
    return _AS_RECORDED.unpack(_AS_RECORDED.pack(*values))
