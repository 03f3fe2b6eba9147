"""Adaptation on a healthy robot: the gate's scenarios with and without it, and a long walk.

Each trial runs twice on the same robot, so the errors are compared in pairs; successes by Fisher's
exact test. Some scenarios do weaken or load the robot; there adaptation may help but must not harm.
"""

import math
from dataclasses import dataclass

import numpy as np

from sim2real_deploy.bench.adaptation import COMMANDS, OFF, ON
from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.hidden_changes import hidden_robot
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.gate.drive import Drive, heading_velocity
from sim2real_deploy.gate.episodes import Episode, watch_episode
from sim2real_deploy.gate.scenarios import Scenario, load_scenarios, needed_for
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import load_robot

ENGINE = "mujoco"
LEAST_NOISE = 0.01  # m/s, rad/s: a smaller increase of the mean error is not counted
CHANCE = 0.05  # significance level for fewer successes
DRIFT = 0.02  # m/s, rad/s: of the velocity, from the first minutes to the last
SAMPLE_EVERY = 5  # ticks


@dataclass(frozen=True, slots=True)
class IdleRow:
    """One scenario without and with adaptation: the same trials. Errors are lengths of (vx, vy,
    wz)."""

    name: str
    trials: int
    successes: tuple[int, int]
    error: tuple[float, float]
    noise: float  # two standard errors of the mean of the trials' differences

    @property
    def worse(self) -> float:
        return self.error[1] - self.error[0]

    @property
    def by_chance(self) -> float:
        """Probability of so few successes with adaptation if it made no difference (Fisher)."""
        return fewer_by_chance(*self.successes, self.trials)


def fewer_by_chance(without: int, with_it: int, trials: int) -> float:
    """Fisher's exact test, one-sided, for two samples of the same size."""
    both = without + with_it
    least = max(0, both - trials)
    ways = [math.comb(trials, k) * math.comb(trials, both - k) for k in range(least, with_it + 1)]
    return sum(ways) / math.comb(2 * trials, both)


def run(
    robot: str, policy: str, stage: str, trials: int, minutes: float, progress: Progress
) -> BenchResult:
    bundle = load_bundle(policy, load_robot(robot))
    scenarios = needed_for(stage, load_scenarios()) if trials else []
    rows = []
    for number, scenario in enumerate(scenarios):
        progress(scenario.name, number / (len(scenarios) + 1))
        rows.append(_compare(bundle, scenario, trials))
    checks = []
    for row in rows:
        name, noise = f"{row.name}: error grows by", max(row.noise, LEAST_NOISE)
        checks.append(Check.at_most(name, row.worse, noise))
        checks.append(Check.at_least(f"{row.name}: fewer by chance", row.by_chance, CHANCE))
    raw: dict[str, object] = {
        "trials": trials,
        "scenarios": [
            {
                "name": r.name,
                "successes": r.successes,
                "by_chance": r.by_chance,
                "error": r.error,
                "noise": r.noise,
            }
            for r in rows
        ],
    }
    if minutes:
        progress(f"{minutes:g} minutes", len(scenarios) / (len(scenarios) + 1))
        drift, most_gain, most_torque = drift_of(bundle, minutes)
        checks.append(Check.at_most(f"{minutes:g} minutes: drift", drift, DRIFT))
        raw["long_walk"] = {
            "minutes": minutes,
            "drift": drift,
            "gain_off_one": most_gain,
            "torque_added_nm": most_torque,
        }
    columns = ("scenario", "successes without, with", "error without", "with", "noise")
    shown = [(r.name, f"{r.successes[0]}, {r.successes[1]}", *r.error, r.noise) for r in rows]
    title = f"adaptation on a healthy robot: {trials} trials of each scenario"
    return BenchResult(title, checks, raw, columns, shown)


def _compare(bundle: Bundle, scenario: Scenario, trials: int) -> IdleRow:
    by_mode = [
        [watch_episode(bundle, ENGINE, scenario, trial, mode)[0] for trial in range(trials)]
        for mode in (OFF, ON)
    ]
    return row_of(scenario.name, *by_mode)


def row_of(name: str, without: list[Episode], with_it: list[Episode]) -> IdleRow:
    """Compares the trials that were completed both without and with adaptation."""
    pairs = np.array([[_error(a), _error(b)] for a, b in zip(without, with_it, strict=True)])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    means, noise = (np.nan, np.nan), np.nan
    if len(pairs):
        means = float(pairs[:, 0].mean()), float(pairs[:, 1].mean())
        grown = pairs[:, 1] - pairs[:, 0]
        noise = 2.0 * float(grown.std(ddof=min(1, len(pairs) - 1)) / np.sqrt(len(pairs)))
    successes = sum(e.success for e in without), sum(e.success for e in with_it)
    return IdleRow(name, len(without), successes, means, noise)


def _error(episode: Episode) -> float:
    return np.nan if episode.figures is None else float(np.linalg.norm(episode.figures.error))


def drift_of(bundle: Bundle, minutes: float, seed: int = 0) -> tuple[float, float, float]:
    """On a healthy robot: how far the velocity drifts from the first fifth of the walk to the last,
    and the largest gain and torque corrections."""
    robot, rate = hidden_robot(bundle.spec, seed), bundle.spec.wire.rate_hz
    drive = Drive(bundle, robot, supervised=True, adaptation=ON)
    drive.stand_and_walk()
    adaptation = drive.controller.adaptation
    assert adaptation is not None
    velocities, gain, torque = [], 0.0, 0.0
    for tick in range(round(minutes * 60 * rate)):
        drive.walk_at(COMMANDS[0])
        drive.tick()
        if tick % SAMPLE_EVERY == 0:
            velocities.append(heading_velocity(robot.base_truth))
            gain = max(gain, float(np.abs(adaptation.gain - 1.0).max()))
            torque = max(torque, float(np.abs(adaptation.torque).max()))
    part = len(velocities) // 5
    settled = np.array(velocities[round(5 * rate / SAMPLE_EVERY) :])
    return float(np.linalg.norm(settled[-part:].mean(0) - settled[:part].mean(0))), gain, torque
