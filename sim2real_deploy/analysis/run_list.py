"""Many runs at once: the figures of each, cached beside its bag so that listing is quick."""

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sim2real_deploy import __version__
from sim2real_deploy.analysis.run_figures import figures_of
from sim2real_deploy.analysis.view import TOPICS, View
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bags.runs import PIN
from sim2real_deploy.errors import Refusal

KEPT = ".figures.json"  # in the run's folder; renewed when the bag or this package changes
GAP = "gap.json"  # where `sim2real gap RUN --json RUN/gap.json` puts it


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run; None: the bag does not tell."""

    name: str
    date: str  # UTC
    robot: str
    policy: str
    stage: str
    real: bool
    walked_s: float
    distance_m: float | None
    speed_error: float | None  # m/s, the worse of forward and sideways
    stops: int
    hottest: float  # degrees C
    gap: float | None  # from a gap.json in the run's folder
    pinned: str  # why, "" when it is not


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs are wanted; None accepts any."""

    policy: str | None = None
    stage: str | None = None
    stopped: bool | None = None
    real: bool | None = None
    pinned: bool | None = None
    least_distance: float | None = None
    most_gap: float | None = None

    def wants(self, run: RunRow) -> bool:
        exact = (
            (self.policy, run.policy),
            (self.stage, run.stage),
            (self.stopped, run.stops > 0),
            (self.real, run.real),
            (self.pinned, bool(run.pinned)),
        )
        if any(wanted is not None and wanted != value for wanted, value in exact):
            return False
        if self.least_distance is not None and (run.distance_m or 0.0) < self.least_distance:
            return False
        return self.most_gap is None or (run.gap is not None and run.gap <= self.most_gap)


def find_runs(folder: Path) -> list[Path]:
    """The bags in a folder of runs, oldest first."""
    if not folder.is_dir():
        raise Refusal(f"{folder}: there is no such folder of runs")
    return sorted(path for path in folder.iterdir() if path.is_dir() and any(path.glob("*.mcap")))


def list_runs(bags: Iterable[Path], wanted: Filter | None = None) -> tuple[list[RunRow], list[str]]:
    """The runs that match a filter, and why others could not be read."""
    rows, problems = [], []
    for path in bags:
        try:
            row = describe_run(path)
        except Refusal as refusal:
            problems.append(str(refusal))
            continue
        if wanted is None or wanted.wants(row):
            rows.append(row)
    return rows, problems


def describe_run(path: Path) -> RunRow:
    """From the cache beside the bag, if it is still valid."""
    size = sum(file.stat().st_size for file in path.glob("*.mcap"))
    key = f"{__version__} {size}"
    kept = path / KEPT
    stored = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    if stored.get("key") != key:
        stored = {"key": key, "row": _measure(path)}
        with contextlib.suppress(OSError):  # a folder that may only be read
            kept.write_text(json.dumps(stored), encoding="utf-8")
    pin = path / PIN
    why = pin.read_text(encoding="utf-8").strip().splitlines() if pin.is_file() else []
    pinned = (why[-1] if why else "pinned") if pin.is_file() else ""
    return RunRow(**stored["row"], gap=_gap(path / GAP), pinned=pinned)


def _measure(path: Path) -> dict[str, Any]:
    recorded = Recorded.open(path)
    view = View(recorded, recorded.load(TOPICS))
    figures = figures_of(view)
    info = recorded.bag.information
    return {
        "name": path.resolve().name,
        "date": f"{datetime.fromtimestamp(view.start_ns / 1e9, timezone.utc):%Y-%m-%d %H:%M:%S}",
        "robot": recorded.robot.name,
        "policy": info.get("policy", ""),
        "stage": info.get("stage", ""),
        "real": info.get("real", "") == "true",
        "walked_s": figures.walked_s,
        "distance_m": figures.distance_m,
        "speed_error": max(figures.speed_error[:2]) if figures.speed_error else None,
        "stops": len(figures.stops),
        "hottest": figures.hottest,
    }


def _gap(path: Path) -> float | None:
    if not path.is_file():
        return None
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["runs"][-1]["gap"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise Refusal(f"{path}: is not a file of `sim2real gap --json`; take it away") from None


def as_rows(runs: Iterable[RunRow]) -> list[dict[str, Any]]:
    return [asdict(run) for run in runs]
