"""What a walking policy must show in the imperfect twin: commands, pushes and worse conditions.

Every trial runs once for each seed; the bounds are what the policy is held to.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sim2real_deploy.checks import Check
from sim2real_deploy.gate.rollouts import Result, Trial, roll_out
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor

LINEAR_ERROR = 0.1  # m/s
TURNING_ERROR = 0.15  # rad/s
TILT = 6.0  # degrees
SURVIVAL = 0.95  # of the runs with pushes
TORQUE = 0.8  # of the limit, at AT_EASE
PUSH = 1.0  # m/s
AT_EASE = "forward 0.5"

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
    Trial("pushed while walking", (0.5, 0.0, 0.0), push_speed=PUSH),
    Trial("pushed while standing", (0.0, 0.0, 0.0), push_speed=PUSH),
)
HARDER = (
    Trial("friction 0.3", (0.5, 0.0, 0.0), floor=Floor(friction=0.3)),
    Trial("friction 1.2", (0.5, 0.0, 0.0), floor=Floor(friction=1.2)),
    Trial("5 kg on its back", (0.5, 0.0, 0.0), payload=5.0),
    Trial("30 ms later", (0.5, 0.0, 0.0), delay=0.03),
    Trial("motors at 80 %", (0.5, 0.0, 0.0), strength=0.8),
)
TRIALS = (*COMMANDS, *PUSHES, *HARDER)


@dataclass(frozen=True, slots=True)
class Row:
    """One trial over all its seeds."""

    trial: Trial
    falls: int
    runs: int
    velocity: tuple[float, ...]  # vx, vy, wz: mean
    error: tuple[float, ...]  # mean
    tilt: float  # degrees, the most
    torque: float  # share of the limit, the most
    touched: tuple[str, ...]

    @classmethod
    def of(cls, trial: Trial, results: list[Result]) -> "Row":
        return cls(
            trial,
            sum(result.fell for result in results),
            len(results),
            tuple(np.mean([result.velocity for result in results], 0).tolist()),
            tuple(np.mean([result.error for result in results], 0).tolist()),
            float(np.degrees(max(result.tilt for result in results))),
            max(result.torque for result in results),
            tuple(sorted({name for result in results for name in result.touched})),
        )


def evaluate(
    folder: Path, robot: str, seeds: int, workers: int, trials: Iterable[Trial] = TRIALS
) -> Iterator[Row]:
    """Rows as they are finished, in order."""
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for trial in trials:
            run: Callable[[int], Result] = partial(_run, folder, robot, trial)
            yield Row.of(trial, pool.map(run, range(seeds), chunksize=1))


def _run(folder: Path, robot: str, trial: Trial, seed: int) -> Result:
    bundle = load_bundle(folder, load_robot(robot))
    return roll_out(bundle, trial, load_imperfections(robot=robot), seed)


def judge(rows: Iterable[Row]) -> list[Check]:
    checks = []
    for row in rows:
        name, pushed = row.trial.name, row.trial.push_speed > 0
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
            ]
        if name == AT_EASE:
            checks.append(Check.at_most(f"{name}: peak torque", row.torque, TORQUE, "of limit"))
    return checks


def markdown(rows: Iterable[Row]) -> str:
    lines = [
        "| trial | falls | vx, vy, wz reached | error | tilt | peak torque | other contacts |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        reached = ", ".join(f"{value:.2f}" for value in row.velocity)
        error = ", ".join(f"{value:.2f}" for value in row.error)
        lines.append(
            f"| {row.trial.name} | {row.falls}/{row.runs} | {reached} | {error} "
            f"| {row.tilt:.1f} | {row.torque:.0%} | {', '.join(row.touched) or 'none'} |"
        )
    return "\n".join(lines) + "\n"
