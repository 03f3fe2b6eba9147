"""Figures of a walk that mean something to a person: speed, gait, effort, calm."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sim2real_deploy.analysis.gap.walk import SETTLE_S, Array, Walk
from sim2real_deploy.robots.odometry import legs_of

GAIT_HZ = (1.0, 6.0)  # where the frequency of a gait is looked for: below it is drift
FINER = 8  # times finer than the length of a walk alone would resolve frequencies
STANCE_N = 25.0  # load that counts as standing on a foot
LEAST_SPEED = 0.05  # m/s, for figures by the metre
AXES = ("forward", "sideways", "turning")


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    unit: str
    robot: float
    twin: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Means over the time that a command has held for a while."""

    command: tuple[float, float, float]
    robot: tuple[float, float, float]
    twin: tuple[float, float, float]

    @property
    def apart(self) -> float:
        """m/s between the two, in the plane."""
        return float(np.hypot(self.robot[0] - self.twin[0], self.robot[1] - self.twin[1]))

    def along(self, velocity: tuple[float, float, float]) -> float:
        """m/s of a velocity in the direction of the command; 0 where it commands none."""
        length = float(np.hypot(*self.command[:2]))
        return float(np.dot(velocity[:2], self.command[:2])) / length if length else 0.0


def compare_figures(robot: Walk, twins: Sequence[Walk]) -> list[Figure]:
    """Of the robot's walk, and the mean of the twin's: walking has chance in it."""
    one, others = _figures(robot), [_figures(twin) for twin in twins]
    return [
        Figure(name, unit, value, float(np.mean([other[name, unit] for other in others])))
        for (name, unit), value in one.items()
        if all((name, unit) in other for other in others)
    ]


def compare_speeds(robot: Walk, twins: Sequence[Walk]) -> list[Speed]:
    """One for each stretch of constant command that all walked; the mean of the twin's walks."""
    length = min(len(walk) for walk in (robot, *twins))
    command = robot["command"][:length]
    changes = np.abs(np.diff(command, axis=0)).max(axis=1) > 1e-3
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), length]
    settle = round(SETTLE_S * robot.rate_hz)
    found = []
    for start, end in pairwise(edges):
        if end - start < settle + robot.rate_hz:
            continue
        rows = slice(start + settle, end)
        vx, vy, wz = command[start].tolist()
        x, y, turning = np.mean([_velocity(twin, rows) for twin in twins], axis=0).tolist()
        found.append(Speed((vx, vy, wz), _velocity(robot, rows), (x, y, turning)))
    return found


def gait_frequency(walk: Walk) -> float:
    """Hz: where the joints have most of their movement."""
    q = walk["q"][walk.settled]
    window, points = np.hanning(len(q))[:, None], FINER * len(q)
    spectrum = np.fft.rfft((q - q.mean(axis=0)) * window, points, axis=0)
    power = (np.abs(spectrum) ** 2).sum(axis=1)
    hz = np.fft.rfftfreq(points, 1 / walk.rate_hz)
    looked = (hz >= GAIT_HZ[0]) & (hz <= GAIT_HZ[1])
    return float(hz[looked][np.argmax(power[looked])]) if looked.any() else 0.0


def _velocity(walk: Walk, rows: slice) -> tuple[float, float, float]:
    vx, vy, _ = walk["velocity"][rows].mean(axis=0).tolist()
    return vx, vy, float(walk["gyroscope"][rows, 2].mean())


def _figures(walk: Walk) -> dict[tuple[str, str], float]:
    rows = walk.settled
    found = {("gait frequency", "Hz"): gait_frequency(walk)}
    found["foot lift", "m"], found["feet apart, least", "m"] = _feet(walk)
    tilt = np.degrees(np.arccos(np.clip(-walk["gravity"][rows, 2], -1.0, 1.0)))
    found["tilt, mean", "deg"] = float(tilt.mean())
    for axis, name in enumerate(("roll", "pitch", "yaw")):
        found[f"{name} rate, rms", "rad/s"] = _rms(walk["gyroscope"][rows, axis])
    found["tracking error, rms", "rad"] = _rms((walk["target"] - walk["q"])[rows])
    if walk.torque_known:
        torque, dq = walk["torque"][rows], walk["dq"][rows]
        power = float(np.abs(torque * dq).sum(axis=1).mean())
        speed = float(np.hypot(*walk["velocity"][rows, :2].T).mean())
        found["feet on the ground", "share"] = float((walk["load"][rows] > STANCE_N).mean())
        found["torque, rms", "Nm"] = _rms(torque)
        found["torque, peak", "Nm"] = float(np.abs(torque).max())
        found["mechanical power", "W"] = power
        if speed > LEAST_SPEED:
            found["energy by the metre", "J/m"] = power / speed
    warm = walk["temperature"]
    if np.ptp(warm) > 0:
        found["warmer by", "°C"] = float((warm[-1] - warm[0]).max())
    found["limits acted", "share of time"] = walk.limited
    return found


def _feet(walk: Walk) -> tuple[float, float]:
    """How far feet move up and down under the trunk, and how near two of them come (centres)."""
    legs = legs_of(walk.robot)
    q = walk["q"][walk.settled][::5].tolist()
    if not legs:
        return 0.0, 0.0
    feet = np.array([[leg.pose(row).foot for leg in legs] for row in q])
    high, low = np.percentile(feet[:, :, 2], (95, 5), axis=0)
    first, second = np.triu_indices(len(legs), 1)
    apart = np.linalg.norm(feet[:, first] - feet[:, second], axis=2)
    return float((high - low).mean()), float(apart.min())


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
