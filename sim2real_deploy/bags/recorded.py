"""A recorded run as numpy arrays: the wire decoded as a whole, ROS topics as columns.

The wire is read with the codec's own layouts, chunk by chunk, and only what analysis uses is kept:
an hour fits into memory, and ten minutes load in seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags import Bag, Message, Topic
from sim2real_deploy.bags.cdr import Definition, texts
from sim2real_deploy.bags.growing import GrowingColumns
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.topics import LOW_CMD, LOW_STATE
from sim2real_deploy.wire.layout import Layout
from sim2real_deploy.wire.messages import FAMILIES

Nanoseconds = npt.NDArray[np.int64]
_STATE_FIELDS = {
    "tick": "tick",
    "quaternion": "imu_state.quaternion",
    "gyroscope": "imu_state.gyroscope",
    "accelerometer": "imu_state.accelerometer",
    "foot_force": "foot_force",
    "battery_percent": "bms_state.soc",
    "voltage": "power_v",
    "current": "power_a",
}
_STATE_MOTOR_FIELDS = {"q": "q", "dq": "dq", "torque": "tau_est", "temperature": "temperature"}
_COMMAND_MOTOR_FIELDS = {name: name for name in ("q", "dq", "kp", "kd")} | {"torque": "tau"}
_WIRE: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    LOW_STATE: ("motor_state", _STATE_FIELDS, _STATE_MOTOR_FIELDS),
    LOW_CMD: ("motor_cmd", {}, _COMMAND_MOTOR_FIELDS),
}


@dataclass(slots=True)
class Series:
    """Rows in time order: when each was received and sent, and named columns."""

    log_ns: Nanoseconds
    publish_ns: Nanoseconds
    columns: Mapping[str, npt.NDArray[Any]]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return len(self.log_ns)

    def sorted_by(self, times: Nanoseconds) -> "Series":
        """Sorted by these times, one per row."""
        if (times[1:] >= times[:-1]).all():
            return self
        order = np.argsort(times, kind="stable")
        columns = {name: values[order] for name, values in self.columns.items()}
        return Series(self.log_ns[order], self.publish_ns[order], columns)

    def last(self, now_ns: int) -> "Series":
        """The last row, with its time set to now."""
        now = np.array([now_ns], np.int64)
        return Series(now, now, {name: values[-1:].copy() for name, values in self.columns.items()})


class Recorded:
    """One robot's part of a bag, loaded topic by topic on demand."""

    def __init__(self, bag: Bag) -> None:
        self.bag = bag
        self.robot = robot_of(bag)

    @classmethod
    def open(cls, path: Path) -> "Recorded":
        return cls(Bag(path))

    def load(self, names: Iterable[str]) -> dict[str, Series]:
        """The topics of these relative names that are in the bag and hold messages."""
        topics = {name: topic for name in names if (topic := self.bag.find(name)) is not None}
        by_full_name = {topic.name: name for name, topic in topics.items()}
        reading = {name: _Reading(self.robot, name, topic) for name, topic in topics.items()}
        for chunk in self.bag.chunks(topics.values()):
            parts: dict[str, list[Message]] = {}
            for message in chunk:
                parts.setdefault(by_full_name[message.topic], []).append(message)
            for name, messages in parts.items():
                reading[name].add(messages)
        return {name: topic.series() for name, topic in reading.items() if topic.times}


class _Reading:
    """One topic while its messages are read."""

    def __init__(self, robot: RobotSpec, name: str, topic: Topic) -> None:
        self._robot, self._name = robot, name
        wire = name in _WIRE
        self._size = _layout(robot, name).size if wire else None  # of a whole sample
        self._definition = None if wire else Definition(topic.type, topic.definition)
        self.times: list[tuple[Nanoseconds, Nanoseconds]] = []
        self._columns = GrowingColumns()

    def add(self, messages: list[Message]) -> None:
        if self._size is not None:
            messages = [message for message in messages if len(message.data) == self._size]
        data = [message.data for message in messages]
        self.times.append(
            (
                np.array([message.log_ns for message in messages], np.int64),
                np.array([message.publish_ns for message in messages], np.int64),
            )
        )
        if self._definition is None:
            columns = wire_columns(self._robot, self._name, data)
            self._columns.extend(len(data), [(slice(None), columns)])
        else:
            self._columns.extend(len(data), self._definition.groups(data))

    def series(self) -> Series:
        log_ns, publish_ns = (np.concatenate(times) for times in zip(*self.times, strict=True))
        return Series(log_ns, publish_ns, self._columns.done()).sorted_by(log_ns)


def wire_columns(
    robot: RobotSpec, name: str, samples: Sequence[bytes]
) -> dict[str, npt.NDArray[Any]]:
    """Whole samples of LOW_STATE or LOW_CMD as columns, the robot's own joints only."""
    layout = _layout(robot, name)
    motors, fields, motor_fields = _WIRE[name]
    record = np.frombuffer(b"".join(samples), layout.dtype)
    columns = {
        key: record[field].copy()
        for key, field in fields.items()
        if field in (layout.dtype.names or ())
    }
    for key, field in motor_fields.items():
        columns[key] = record[motors][field][:, : robot.joint_count].copy()
    if columns.get("temperature", np.empty(0)).ndim == 3:  # two sensors a motor
        columns["temperature"] = columns["temperature"].max(axis=2)
    return columns


def _layout(robot: RobotSpec, name: str) -> Layout:
    family = FAMILIES[robot.wire.family]
    return family.state if name == LOW_STATE else family.command


def robot_of(bag: Bag) -> RobotSpec:
    """The robot as it was described when the run was made."""
    stored = bag.attachments.get("robot.json")
    if stored is not None:
        return RobotSpec.model_validate_json(stored)
    name = bag.information.get("robot")
    if not name:
        raise Refusal(f"{bag.path}: does not name its robot: not made by our recorder")
    return load_robot(name)


def labelled(series: Series) -> tuple[tuple[str, ...], npt.NDArray[Any]]:
    """A topic of labelled rows (a MultiArray whose last dimension names its entries)."""
    columns = series.columns
    last = 1 if "layout.dim.1.label" in columns else 0
    names = tuple(texts(columns[f"layout.dim.{last}.label"][:1])[0].split(","))
    data = columns["data"]
    rows = data.reshape(-1, len(names))
    if last == 1:  # blocks of different lengths were padded
        per_block = data.shape[1] // len(names)
        used = columns["layout.dim.0.size"][:, None] > np.arange(per_block)[None, :]
        rows = rows if used.all() else rows[used.ravel()]
    return names, rows


def joined(parts: list[Series]) -> Series:
    """Concatenated, with the columns that all of them have."""
    if len(parts) == 1:
        return parts[0]
    names = [name for name in parts[0].columns if all(name in part for part in parts)]
    return Series(
        np.concatenate([part.log_ns for part in parts]),
        np.concatenate([part.publish_ns for part in parts]),
        {name: np.concatenate([part[name] for part in parts]) for name in names},
    )
