"""What a walking policy must show in the imperfect twin: commands, pushes and worse conditions.

Episodes of the gate with fixed conditions and tighter bounds. Each trial runs once for each seed;
the bounds are those that the shipped policy must keep.
"""

import multiprocessing
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.gait_pictures import gait_pictures
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.gate.engines import FIRST
from sim2real_deploy.gate.episodes import watch_episode
from sim2real_deploy.gate.scenarios import SETTLE_S, Command, Pushes, Scenario
from sim2real_deploy.policy.bundle import Bundle, load_own_bundle
from sim2real_deploy.policy.contract import bundle_folder
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor

LINEAR_ERROR = 0.1  # m/s
TURNING_ERROR = 0.15  # rad/s
TILT = 6.0  # degrees
SURVIVAL = 0.95  # of the runs with pushes
TORQUE = 0.8  # of the limit, at AT_EASE
CLEARANCE = 0.04  # m, mean of swinging feet, at AT_EASE
CUT = 0.05  # of the time, at most, the range limit may cut a target
AT_EASE = "forward 0.5"
KICK = Pushes(force=300.0, direction="any", duration=0.05, every=3.0)  # 1 m/s of a Go2


@dataclass(frozen=True, slots=True)
class Trial:
    """One condition."""

    name: str
    command: tuple[float, float, float]
    seconds: float = 20.0
    conditions: dict[str, Any] = field(default_factory=dict)  # of the gate's Scenario
    delay: float = 0.0  # s, added to the preset's on each command
    strength: float = 1.0  # of the motors, times the preset's

    def scenario(self, robot: str) -> Scenario:
        preset = load_imperfections(robot=robot)
        return Scenario(
            name="trial",
            why=self.name,
            if_failed="",
            needed_from="",
            commands=(Command(velocity=self.command, seconds=self.seconds),),
            spread=0.0,
            imperfections={
                "command_bus": {"delay": preset.command_bus.delay + self.delay},
                "motors": {"strength": preset.motors.scaled(self.strength, 1.0).strength},
            },
            **self.conditions,
        )


COMMANDS = (
    Trial("stand", (0.0, 0.0, 0.0)),
    Trial(AT_EASE, (0.5, 0.0, 0.0)),
    Trial("forward 1.0", (1.0, 0.0, 0.0)),
    Trial("backward 0.5", (-0.5, 0.0, 0.0)),
    Trial("left 0.3", (0.0, 0.3, 0.0)),
    Trial("right 0.3", (0.0, -0.3, 0.0)),
    Trial("turn left 1.0", (0.0, 0.0, 1.0)),
    Trial("turn right 1.0", (0.0, 0.0, -1.0)),
    Trial("forward, left, turning left", (0.5, 0.2, 0.5)),
    Trial("backward, right, turning left", (-0.3, -0.2, 0.5)),
)
PUSHES = (
    Trial("pushed while walking", (0.5, 0.0, 0.0), conditions={"pushes": KICK}),
    Trial("pushed while standing", (0.0, 0.0, 0.0), conditions={"pushes": KICK}),
)
HARDER = (
    Trial("friction 0.3", (0.5, 0.0, 0.0), conditions={"floor": Floor(friction=0.3)}),
    Trial("friction 1.2", (0.5, 0.0, 0.0), conditions={"floor": Floor(friction=1.2)}),
    Trial("5 kg on its back", (0.5, 0.0, 0.0), conditions={"payload": 5.0}),
    Trial("30 ms later", (0.5, 0.0, 0.0), delay=0.03),
    Trial("motors at 80 %", (0.5, 0.0, 0.0), strength=0.8),
)
TRIALS = (*COMMANDS, *PUSHES, *HARDER)


@dataclass(frozen=True, slots=True)
class WalkRun:
    """One trial with one seed."""

    survived: bool
    velocity: tuple[float, float, float]  # vx, vy, wz: mean, in the robot's heading
    error: tuple[float, float, float]  # mean deviation of one-second averages from the command
    tilt: float  # rad, the most
    torque: float  # the most, as a share of the joint's limit
    touched: tuple[str, ...]  # what touched anything besides the feet
    clearance: float  # m, mean height of swinging feet
    cut: float  # share of the time in which the range limit acts
    cost: float | None  # of transport; None where it hardly went anywhere


def roll_out(bundle: Bundle, trial: Trial, seed: int) -> WalkRun:
    episode, record = watch_episode(bundle, FIRST, trial.scenario(bundle.spec.name), seed)
    figures = episode.figures
    if figures is None:
        return WalkRun(False, (0.0, 0.0, 0.0), trial.command, 0.0, 0.0, (), 0.0, 0.0, None)
    judged = record.truths[round(SETTLE_S * record.rate_hz) :] or record.truths
    return WalkRun(
        survived=episode.ended_s is None,
        velocity=figures.velocity,
        error=figures.error,
        tilt=max(tilt(truth.quaternion) for truth in judged),
        torque=figures.torque,
        touched=tuple(sorted({name for truth in judged for name in truth.contacts})),
        clearance=figures.clearance,
        cut=figures.limits.get("range", 0.0),
        cost=figures.cost_of_transport,
    )


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial over all its seeds: means, and the worst of what must not happen."""

    trial: Trial
    falls: int  # or stops by safety
    runs: int
    velocity: tuple[float, ...]
    error: tuple[float, ...]
    tilt: float  # degrees, the most
    torque: float  # the most
    touched: tuple[str, ...]
    clearance: float
    cut: float
    cost: float | None

    @classmethod
    def of(cls, trial: Trial, runs: list[WalkRun]) -> "TrialRow":
        costs = [run.cost for run in runs if run.cost is not None]
        return cls(
            trial,
            sum(not run.survived for run in runs),
            len(runs),
            tuple(np.mean([run.velocity for run in runs], 0).tolist()),
            tuple(np.mean([run.error for run in runs], 0).tolist()),
            float(np.degrees(max(run.tilt for run in runs))),
            max(run.torque for run in runs),
            tuple(sorted({name for run in runs for name in run.touched})),
            float(np.mean([run.clearance for run in runs])),
            float(np.mean([run.cut for run in runs])),
            float(np.mean(costs)) if costs else None,
        )


def run(
    policy: str,
    seeds: int,
    workers: int,
    table: Path | None,
    pictures: Path | None,
    progress: Progress,
) -> BenchResult:
    folder = bundle_folder(policy)
    if pictures:  # first, so that a computer that cannot draw refuses before minutes of walking
        pictures.mkdir(parents=True, exist_ok=True)
        gait_pictures(
            load_own_bundle(folder), pictures / "gait_strip.png", pictures / "gait_feet.png"
        )
    rows: list[TrialRow] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for trial in TRIALS:
            progress(trial.name, len(rows) / len(TRIALS))
            jobs = [(folder, trial, seed) for seed in range(seeds)]
            rows.append(TrialRow.of(trial, pool.starmap(_run, jobs, chunksize=1)))
    if table:
        table.write_text(markdown(rows), encoding="utf-8")
    named = [{**asdict(row), "trial": row.trial.name} for row in rows]
    return BenchResult(f"bench walking: {folder.name}, {seeds} seeds", judge(rows), {"rows": named})


def _run(folder: Path, trial: Trial, seed: int) -> WalkRun:
    return roll_out(load_own_bundle(folder), trial, seed)


def judge(rows: Iterable[TrialRow]) -> list[Check]:
    checks = []
    for row in rows:
        name, pushed = row.trial.name, row.trial in PUSHES
        survived = 1 - row.falls / row.runs
        bound = SURVIVAL if pushed else 1.0
        checks.append(Check.at_least(f"{name}: survived", survived, bound))
        if row.trial in COMMANDS:
            vx, vy, wz = row.error
            checks += [
                Check.at_most(f"{name}: error forward", vx, LINEAR_ERROR, "m/s"),
                Check.at_most(f"{name}: error sideways", vy, LINEAR_ERROR, "m/s"),
                Check.at_most(f"{name}: error turning", wz, TURNING_ERROR, "rad/s"),
                Check.at_most(f"{name}: tilt", row.tilt, TILT, "degrees"),
                Check.at_most(f"{name}: other contacts", len(row.touched), 0),
                Check.at_most(f"{name}: range limit acts", row.cut, CUT, "of the time"),
            ]
        if name == AT_EASE:
            checks += [
                Check.at_most(f"{name}: peak torque", row.torque, TORQUE, "of limit"),
                Check.at_least(f"{name}: foot clearance", row.clearance, CLEARANCE, "m"),
            ]
    return checks


def markdown(rows: Iterable[TrialRow]) -> str:
    lines = [
        "| trial | falls | vx, vy, wz reached | error | tilt | peak torque | clearance, cm "
        "| cost of transport | range limit acts | other contacts |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        reached = ", ".join(f"{value:.2f}" for value in row.velocity)
        error = ", ".join(f"{value:.2f}" for value in row.error)
        lines.append(
            f"| {row.trial.name} | {row.falls}/{row.runs} | {reached} | {error} "
            f"| {row.tilt:.1f} | {row.torque:.0%} | {100 * row.clearance:.1f} "
            f"| {'-' if row.cost is None else f'{row.cost:.2f}'} | {row.cut:.1%} "
            f"| {', '.join(row.touched) or 'none'} |"
        )
    return "\n".join(lines) + "\n"
