"""A recording as identification needs it: state and command in one row per wire period."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.row_timing import on_even_rows, sampling_times
from sim2real_deploy.identify.smoothing import slope
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.topics import LOW_CMD, LOW_STATE

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LONGEST_S = 600.0  # part of a bag that is used: more adds little and must fit into memory
AIRBORNE = 5.0  # N: the most that a foot sensor reads while the robot hangs
GLANCE_S = 10.0  # in the middle of each part, to measure how much the robot moves
JOINT_COLUMNS = ("q", "dq", "torque", "target_q", "target_dq", "feed_forward", "kp", "kd")


@dataclass(frozen=True, slots=True)
class Recording:
    """Rows at the robot's own rate. A row's command is the one sent after its state was read."""

    name: str
    digest: str
    robot: RobotSpec
    columns: Mapping[str, Array]  # JOINT_COLUMNS, and the IMU's where there is one
    fresh: Flags  # whether the state of a row was read, not repeated or interpolated

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.fresh)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    @property
    def period(self) -> float:
        return 1 / self.robot.wire.rate_hz

    @property
    def seconds(self) -> float:
        return len(self) * self.period

    @property
    def hangs(self) -> bool:
        """Whether no foot carries load; a log without foot forces counts as hung."""
        if "foot_force" not in self:
            return True
        return bool(np.percentile(self["foot_force"].max(axis=1), 90) < AIRBORNE)

    def part(self, rows: slice) -> "Recording":
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, fresh=self.fresh[rows])


def check_robot(robot: RobotSpec, recordings: Sequence[Recording]) -> None:
    for recording in recordings:
        if recording.robot.name != robot.name:
            raise Refusal(f"{recording.name}: is of {recording.robot.name}, not of {robot.name}")


def check_torque(recordings: Sequence[Recording], otherwise: str = "") -> None:
    """`otherwise` is what can be done without torque."""
    for recording in recordings:
        if "torque" not in recording or not recording["torque"].any():
            raise Refusal(
                f"{recording.name}: holds no torque (tau_est is zero throughout), so nothing tells "
                f"what the motors did: record rt/lowstate unchanged{otherwise}"
            )


def named(recordings: Iterable[Recording]) -> str:
    """The recordings in words: names with digests."""
    return ", ".join(f"{recording.name} ({recording.digest})" for recording in recordings)


def from_arrays(name: str, robot: RobotSpec, columns: Mapping[str, npt.ArrayLike]) -> Recording:
    """From rows about one wire period apart. Repeated states are marked as not fresh; states that
    were sampled earlier or later than their row says are put on even rows."""
    arrays = {key: np.asarray(values, np.float64) for key, values in columns.items()}
    rows, joints = arrays["q"].shape
    for key in ("target_dq", "feed_forward"):
        arrays.setdefault(key, np.zeros((rows, joints)))
    for key in ("kp", "kd"):
        if arrays[key].ndim < 2:
            arrays[key] = np.broadcast_to(arrays[key].reshape(-1, 1), (rows, joints)).copy()
    repeated = (np.diff(arrays["q"], axis=0) == 0).all(axis=1)
    if "dq" in arrays:
        repeated &= (np.diff(arrays["dq"], axis=0) == 0).all(axis=1)
    else:
        arrays["dq"] = slope(arrays["q"], 1 / robot.wire.rate_hz)
    fresh = np.concatenate(([True], ~repeated))
    digest = _digest(arrays)
    _put_on_even_rows(arrays, fresh, 1 / robot.wire.rate_hz)
    return Recording(name, digest, robot, arrays, fresh)


def _put_on_even_rows(columns: dict[str, Array], fresh: Flags, period: float) -> None:
    times = sampling_times(columns["q"], period)
    if times is None:
        return
    for key in ("q", "dq", "torque"):
        if key in columns:
            columns[key] = on_even_rows(columns[key], times, fresh, period)


def from_bag(recorded: Recorded) -> Recording:
    """From the wire in a bag, on the grid of the robot's own clock; lost states are interpolated.

    Of a long bag, the ten minutes in which the joints moved most are used. An imported log may have
    its reader's clock, so its states are put on even rows.
    """
    for name in (LOW_STATE, LOW_CMD):
        recorded.bag.require(name)
    recorded = Recorded(_busiest(recorded.bag))
    loaded = recorded.load((LOW_STATE, LOW_CMD))
    if LOW_STATE not in loaded or LOW_CMD not in loaded:
        raise Refusal(f"{recorded.bag.path}: holds no states or no commands: nothing to identify")
    states, commands = loaded[LOW_STATE], loaded[LOW_CMD]
    rate = recorded.robot.wire.rate_hz
    ticks = states["tick"].astype(np.int64)
    row = np.rint((ticks - ticks[0]) * rate / 1000).astype(np.int64)
    keep = np.concatenate(([True], np.diff(row) > 0))
    if (np.diff(row) < 0).any():
        raise Refusal(f"{recorded.bag.path}: the robot's clock went back: it was restarted")
    row, log_ns = row[keep], states.log_ns[keep]
    count = int(row[-1]) + 1
    fresh = np.zeros(count, bool)
    fresh[row] = True
    grid = np.arange(count)
    columns: dict[str, Array] = {}
    for name in ("q", "dq", "torque", "quaternion", "gyroscope", "accelerometer", "foot_force"):
        if name in states:
            columns[name] = _filled(grid, row, np.asarray(states[name][keep], np.float64))
    # The last command before the next state came, or would have come had it not been lost.
    next_ns = np.interp(grid + 1, row, log_ns - log_ns[0], right=np.inf)
    last = np.searchsorted(commands.log_ns - log_ns[0], next_ns, side="left") - 1
    names = {"target_q": "q", "target_dq": "dq", "feed_forward": "torque", "kp": "kp", "kd": "kd"}
    for name, source in names.items():
        values = np.asarray(commands[source], np.float64)
        columns[name] = values[np.maximum(last, 0)]
    columns["kp"][last < 0] = 0.0
    columns["kd"][last < 0] = 0.0
    digest = _digest(columns)
    if any(record.get("imported") == "true" for record in recorded.bag.metadata.values()):
        _put_on_even_rows(columns, fresh, 1 / rate)
    return Recording(recorded.bag.path.name, digest, recorded.robot, columns, fresh)


def _busiest(bag: Bag) -> Bag:
    """The part of a long bag with the fastest joints, at most LONGEST_S of it."""
    spans = bag.parts(LONGEST_S)
    if len(spans) == 1:
        return bag
    moved = []
    for span in spans:
        start_ns = (span[0] + span[1]) // 2
        glance = Recorded(bag.within((start_ns, start_ns + round(GLANCE_S * 1e9))))
        states = glance.load((LOW_STATE,)).get(LOW_STATE)
        moved.append(0.0 if states is None else float(np.abs(states["dq"]).mean()))
    return bag.within(spans[int(np.argmax(moved))])


def _filled(grid: Any, row: Any, values: Array) -> Array:
    return np.stack([np.interp(grid, row, column) for column in values.T], axis=1)


def _digest(columns: Mapping[str, Array]) -> str:
    content = hashlib.sha256()
    for name in sorted(columns):
        content.update(name.encode() + np.ascontiguousarray(columns[name], np.float32).tobytes())
    return content.hexdigest()[:16]
