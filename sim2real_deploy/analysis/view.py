"""A run on one time axis: what the sections of a report read."""

from datetime import datetime, timezone
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.plots import Times
from sim2real_deploy.bags.recorded import Recorded, Series, labelled
from sim2real_deploy.errors import Refusal
from sim2real_deploy.topics import (
    ADAPTATION,
    ESTIMATES,
    LOW_CMD,
    LOW_STATE,
    MODE,
    OBSERVATION,
    ODOMETRY,
    SAFETY,
    TICKS,
    TRUTH,
)

TOPICS = (
    *(LOW_STATE, LOW_CMD, TICKS, MODE, SAFETY, OBSERVATION, ODOMETRY, TRUTH),
    *(ADAPTATION, ESTIMATES),
)


class View:
    def __init__(self, recorded: Recorded, series: dict[str, Series]) -> None:
        self.recorded = recorded
        self.bag = recorded.bag
        self.robot = recorded.robot
        self.series = series
        if LOW_STATE not in series:
            self.bag.require(LOW_STATE)
            raise Refusal(f"{self.bag.path}: not one state of the robot was recorded")
        self.states = series[LOW_STATE]
        self.start_ns = int(self.states.log_ns[0])
        self.duration_s = float(self.states.log_ns[-1] - self.start_ns) / 1e9

    def seconds(self, series: Series) -> Times:
        return np.asarray((series.log_ns - self.start_ns) / 1e9)

    @cached_property
    def state_s(self) -> Times:
        return self.seconds(self.states)

    @cached_property
    def commands(self) -> Series | None:
        """The command in force at each state: the last one received before the next state."""
        commands = self.series.get(LOW_CMD)
        if commands is None:
            return None
        following = np.append(self.states.log_ns[1:], np.iinfo(np.int64).max)
        index = np.searchsorted(commands.log_ns, following) - 1
        columns = {}
        for name, values in commands.columns.items():
            taken = values[np.maximum(index, 0)].astype(np.float32)
            taken[index < 0] = np.nan
            columns[name] = taken
        return Series(self.states.log_ns, self.states.publish_ns, columns)

    @cached_property
    def ticks(self) -> dict[str, npt.NDArray[Any]]:
        """The rows of control/ticks as columns, with `seconds` on the run's axis; {} without."""
        if TICKS not in self.series:
            return {}
        names, rows = labelled(self.series[TICKS])
        columns: dict[str, npt.NDArray[Any]] = {n: rows[:, i] for i, n in enumerate(names)}
        offset_ns = int(self.bag.information.get("epoch_minus_monotonic_ns", "0"))
        now_ns = columns["now_ns"] + columns.get("stood_still_ns", 0.0)
        columns["seconds"] = (now_ns + float(offset_ns - self.start_ns)) / 1e9
        return columns

    def about(self) -> str:
        info = self.bag.information
        when = datetime.fromtimestamp(self.start_ns / 1e9, timezone.utc)
        parts = [
            self.robot.title,
            f"policy {info['policy']}" if info.get("policy") else "",
            f"stage {info['stage']}" if info.get("stage") else "",
            f"{self.duration_s:.1f} s from {when:%Y-%m-%d %H:%M:%S} UTC",
            f"on {info['host']}" if info.get("host") else "",
        ]
        return " · ".join(part for part in parts if part)
