"""Compares runs of one config with different seeds: a result of one seed may be luck."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from sim2real_deploy.training.checkpoint import CHECKPOINT, load_checkpoint
from sim2real_deploy.training.judge import best_of, read_judgements
from sim2real_deploy.training.progress import read_log

LAST = 20  # iterations whose mean stands for the end of a run


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """How one run ended."""

    folder: Path
    seed: int
    steps: int
    minutes: float
    score: float | None  # the gate's best judgement; None: never judged
    fails: tuple[str, ...]  # scenarios in which that checkpoint does not always succeed
    reward: float
    error: float  # m/s


def compare(folders: Iterable[Path]) -> list[SeedOutcome]:
    """The best first, by the gate and then by reward."""
    outcomes = [_outcome(folder) for folder in folders]
    return sorted(outcomes, key=lambda one: (one.score or 0.0, one.reward), reverse=True)


def _outcome(folder: Path) -> SeedOutcome:
    seed = load_checkpoint(folder / CHECKPOINT)["seed"]
    log = read_log(folder)
    best = best_of(read_judgements(folder))
    return SeedOutcome(
        folder=folder,
        seed=seed,
        steps=log[-1]["steps"],
        minutes=log[-1]["seconds"] / 60,
        score=None if best is None else best.score,
        fails=() if best is None else tuple(n for n, r in best.scenarios.items() if r < 1),
        reward=mean(row["reward"] for row in log[-LAST:]),
        error=mean(row["error_v"] for row in log[-LAST:]),
    )
