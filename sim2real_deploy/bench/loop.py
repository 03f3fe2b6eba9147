"""Does the gap report find what is hidden in a robot? Twins with one change each, and Drake.

The report never sees what was changed; it gets the walk, as from a bag, and the nominal twin. Each
result is one line of a file, so that an interrupted run continues where it stopped.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy import __version__
from sim2real_deploy.analysis.gap.closed_loop import walk_in_twin
from sim2real_deploy.analysis.gap.gap import SAME, measure_gap
from sim2real_deploy.analysis.gap.world_fit import World
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.gate.engines import SECOND, open_robot
from sim2real_deploy.gate.workers import policy_digest
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.robot import TwinRobot

NAMED_SHARE = 0.95  # 19 of 20
SIZE = 0.2  # share by which a size may be wrong
SEGMENTS, SEGMENT_S = 5, 4.0
FASTEST = (0.6, 0.3, 0.5)  # m/s, m/s, rad/s
FIRST_SEED = 1000  # of hidden robots: none that the report uses itself
DRAKE = "Drake"

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HiddenCause:
    world: World
    name: str  # of the cause, "" when nothing is hidden
    size: float = 0.0


HIDDEN = {
    "nothing": HiddenCause(World(), ""),
    "strength 0.75": HiddenCause(World(strength=0.75), "weaker motors", 0.75),
    "delay +6 ms": HiddenCause(World(delay_s=0.006), "delay", 6.0),
    "friction x3": HiddenCause(World(friction=3.0), "joint friction", 3.0),
    "payload +2 kg": HiddenCause(World(payload=2.0), "payload", 2.0),
    "floor 0.25": HiddenCause(World(floor=0.25 / Floor().friction), "slippery floor", 0.25),
}


class Kept:
    """Results by everything they depend on, one per line of a file."""

    def __init__(self, path: Path, bundle: Bundle, nominal: Imperfections) -> None:
        self._path = path
        content = policy_digest(bundle) + nominal.model_dump_json() + __version__
        self._base = hashlib.sha256(content.encode()).hexdigest()[:16]
        self._known: dict[str, Raw] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                stored = json.loads(line)
                self._known[stored["key"]] = stored["gap"]
            except (ValueError, KeyError, TypeError):
                continue  # cut off by an interruption

    def key(self, title: str, trial: int) -> str:
        return f"{self._base} {title} {trial}"

    def get(self, title: str, trial: int) -> Raw | None:
        return self._known.get(self.key(title, trial))

    def add(self, title: str, trial: int, gap: Raw) -> None:
        key = self.key(title, trial)
        self._known[key] = gap
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"key": key, "gap": gap}) + "\n")


@dataclass(frozen=True, slots=True)
class BenchPart:
    """What one part of the benchmark adds to the whole."""

    checks: Sequence[Check]
    rows: Sequence[Sequence[object]]
    raw: Raw


def gap_part(
    bundle: Bundle,
    nominal: Imperfections,
    trials: int,
    drake: bool,
    kept: Path,
    progress: Progress,
) -> BenchPart:
    results = Kept(kept, bundle, nominal)
    checks: list[Check] = []
    rows: list[list[object]] = []
    raw: Raw = {}
    tasks = [(title, trial) for trial in range(trials) for title in HIDDEN]
    tasks += [(DRAKE, 0)] if drake else []
    for number, (title, trial) in enumerate(tasks):
        progress(f"gap: {title} {trial}", number / len(tasks))
        if results.get(title, trial) is None:
            robot = _robot(title, bundle, nominal)
            results.add(title, trial, _gap(bundle, robot, nominal, trial))
    for title, hidden in HIDDEN.items():
        gaps = [gap for trial in range(trials) if (gap := results.get(title, trial)) is not None]
        if not gaps:
            continue
        found, right = _judged(gaps, hidden)
        bound = float(trials) if not hidden.name else float(np.floor(NAMED_SHARE * trials))
        what = "named first, size within 20 %" if hidden.name else "not told apart, no cause"
        checks.append(Check.at_least(f"{title}: {what}", right, bound, f"of {trials}"))
        auc, size = (float(np.mean([gap[key] for gap in gaps])) for key in ("auc", "gap"))
        rows.append([title, auc, size, found])
        raw[title] = gaps
    if drake:
        gap = results.get(DRAKE, 0)
        assert gap is not None
        checks.append(Check.at_least("Drake: another world", float(gap["another_world"]), 1.0))
        rows.append([DRAKE, gap["auc"], gap["gap"], gap["verdict"]])
        raw[DRAKE] = [gap]
    return BenchPart(checks, rows, raw)


def _robot(title: str, bundle: Bundle, nominal: Imperfections) -> TwinRobot:
    if title == DRAKE:
        return open_robot(SECOND, bundle.spec, Floor(), nominal)
    return HIDDEN[title].world.twin(bundle.spec, nominal, Floor())


def _gap(bundle: Bundle, hidden: TwinRobot, nominal: Imperfections, trial: int) -> Raw:
    seed = FIRST_SEED + trial
    walk = walk_in_twin(bundle, hidden, seed, commands_of(seed, bundle.spec.wire.rate_hz)).walk
    gap = measure_gap(walk, bundle, nominal)
    return {**gap.raw(), "another_world": gap.another_world}


def commands_of(seed: int, rate_hz: float) -> npt.NDArray[np.float64]:
    asked = np.random.default_rng(seed).uniform(-1, 1, (SEGMENTS, 3)) * FASTEST
    return np.repeat(asked, round(SEGMENT_S * rate_hz), axis=0)


def _judged(gaps: Sequence[Raw], hidden: HiddenCause) -> tuple[str, float]:
    words: list[str] = []
    right = 0
    for gap in gaps:
        first = gap["causes"][0] if gap["causes"] else None
        words.append(f"{first['name']} {first['size']:.3g}" if first else "none")
        if not hidden.name:
            right += first is None and gap["auc"] <= SAME
        elif first is not None and first["name"] == hidden.name:
            right += abs(first["size"] / hidden.size - 1) <= SIZE
    return ", ".join(sorted(set(words))), float(right)
