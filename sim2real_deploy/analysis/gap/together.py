"""Several walks as one: trials of one command are averaged, then commands are compared.

Walking has chance in it, so single trials differ. What the twin gets wrong on average is what
matters to somebody who trains in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2real_deploy.analysis.gap.figures import Speed
from sim2real_deploy.analysis.gap.gap import Gap

UNLIKE = 0.25  # share by which a figure must differ to be named
SLOWER = 0.02  # m/s by which all commands of a kind must differ, in the mean, to be named


@dataclass(frozen=True, slots=True)
class CommandError:
    """One command: mean speeds in its direction, mean gait frequencies."""

    command: tuple[float, float, float]
    walks: int
    robot: float  # m/s
    twin: float
    gait: float  # Hz, twin less robot

    @property
    def error(self) -> float:
        return self.twin - self.robot

    @property
    def kind(self) -> str:
        vx, vy, _ = self.command
        if vx and vy:
            return "diagonal"
        return "sideways" if vy else "forward and back"


@dataclass(frozen=True, slots=True)
class Unlike:
    """A figure that differs in the mean over all walks."""

    name: str
    unit: str
    robot: float
    twin: float

    @property
    def words(self) -> str:
        return (
            f"{self.name} {self.robot:.3g} on the robot, {self.twin:.3g} in the twin ({self.unit})"
        )


@dataclass(frozen=True, slots=True)
class Together:
    commands: tuple[CommandError, ...]
    unlike: tuple[Unlike, ...]  # the furthest first
    falls: int  # of the twin, in walks in which the robot did not

    def speed_error(self, kind: str | None = None) -> float:
        """Mean absolute error in m/s; NaN where no command is of this kind."""
        errors = [abs(c.error) for c in self.commands if kind in (None, c.kind)]
        return float(np.mean(errors)) if errors else float("nan")

    @property
    def gait_error(self) -> float:
        return float(np.mean([abs(c.gait) for c in self.commands]))

    def words(self) -> str:
        walks = sum(c.walks for c in self.commands)
        kinds = sorted({c.kind for c in self.commands})
        parts = ", ".join(f"{kind} {self.speed_error(kind):.3f}" for kind in kinds)
        falls = f"; the twin fell in {self.falls}" if self.falls else ""
        return (
            f"{walks} walks, {len(self.commands)} commands: the twin's speed is off by "
            f"{self.speed_error():.3f} m/s on average ({parts}), its gait by "
            f"{self.gait_error:.2f} Hz{falls}"
        )

    def raw(self) -> dict[str, Any]:
        """For --json."""
        return {
            "speed_error_m_s": self.speed_error(),
            "speed_error_by_kind_m_s": {
                kind: self.speed_error(kind) for kind in sorted({c.kind for c in self.commands})
            },
            "gait_error_hz": self.gait_error,
            "twin_falls": self.falls,
            "still_unlike": [u.words for u in self.unlike],
            "commands": [
                {"command": c.command, "walks": c.walks, "robot_m_s": c.robot, "twin_m_s": c.twin,
                 "gait_hz_apart": c.gait}
                for c in self.commands
            ],
        }  # fmt: skip


def put_together(gaps: Sequence[Gap]) -> Together | None:
    """None where no walk held a moving command long enough."""
    speeds: dict[tuple[float, float, float], list[Speed]] = {}
    gaits: dict[tuple[float, float, float], list[float]] = {}
    for gap in gaps:
        gait = next(f.twin - f.robot for f in gap.figures if f.name == "gait frequency")
        for speed in gap.speeds:
            if np.hypot(*speed.command[:2]) > 0:
                vx, vy, wz = (round(float(v), 3) for v in speed.command)
                speeds.setdefault((vx, vy, wz), []).append(speed)
                gaits.setdefault((vx, vy, wz), []).append(gait)
    if not speeds:
        return None
    commands = [
        CommandError(
            command,
            len(trials),
            float(np.mean([s.along(s.robot) for s in trials])),
            float(np.mean([s.along(s.twin) for s in trials])),
            float(np.mean(gaits[command])),
        )
        for command, trials in sorted(speeds.items())
    ]
    falls = sum(gap.twin_fell_s is not None for gap in gaps)
    return Together(tuple(commands), (*_unlike_speeds(commands), *_unlike(gaps)), falls)


def _unlike_speeds(commands: Sequence[CommandError]) -> list[Unlike]:
    """Where the twin is slower or faster in one kind of walking, not by chance here and there."""
    found = []
    for kind in sorted({c.kind for c in commands}):
        robot, twin = np.mean([(c.robot, c.twin) for c in commands if c.kind == kind], axis=0)
        if abs(robot - twin) > SLOWER:
            found.append(Unlike(f"speed {kind}", "m/s", float(robot), float(twin)))
    return found


def _unlike(gaps: Sequence[Gap]) -> list[Unlike]:
    values: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for gap in gaps:
        for figure in gap.figures:
            values.setdefault((figure.name, figure.unit), []).append((figure.robot, figure.twin))
    found = []
    for (name, unit), pairs in values.items():
        robot, twin = np.mean(pairs, axis=0).tolist()
        if abs(robot - twin) > UNLIKE * max(abs(robot), abs(twin)):
            found.append(Unlike(name, unit, robot, twin))
    return sorted(found, key=lambda u: -abs(u.robot - u.twin) / max(abs(u.robot), abs(u.twin)))
