"""Vectors as short lists of plain floats. A loop that sleeps between ticks finds numpy's code
evicted from the caches; the interpreter's is not."""

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
    """Three values rounded to single precision, so that a recording holds exactly what was used."""
    return _AS_RECORDED.unpack(_AS_RECORDED.pack(*values))
