"""How well identification finds unknown robots, and whether it reports a model that falls short."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bench import hidden
from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress, silent
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.lockstep import excite, walk
from sim2real_deploy.identify.pipeline import Identified, identify
from sim2real_deploy.identify.recording import from_bag
from sim2real_deploy.identify.verdicts import RULES, findings, residual_words
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.twin.files import IdentifiedFigure, load_imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import BASE, build_model
from sim2real_deploy.twin.robot import TwinRobot

# A motor that lags by 30 ms oscillates at a policy's kp 25 and kd 0.5, and excitation would stop.
GAINS = (20.0, 1.0)
# Required median and 90th percentile, and whether the error is a share of the truth.
TARGETS: dict[str, tuple[float, float, bool]] = {
    "strength": (0.01, 0.02, True),
    "delay": (0.0005, 0.001, False),
    "lag": (0.10, 0.20, True),
    "armature": (0.03, 0.06, True),
    "friction": (0.05, 0.10, True),
    "damping": (0.08, 0.15, True),
    "offset": (0.005, 0.010, False),
}
TRUNK_TARGETS = {"mass": (0.02, 0.04), "com": (0.005, 0.010)}  # of walkers; share of the trunk, m
LEAST_TRUTH = {"lag": 0.003, "friction": 0.1, "damping": 0.1}  # of less, no share is taken
COVERED = 0.9
WALK_S = 20.0


@dataclass(frozen=True, slots=True)
class Result:
    """Results of each robot, by kind and number."""

    hidden: list[dict[str, Any]]  # errors and covered, by figure
    unknown: list[dict[str, Any]]  # whether the term was reported, at which joints, and by its name
    walkers: list[dict[str, Any]]  # errors of motors and trunk, or that it fell

    def bench_result(self) -> BenchResult:
        raw = {"hidden": self.hidden, "unknown": self.unknown, "walkers": self.walkers}
        return BenchResult("identification of unknown robots", self.checks(), raw)

    def checks(self) -> list[Check]:
        checks = []
        for name, (median, most, _) in TARGETS.items():
            errors, covered = self._pooled("errors", name), self._pooled("covered", name)
            checks += _of_errors(name, errors, covered, median, most)
        if self.hidden:
            share = float(np.mean([bool(robot["errors"]) for robot in self.hidden]))
            checks.append(Check.at_least("hidden robots that could be excited", share, 1.0))
        if self.unknown:
            said, where = ([robot[key] for robot in self.unknown] for key in ("said", "where"))
            share = float(np.mean(said))
            checks.append(Check.at_least("unknown effects: reported as falling short", share, 1.0))
            share = float(np.mean(where))
            checks.append(Check.at_least("unknown effects: right joints named", share, 1.0))
        walked = [robot for robot in self.walkers if not robot["fell"]]
        if walked:
            worst = {name: max(robot[name] for robot in walked) for name in ("strength", "delay")}
            checks.append(Check.at_most("from walking: strength, worst", worst["strength"], 0.03))
            checks.append(Check.at_most("from walking: delay, worst", worst["delay"], 0.001, "s"))
            for name, (median, most) in TRUNK_TARGETS.items():
                errors = [float(x) for robot in walked for x in robot[name]]
                covered = [float(x) for robot in walked for x in robot[f"{name}_covered"]]
                checks += _of_errors(name, errors, covered, median, most)
        return checks

    def _pooled(self, kind: str, name: str) -> list[float]:
        return [float(x) for robot in self.hidden for x in robot[kind].get(name, ())]


def _of_errors(
    name: str, errors: list[float], covered: list[float], median: float, most: float
) -> list[Check]:
    checks = []
    if errors:
        middle, high = np.percentile(errors, (50, 90)).tolist()
        checks.append(Check.at_most(f"{name}, median error", middle, median))
        checks.append(Check.at_most(f"{name}, 90th percentile", high, most))
    if covered:
        share = float(np.mean(covered))
        checks.append(Check.at_least(f"{name}, intervals that hold", share, COVERED))
    return checks


def run(
    model: str,
    robots: int,
    unknown: int,
    walkers: int,
    minutes: float,
    done: Path | None,
    progress: Progress,
) -> BenchResult:
    """Robots whose results are in the file `done` are skipped; new results are added to it."""
    robot = load_robot(model)
    known = _read(done)
    kinds = (
        ("hidden", robots, partial(_one_hidden, robot, minutes)),
        ("unknown", unknown, partial(_one_unknown, robot, minutes)),
        ("walkers", walkers, partial(_one_walker, robot)),
    )
    total, count = max(robots + unknown + walkers, 1), 0
    found: dict[str, list[dict[str, Any]]] = {}
    for kind, number, identify_one in kinds:
        found[kind] = []
        for seed in range(number):
            progress(f"{kind}: robot {seed + 1} of {number}", count / total)
            key = f"{kind} {seed} {minutes if kind != 'walkers' else WALK_S}"
            if key not in known:
                known[key] = identify_one(seed)
                if done is not None:
                    done.write_text(json.dumps(known))
            found[kind].append(known[key])
            count += 1
    return Result(**found).bench_result()


def _read(done: Path | None) -> dict[str, dict[str, Any]]:
    if done is None or not done.is_file():
        return {}
    try:
        known = json.loads(done.read_text())
    except ValueError as error:
        raise Refusal(f"{done}: is no list of identified robots: {error}") from None
    return dict(known)


def _one_hidden(robot: RobotSpec, minutes: float, seed: int) -> dict[str, Any]:
    drawn = hidden.draw(robot, 1000 + seed)
    try:
        found = _excited(robot, drawn, minutes)
    except Refusal as refusal:
        return {"errors": {}, "covered": {}, "words": str(refusal)}
    told = findings(found)
    errors: dict[str, list[float]] = {}
    covered: dict[str, list[bool]] = {}
    for name, (_, _, share) in TARGETS.items():
        truth, value = getattr(drawn.truth, name), getattr(found.figures, name)
        counts = truth >= LEAST_TRUTH.get(name, -np.inf)
        error = np.abs(value - truth) / (np.maximum(truth, 1e-9) if share else 1.0)
        errors[name] = error[counts].tolist()
        covered[name] = [
            _covers(finding, true)
            for finding, true in zip(told[RULES[name].key].values(), truth.tolist(), strict=True)
            if finding.low is not None
        ]
    return {"errors": errors, "covered": covered}


def _one_unknown(robot: RobotSpec, minutes: float, seed: int) -> dict[str, Any]:
    terms = list(hidden.UNKNOWN)
    drawn = hidden.draw(robot, 2000 + seed, terms[seed % len(terms)])
    words = residual_words(_excited(robot, drawn, minutes))
    named = any(drawn.term in text for text in words.values())
    ending = hidden.SEEN_AT.get(drawn.term, "")
    where = bool(words) and all(joint.endswith(ending) for joint in words)
    return {"term": drawn.term, "said": bool(words), "named": named, "where": where}


def _one_walker(robot: RobotSpec, seed: int) -> dict[str, Any]:
    drawn = hidden.draw_walker(robot, 3000 + seed)
    try:
        found = _walked(robot, drawn)
    except Refusal as refusal:
        return {"fell": True, "words": str(refusal)}
    strength = float(np.abs(found.figures.strength / drawn.truth.strength - 1).max())
    delay = float(np.abs(found.figures.delay - drawn.truth.delay).max())
    return {"fell": False, "strength": strength, "delay": delay, **_trunk_errors(found, drawn)}


def _trunk_errors(
    found: Identified, drawn: hidden.HiddenRobot
) -> dict[str, list[float] | list[bool]]:
    """Errors of the mass (as a share of it) and of the centre of mass by axis (m), and whether the
    intervals hold. Axes reported as not excited do not count."""
    true, told = drawn.twin.trunk, findings(found)
    model = build_model(found.robot, Floor())
    weight = float(model.body(BASE).mass[0]) + true.mass
    mass, com = told["trunk.mass"]["trunk"], told["trunk.com"]
    axes = [
        (com[axis], value)
        for axis, value in zip("xyz", true.com, strict=True)
        if com[axis].verdict == "identified"
    ]
    return {
        "mass": [abs(_value(mass) - true.mass) / weight],
        "mass_covered": [_covers(mass, true.mass)],
        "com": [abs(_value(finding) - value) for finding, value in axes],
        "com_covered": [_covers(finding, value) for finding, value in axes],
    }


def _value(finding: IdentifiedFigure) -> float:
    return float("nan") if finding.value is None else finding.value


def _covers(finding: IdentifiedFigure, true: float) -> bool:
    low, high = finding.low, finding.high
    return low is not None and high is not None and low <= true <= high


def _excited(robot: RobotSpec, drawn: hidden.HiddenRobot, minutes: float) -> Identified:
    twin = TwinRobot(robot, imperfections=drawn.twin, mount=drawn.mount, physics=drawn.physics)
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "excited"
        excite(twin, bag, minutes, GAINS, silent)
        return _identified(robot, [bag])


def _walked(robot: RobotSpec, drawn: hidden.HiddenRobot) -> Identified:
    bundle = load_bundle("go2_walk", robot)
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "walked"
        walk(TwinRobot(robot, imperfections=drawn.twin), bag, bundle, WALK_S)
        return _identified(robot, [bag])


def _identified(robot: RobotSpec, bags: Sequence[Path]) -> Identified:
    recordings = [from_bag(Recorded.open(bag)) for bag in bags]
    return identify(robot, recordings, load_imperfections("default", robot.name), silent)
