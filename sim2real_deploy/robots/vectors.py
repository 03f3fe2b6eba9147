"""Short lists of plain floats: in a loop that sleeps between ticks numpy's code is cold in the
caches, while the interpreter's is not."""

from collections.abc import Sequence

Numbers = Sequence[float]
Bounds = Sequence[tuple[float, float]]  # low and high of each value


def clip(values: Numbers, bounds: Bounds) -> list[float]:
    """Each value within its bounds; NaN stays NaN."""
    return [
        low if value < low else high if value > high else value
        for value, (low, high) in zip(values, bounds, strict=True)
    ]
