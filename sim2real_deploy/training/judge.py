"""Judges the checkpoints of a training run by the gate while it goes on, and keeps the best.

Reward measures what training asks for, the gate what the policy is good for. Each judgement is a
separate process at low priority: training does not wait for it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.engines import FIRST
from sim2real_deploy.gate.scenarios import load_scenarios, scenario_set
from sim2real_deploy.gate.workers import run_here
from sim2real_deploy.policy.bundle import load_own_bundle
from sim2real_deploy.runtime.parent import end_with_parent
from sim2real_deploy.training.checkpoint import CHECKPOINT
from sim2real_deploy.training.config import Judging
from sim2real_deploy.training.export import export

BEST, CANDIDATE, JUDGEMENTS = "best.pt", "candidate", "judgements.jsonl"
NICE = 5


@dataclass(frozen=True, slots=True)
class Judgement:
    """One checkpoint's share of successful runs, by scenario and overall."""

    steps: int
    score: float
    scenarios: dict[str, float]


def judge(checkpoint: Path, folder: Path, scenarios: list[str], trials: int) -> Judgement:
    """Export a checkpoint into a new folder and walk it through the scenarios."""
    contract = export(checkpoint, folder)
    bundle = load_own_bundle(folder)
    tasks = [(FIRST, s, trial) for s in load_scenarios(scenarios) for trial in range(trials)]
    succeeded = dict.fromkeys(scenarios, 0)
    for (_, scenario, _), episode in run_here(bundle, tasks, workers=1):
        succeeded[scenario.name] += episode.success
    rates = {name: count / trials for name, count in succeeded.items()}
    return Judgement(contract.provenance["steps"], sum(rates.values()) / len(rates), rates)


class Judge:
    """Call `look` in every iteration; `enough` is the early stop."""

    def __init__(self, folder: Path, settings: Judging) -> None:
        self._folder, self._settings = folder, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._next = time.monotonic() + settings.every
        self.judgements = read_judgements(folder)
        scenario_set(settings.set)  # refuse an unknown set before training starts

    @property
    def best(self) -> Judgement | None:
        return best_of(self.judgements)

    def enough(self) -> bool:
        best, patience = self.best, self._settings.patience
        if best is None or patience is None:
            return False
        return len(self.judgements) - 1 - self.judgements.index(best) >= patience

    def look(self) -> None:
        """Read a judgement that is ready; start the next one when it is due."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._take()
        if time.monotonic() >= self._next and (self._folder / CHECKPOINT).exists():
            self._next = time.monotonic() + self._settings.every
            self._begin()

    def finish(self) -> Path:
        """Judge the last checkpoint as well; returns the best one."""
        if self._process is not None:
            self._process.wait()
            self._take()
        self._begin()
        assert self._process is not None
        self._process.wait()
        self._take()
        if not (self._folder / BEST).exists():
            log = self._folder / CANDIDATE / "log.txt"
            raise Refusal(f"{log}: no checkpoint could be judged; it says why")
        return self._folder / BEST

    def _begin(self) -> None:
        place = self._folder / CANDIDATE
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copyfile(self._folder / CHECKPOINT, place / CHECKPOINT)
        code = "import sys; from sim2real_deploy.training.judge import main; main(*sys.argv[1:])"
        arguments = [str(place), self._settings.set, str(self._settings.trials), str(os.getpid())]
        with (place / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _take(self) -> None:
        assert self._process is not None
        code, self._process = self._process.returncode, None
        place = self._folder / CANDIDATE
        if code != 0:  # training goes on; a run that ends without a judgement is refused
            return
        text = (place / "judgement.json").read_text(encoding="utf-8")
        with (self._folder / JUDGEMENTS).open("a", encoding="utf-8") as stream:
            stream.write(text + "\n")
        self.judgements.append(Judgement(**json.loads(text)))
        if self.best == self.judgements[-1]:
            os.replace(place / CHECKPOINT, self._folder / BEST)


def best_of(judgements: Sequence[Judgement]) -> Judgement | None:
    """Of equal ones the latest: it has trained longer."""
    return max(judgements, key=lambda one: (one.score, one.steps), default=None)


def read_judgements(folder: Path) -> list[Judgement]:
    """All judgements of a run, earlier sessions included."""
    path = folder / JUDGEMENTS
    if not path.exists():
        return []
    lines: list[Any] = [json.loads(line) for line in path.read_text().splitlines()]
    return [Judgement(**line) for line in lines]


def main(place: str, named: str, trials: str, trainer: str) -> None:
    """The process of one judgement. It ends with its trainer: one that goes on after a crash would
    otherwise meet it in the same folder."""
    end_with_parent(int(trainer))
    os.nice(NICE)
    folder = Path(place)
    result = judge(folder / CHECKPOINT, folder / "bundle", scenario_set(named), int(trials))
    (folder / "judgement.json").write_text(json.dumps(asdict(result)), encoding="utf-8")
