"""Adaptation where it is not needed: the gate's scenarios with and without it, and a long walk.

Scenarios that do weaken or load the robot are among them; there it may do better, never worse.
"""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.bench.adaptation import COMMANDS, OFF, ON
from sim2real_deploy.bench.conduct import BenchResult, Progress
from sim2real_deploy.bench.hidden_changes import hidden_robot
from sim2real_deploy.checks import Check
from sim2real_deploy.gate.drive import Drive, heading_velocity
from sim2real_deploy.gate.episodes import Episode, watch_episode
from sim2real_deploy.gate.scenarios import Scenario, load_scenarios, needed_for
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import load_robot

ENGINE = "mujoco"
LEAST_NOISE = 0.01  # m/s, rad/s
DRIFT = 0.02  # m/s, rad/s: of the velocity, from the first minutes to the last
SAMPLE_EVERY = 5  # ticks


@dataclass(frozen=True, slots=True)
class IdleRow:
    """One scenario without and with adaptation; errors are lengths of (vx, vy, wz)."""

    name: str
    successes: tuple[int, int]
    error: tuple[float, float]
    noise: float  # two standard errors of the mean without

    @property
    def worse(self) -> float:
        return self.error[1] - self.error[0]


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
        checks.append(Check.at_least(f"{row.name}: successes", row.successes[1], row.successes[0]))
    raw: dict[str, object] = {
        "trials": trials,
        "scenarios": [
            {"name": r.name, "successes": r.successes, "error": r.error, "noise": r.noise}
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
    title = f"adaptation where it is not needed: {trials} trials of each scenario"
    return BenchResult(title, checks, raw, columns, shown)


def _compare(bundle: Bundle, scenario: Scenario, trials: int) -> IdleRow:
    by_mode = [
        [watch_episode(bundle, ENGINE, scenario, trial, mode)[0] for trial in range(trials)]
        for mode in (OFF, ON)
    ]
    errors = [np.array([_error(episode) for episode in episodes]) for episodes in by_mode]
    without, with_it = (sum(episode.success for episode in episodes) for episodes in by_mode)
    noise = 2.0 * float(errors[0].std(ddof=min(1, trials - 1))) / float(np.sqrt(trials))
    means = float(np.nanmean(errors[0])), float(np.nanmean(errors[1]))
    return IdleRow(scenario.name, (without, with_it), means, noise)


def _error(episode: Episode) -> float:
    return np.nan if episode.figures is None else float(np.linalg.norm(episode.figures.error))


def drift_of(bundle: Bundle, minutes: float, seed: int = 0) -> tuple[float, float, float]:
    """Of a robot that nothing is wrong with: how far its velocity moves from the first fifth of
    the walk to the last, and the largest corrections."""
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
