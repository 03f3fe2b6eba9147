"""Does the gap report find what is hidden in a robot? Twins with one change each, and Drake.

The report never sees what was changed; it gets the walk, as from a bag, and the nominal twin.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.gap.closed_loop import walk_in_twin
from sim2real_deploy.analysis.gap.gap import SAME, Gap, measure_gap
from sim2real_deploy.analysis.gap.world_fit import World
from sim2real_deploy.bench.conduct import BenchResult, Progress
from sim2real_deploy.checks import Check
from sim2real_deploy.gate.engines import SECOND, SimulatedRobot, open_robot
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.contract import bundle_folder
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor

NAMED_SHARE = 0.95  # 19 of 20
SIZE = 0.2  # share by which a size may be wrong
SEGMENTS, SEGMENT_S = 5, 4.0
FASTEST = (0.6, 0.3, 0.5)  # m/s, m/s, rad/s
FIRST_SEED = 1000  # of hidden robots: none that the report uses itself


@dataclass(frozen=True, slots=True)
class Hidden:
    world: World
    name: str  # of the cause, "" when nothing is hidden
    size: float = 0.0


HIDDEN = {
    "nothing": Hidden(World(), ""),
    "strength 0.75": Hidden(World(strength=0.75), "weaker motors", 0.75),
    "delay +6 ms": Hidden(World(delay_s=0.006), "delay", 6.0),
    "friction x3": Hidden(World(friction=3.0), "joint friction", 3.0),
    "payload +2 kg": Hidden(World(payload=2.0), "payload", 2.0),
    "floor 0.25": Hidden(World(floor=0.25 / Floor().friction), "slippery floor", 0.25),
}


def run(robot: str, policy: str, trials: int, drake: bool, progress: Progress) -> BenchResult:
    spec = load_robot(robot)
    bundle = load_bundle(bundle_folder(policy), spec)
    nominal = load_imperfections("default", robot)
    checks, rows, raw = [], [], {}
    total = trials * len(HIDDEN) + drake
    for number, (title, hidden) in enumerate(HIDDEN.items()):
        gaps = []
        for trial in range(trials):
            progress(title, (number * trials + trial) / total)
            twin = hidden.world.twin(spec, nominal, Floor())
            gaps.append(_gap(bundle, twin, nominal, trial))
        found, right = _judged(gaps, hidden)
        bound = float(trials) if not hidden.name else np.floor(NAMED_SHARE * trials)
        what = "not told apart" if not hidden.name else "named first, size within 20 %"
        checks.append(Check.at_least(f"{title}: {what}", right, bound, f"of {trials}"))
        means = (float(np.mean([getattr(gap, key) for gap in gaps])) for key in ("auc", "number"))
        rows.append([title, *means, found])
        raw[title] = [gap.raw() for gap in gaps]
    if drake:
        progress("Drake", 1 - 1 / total)
        gap = _gap(bundle, open_robot(SECOND, spec, Floor(), nominal), nominal, 0)
        checks.append(Check.at_least("Drake: another world", float(gap.another_world), 1.0))
        rows.append(["Drake", gap.auc, gap.number, gap.verdict()])
        raw["Drake"] = [gap.raw()]
    columns = ("hidden", "AUC", "gap", "first cause found, and its size")
    return BenchResult("bench loop: the gap report", checks, raw, columns, rows)


def _gap(bundle: Bundle, hidden: SimulatedRobot, nominal: Imperfections, trial: int) -> Gap:
    seed = FIRST_SEED + trial
    walk = walk_in_twin(bundle, hidden, seed, _commands(seed, bundle.spec.wire.rate_hz)).walk
    return measure_gap(walk, bundle, nominal)


def _commands(seed: int, rate_hz: float) -> npt.NDArray[np.float64]:
    asked = np.random.default_rng(seed).uniform(-1, 1, (SEGMENTS, 3)) * FASTEST
    return np.repeat(asked, round(SEGMENT_S * rate_hz), axis=0)


def _judged(gaps: list[Gap], hidden: Hidden) -> tuple[str, float]:
    words: list[str] = []
    right = 0
    for gap in gaps:
        first = gap.causes[0] if gap.causes else None
        words.append(f"{first.name} {first.size:.3g}" if first else "none")
        if not hidden.name:
            right += first is None and gap.auc <= SAME
        elif first is not None and first.name == hidden.name:
            right += abs(first.size / hidden.size - 1) <= SIZE
    return ", ".join(sorted(set(words))), float(right)
