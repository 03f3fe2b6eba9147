"""Columns that grow batch by batch and take little more memory than their values."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
Columns = dict[str, Values]
Rows = npt.NDArray[np.intp] | slice  # of a batch


class GrowingColumns:
    """One row per message. Missing values are NaN, 0 or ""."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._count = 0

    def extend(self, count: int, groups: Iterable[tuple[Rows, Columns]]) -> None:
        """Add a batch of rows. Each group holds some of them, with its own columns."""
        parts: dict[str, list[tuple[Rows, Values]]] = {}
        for rows, columns in groups:
            for name, values in columns.items():
                parts.setdefault(name, []).append((rows, values))
        for name, found in parts.items():
            column = self._columns.setdefault(name, _Column(found[0][1]))
            column.extend(self._count, self._count + count, found)
        self._count += count

    def done(self) -> Columns:
        """The columns; nothing may be added from then on."""
        return {name: column.done(self._count) for name, column in self._columns.items()}


class _Column:
    """An array with room for more rows. A text that never changes, such as the names of a vector's
    entries, is stored once."""

    def __init__(self, like: Values) -> None:
        self._values: Values = like[:1].copy()
        self._filled = 0  # rows; later ones are not set
        self._constant = like.dtype.kind == "S"

    def extend(self, start: int, end: int, parts: Sequence[tuple[Rows, Values]]) -> None:
        if self._constant and self._repeats(start, end, parts):
            self._filled = end
            return
        self._vary()
        for _, values in parts:
            self._make_room(end, values)
        self._fill(end)
        for rows, values in parts:
            _put(self._values[start:end], rows, values)

    def done(self, count: int) -> Values:
        if self._constant and self._filled == count:
            return np.broadcast_to(self._values, count)
        self._vary()
        self._make_room(count, self._values[:0])
        self._fill(count)
        return self._values[:count]

    def _repeats(self, start: int, end: int, parts: Sequence[tuple[Rows, Values]]) -> bool:
        """Whether these rows and all before them have the same text."""
        everywhere = self._filled == start and sum(len(v) for _, v in parts) == end - start
        return everywhere and all((v == self._values).all() for _, v in parts)

    def _vary(self) -> None:
        if self._constant:
            self._values, self._constant = np.repeat(self._values, self._filled), False

    def _make_room(self, count: int, values: Values) -> None:
        """For this many rows, and for the longest string or sequence so far."""
        known = self._values
        dtype = max(known.dtype, values.dtype, key=lambda dtype: dtype.itemsize)
        widths = tuple(map(max, known.shape[1:], values.shape[1:]))
        if count <= len(known) and widths == known.shape[1:] and dtype == known.dtype:
            return
        room = len(known) if count <= len(known) else max(count, len(known) * 3 // 2)
        self._values = np.empty((room, *widths), dtype)
        self._values[: self._filled] = _missing(dtype)
        _put(self._values, slice(self._filled), known[: self._filled])

    def _fill(self, count: int) -> None:
        self._values[self._filled : count] = _missing(self._values.dtype)
        self._filled = count


def _put(target: Values, rows: Rows, values: Values) -> None:
    """`values` may have shorter sequences than `target`."""
    if values.ndim == 1:
        target[rows] = values
    else:
        target[rows, : values.shape[1]] = values


def _missing(dtype: np.dtype[Any]) -> Any:
    return np.nan if dtype.kind == "f" else np.zeros((), dtype)[()]
