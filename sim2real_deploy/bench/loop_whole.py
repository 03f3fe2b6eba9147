"""`sim2real bench loop`: the gap report on hidden changes, and the whole loop on hidden robots."""

from dataclasses import dataclass
from pathlib import Path

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.loop import gap_part
from sim2real_deploy.bench.loop_robots import robots_part
from sim2real_deploy.console import Progress
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.contract import bundle_folder
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.files import load_imperfections

COLUMNS = ("robot", "AUC, or velocity error m/s", "gap, or turning error rad/s", "found")


@dataclass(frozen=True, slots=True)
class Asked:
    trials: int
    drake: bool
    robots: int
    seeds: int
    steps: int
    wrong: bool
    folder: Path


def run(robot: str, policy: str, asked: Asked, progress: Progress) -> BenchResult:
    bundle = load_bundle(bundle_folder(policy), load_robot(robot))
    nominal = load_imperfections("default", robot)
    kept = asked.folder / "gaps.jsonl"
    gaps = gap_part(bundle, nominal, asked.trials, asked.drake, kept, progress)
    loops = robots_part(
        bundle,
        nominal,
        asked.robots,
        asked.seeds,
        asked.steps,
        asked.wrong,
        asked.folder,
        progress,
    )
    return BenchResult(
        "bench loop",
        [*gaps.checks, *loops.checks],
        {"gap": gaps.raw, "loop": loops.raw},
        COLUMNS,
        [*gaps.rows, *loops.rows],
    )
