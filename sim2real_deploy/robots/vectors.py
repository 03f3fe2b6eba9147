"""Plain numbers by the dozen: in a loop that sleeps between its ticks numpy's code is found cold,
the interpreter's is not."""

from collections.abc import Sequence

Numbers = Sequence[float]
Bounds = Sequence[tuple[float, float]]  # the lowest and the highest of each


def clip(values: Numbers, bounds: Bounds) -> list[float]:
    """Each within its bounds; what is not a number stays so."""
    return [
        low if value < low else high if value > high else value
        for value, (low, high) in zip(values, bounds, strict=True)
    ]
