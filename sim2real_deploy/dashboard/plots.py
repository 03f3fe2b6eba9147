"""Live plots of the last 30 seconds."""

import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import viser

from sim2real_deploy.dashboard.snapshot import Snapshot
from sim2real_deploy.robots import RobotSpec

SHOWN_S = 30.0
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
STATE_TO_COMMAND = "state to command p50/p99/max"  # as the control node words it


@dataclass(slots=True)
class Plot:
    """One chart: a row of values per sample, NaN where there is none."""

    chart: viser.GuiUplotHandle
    rows: deque[tuple[float, ...]] = field(default_factory=deque)

    def add(self, now: float, values: tuple[float, ...]) -> None:
        self.rows.append((now, *values))
        while now - self.rows[0][0] > SHOWN_S:
            self.rows.popleft()
        columns = np.array(self.rows).T
        self.chart.data = (columns[0] - now, *columns[1:])


class Plots:
    def __init__(self, gui: viser.GuiApi, robot: RobotSpec) -> None:
        self._robot = robot
        legs = tuple(robot.legs)
        self._velocity = _plot(
            gui, "velocity (m/s, rad/s)", ("vx asked", "vx", "vy asked", "vy", "wz asked", "wz")
        )
        self._torque = _plot(gui, "highest torque, % of limit", legs)
        self._heat = _plot(gui, "hottest motor (°C)", legs)
        self._latency = _plot(gui, "state to command (ms)", ("p50", "p99"))

    def add(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        pairs = zip(snapshot.asked, snapshot.measured, strict=True)
        self._velocity.add(now, tuple(value for pair in pairs for value in pair))
        if snapshot.effort is not None:
            share = abs(snapshot.effort) / self._robot.torque_limit
            self._torque.add(now, self._per_leg(100 * share))
        if snapshot.temperature is not None:
            self._heat.add(now, self._per_leg(snapshot.temperature))
        self._latency.add(now, _latency_ms(snapshot.statistics.get(STATE_TO_COMMAND, "")))

    def _per_leg(self, values: np.ndarray) -> tuple[float, ...]:
        index = self._robot.joint_names.index
        return tuple(
            float(max(values[index(joint)] for joint in leg.joints))
            for leg in self._robot.legs.values()
        )


def _latency_ms(words: str) -> tuple[float, float]:
    """ "210 / 830 / 1900 us", as the control node reports it."""
    try:
        p50, p99, _ = (float(part) for part in words.removesuffix(" us").split(" / "))
    except ValueError:
        return float("nan"), float("nan")
    return p50 / 1e3, p99 / 1e3


def _plot(gui: viser.GuiApi, title: str, names: tuple[str, ...]) -> Plot:
    series = [viser.uplot.Series(label="s")]
    series += [
        viser.uplot.Series(label=name, stroke=COLOURS[i % len(COLOURS)], width=1.5)
        for i, name in enumerate(names)
    ]
    empty = tuple(np.array([0.0]) for _ in series)
    scales = {"x": viser.uplot.Scale(time=False, range=(-SHOWN_S, 0.0))}
    chart = gui.add_uplot(empty, tuple(series), title=title, scales=scales, height=190)
    return Plot(chart)
