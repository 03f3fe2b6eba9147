"""How well identification finds robots it has never seen, and whether it says so when it cannot."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy import paths
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bench import hidden
from sim2real_deploy.bench.conduct import BenchResult, Progress
from sim2real_deploy.checks import Check
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.lockstep import excite, walk
from sim2real_deploy.identify.pipeline import Found, identify
from sim2real_deploy.identify.recording import from_bag
from sim2real_deploy.identify.verdicts import KEYS, findings, residual_words
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.robot import TwinRobot

GAINS = (25.0, 0.5)
# Median and 90th percentile that are asked for, and whether the error is a share of the truth.
TARGETS: dict[str, tuple[float, float, bool]] = {
    "strength": (0.01, 0.02, True),
    "delay": (0.0005, 0.001, False),
    "lag": (0.10, 0.20, True),
    "armature": (0.03, 0.06, True),
    "friction": (0.05, 0.10, True),
    "damping": (0.08, 0.15, True),
    "offset": (0.005, 0.010, False),
}
LEAST_TRUTH = {"lag": 0.003, "friction": 0.1, "damping": 0.1}  # a share of less says nothing
COVERED = 0.9
WALK_S = 20.0


@dataclass(frozen=True, slots=True)
class Result:
    errors: dict[str, list[float]]
    covered: dict[str, list[bool]]
    told: list[bool]  # of robots with an unknown term: whether it was said that the model is short
    named: list[bool]  # and by its name
    walking: dict[str, list[float]]
    did_not_walk: int

    def bench_result(self) -> BenchResult:
        return BenchResult("identification of robots never seen", self.checks(), self.raw())

    def checks(self) -> list[Check]:
        checks = []
        for name, (median, most, _) in TARGETS.items():
            if errors := self.errors.get(name):
                checks.append(Check.at_most(f"{name}, median error", _middle(errors), median))
                high = float(np.percentile(errors, 90))
                checks.append(Check.at_most(f"{name}, 90th percentile", high, most))
            if covered := self.covered.get(name):
                share = float(np.mean(covered))
                checks.append(Check.at_least(f"{name}, intervals that hold", share, COVERED))
        if self.told:
            share = float(np.mean(self.told))
            checks.append(Check.at_least("unknown terms: said to fall short", share, 1.0))
        if self.walking.get("strength"):
            most_off = float(np.max(self.walking["strength"]))
            checks.append(Check.at_most("from walking: strength, worst", most_off, 0.03))
            late = float(np.max(self.walking["delay"]))
            checks.append(Check.at_most("from walking: delay, worst", late, 0.001, "s"))
        return checks

    def raw(self) -> dict[str, Any]:
        return {
            "errors": self.errors,
            "covered": {name: float(np.mean(v)) for name, v in self.covered.items() if v},
            "unknown_named": self.named,
            "walking": self.walking,
            "did_not_walk": self.did_not_walk,
        }


def run(
    model: str, robots: int, unknown: int, walkers: int, minutes: float, progress: Progress
) -> BenchResult:
    robot = load_robot(model)
    result = Result({name: [] for name in TARGETS}, {name: [] for name in TARGETS}, [], [], {}, 0)
    total = max(robots + unknown + walkers, 1)
    for number in range(robots):
        progress(f"hidden robot {number + 1} of {robots}", number / total)
        drawn = hidden.draw(robot, 1000 + number)
        _score(result, drawn, _excited(robot, drawn, minutes))
    terms = list(hidden.UNKNOWN)
    for number in range(unknown):
        progress(f"robot with an unknown term {number + 1} of {unknown}", (robots + number) / total)
        drawn = hidden.draw(robot, 2000 + number, terms[number % len(terms)])
        words = residual_words(_excited(robot, drawn, minutes))
        result.told.append(bool(words))
        result.named.append(any(drawn.term in text for text in words.values()))
    walking: dict[str, list[float]] = {"strength": [], "delay": []}
    fell = 0
    for number in range(walkers):
        progress(f"walker {number + 1} of {walkers}", (robots + unknown + number) / total)
        drawn = hidden.draw_walker(robot, 3000 + number)
        try:
            found = _walked(robot, drawn)
        except Refusal:
            fell += 1
            continue
        off = np.abs(found.figures.strength / drawn.truth.strength - 1)
        walking["strength"].append(float(off.max()))
        walking["delay"].append(float(np.abs(found.figures.delay - drawn.truth.delay).max()))
    full = Result(result.errors, result.covered, result.told, result.named, walking, fell)
    return full.bench_result()


def _score(result: Result, drawn: hidden.Hidden, found: Found) -> None:
    told = findings(found)
    for name, (_, _, share) in TARGETS.items():
        truth, value = getattr(drawn.truth, name), getattr(found.figures, name)
        counts = truth >= LEAST_TRUTH.get(name, -np.inf)
        error = np.abs(value - truth) / (np.maximum(truth, 1e-9) if share else 1.0)
        result.errors[name] += error[counts].tolist()
        for finding, true in zip(told[KEYS[name]].values(), truth.tolist(), strict=True):
            if finding.low is not None and finding.high is not None:
                result.covered[name].append(finding.low <= true <= finding.high)


def _excited(robot: RobotSpec, drawn: hidden.Hidden, minutes: float) -> Found:
    twin = TwinRobot(robot, imperfections=drawn.twin, mount=drawn.mount, physics=drawn.physics)
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "excited"
        excite(twin, bag, minutes, GAINS, _silent)
        return _identified(robot, [bag])


def _walked(robot: RobotSpec, drawn: hidden.Hidden) -> Found:
    bundle = load_bundle(paths.share_directory() / "policies/go2_walk", robot)
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "walked"
        walk(TwinRobot(robot, imperfections=drawn.twin), bag, bundle, WALK_S)
        return _identified(robot, [bag])


def _identified(robot: RobotSpec, bags: Sequence[Path]) -> Found:
    recordings = [from_bag(Recorded(Bag(bag))) for bag in bags]
    return identify(robot, recordings, load_imperfections("default", robot.name), _silent)


def _middle(values: Sequence[float]) -> float:
    return float(np.median(values))


def _silent(_: str, __: float) -> None:
    """Nobody watches the inner stages."""
