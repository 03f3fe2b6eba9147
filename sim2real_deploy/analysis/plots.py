"""Plots as data for the report's script, decimated without losing peaks."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

POINTS = 20_000  # per line: the full rate of a short run, min and max per bin of a long one
_NONE = 65535

Times = npt.NDArray[np.float64]
Span = tuple[float, float, str]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    seconds: Times
    values: npt.NDArray[Any]


def lines(
    title: str, unit: str, content: Iterable[Line], limits: Sequence[float] = (), height: int = 170
) -> dict[str, Any]:
    series = [packed for line in content if (packed := _packed(line)) is not None]
    return {
        "title": title,
        "unit": unit,
        "height": height,
        "limits": [float(limit) for limit in limits],
        "series": series,
    }


def bands(
    title: str, rows: Sequence[tuple[str, Sequence[Span]]], colors: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "title": title,
        "height": 0,
        "colors": colors or {},
        "rows": [
            {"name": name, "spans": [(round(a, 3), round(b, 3), text) for a, b, text in spans]}
            for name, spans in rows
        ],
    }


@dataclass(frozen=True, slots=True)
class Bar:
    """One value, its confidence interval if any, and a label."""

    name: str
    value: float
    text: str
    ok: bool = True
    interval: tuple[float, float] | None = None


def bars(title: str, rows: Sequence[Bar], most: float, mark: float | None = None) -> dict[str, Any]:
    """Bars from 0 to `most`; `mark` is the required value."""
    return {"title": title, "most": most, "mark": mark, "bars": [asdict(row) for row in rows]}


def spans(seconds: Times, labels: Sequence[str] | npt.NDArray[Any], end: float) -> list[Span]:
    """Runs of equal labels, each lasting until the next begins; empty labels are gaps."""
    values = np.asarray(labels)
    if not len(values):
        return []
    starts = np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))
    begin = seconds[starts]
    finish = np.append(begin[1:], end)
    return [
        (float(a), float(b), str(values[i]))
        for i, a, b in zip(starts, begin, finish, strict=True)
        if str(values[i])
    ]


def _packed(line: Line) -> dict[str, Any] | None:
    """Evenly spaced bins of two values: min and max, in the order they occurred."""
    good = np.isfinite(line.values) & np.isfinite(line.seconds)
    seconds, values = line.seconds[good], line.values[good].astype(np.float64)
    if not len(values):
        return None
    bins = max(1, min(POINTS, len(values)) // 2)
    start, end = float(seconds[0]), float(seconds[-1])
    width = (end - start) / bins or 1.0
    place = np.minimum(((seconds - start) / width).astype(np.intp), bins - 1)
    firsts = np.concatenate(([0], np.flatnonzero(place[1:] != place[:-1]) + 1))
    lasts = np.append(firsts[1:], len(place)) - 1
    lowest, highest = np.minimum.reduceat(values, firsts), np.maximum.reduceat(values, firsts)
    falling = values[lasts] < values[firsts]
    grid = np.full((bins, 2), np.nan)
    used = place[firsts]
    grid[used, 0] = np.where(falling, highest, lowest)
    grid[used, 1] = np.where(falling, lowest, highest)
    low, high = float(values.min()), float(values.max())
    scale = (high - low) / (_NONE - 1) or 1.0
    filled = np.where(np.isnan(grid), low, grid)
    codes = np.where(np.isnan(grid), _NONE, np.rint((filled - low) / scale)).astype("<u2")
    return {
        "name": line.name,
        "start": start,
        "step": width / 2,
        "low": low,
        "high": low + scale * (_NONE - 1),
        "data": base64.b64encode(codes.tobytes()).decode("ascii"),
    }
