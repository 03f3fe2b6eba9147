"""Converts logs recorded elsewhere (npz, csv, another rosbag) into our bags, with a small YAML.

    robot: go2
    joint_order: sdk                    # or one of the robot's joint_orders, or a list of names
    time: {column: time}                # s; leave it out where rows are one period apart
    state: {q: q, dq: dq, torque: tau}  # or {column, from, to, scale, add}
    command: {q: q_des, kp: 25.0, kd: 0.5}  # a number holds throughout
    velocity: {asked: cmd, measured: v}     # of a walk: commanded, and seen by motion capture

The attitude is `quaternion` (w x y z) or else `gravity` in the body's axes. States that repeat the
one before are left out; states that arrived late in a burst are put back to their times.
"""

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.bags.reader import Bag
from sim2real_deploy.bags.wire_bag import WireBag
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, RobotSpec, WholeState, load_robot
from sim2real_deploy.robots.geometry import attitude_of_gravity
from sim2real_deploy.wire import remote
from sim2real_deploy.wire.encoders import CommandEncoder, StateEncoder

Array = npt.NDArray[np.float64]

EPOCH_NS = 1_700_000_000_000_000_000  # an arbitrary date, to which the log's times are added
LATE = 3  # periods by which a receive time may lag the robot's clock before a gap is assumed


class Column(Strict):
    """Where a value is in the log, and how it is converted to ours."""

    column: str
    first: int | None = Field(default=None, alias="from")  # of a wider column's entries
    last: int | None = Field(default=None, alias="to")  # one beyond
    scale: float = 1.0
    add: float | tuple[float, ...] = 0.0  # after the scale; one, or one per joint of the log


Source = str | float | Column
JOINT_STATE, BODY_STATE = ("q", "dq", "torque"), ("quaternion", "gyroscope", "accelerometer")
COMMAND = ("q", "dq", "torque", "kp", "kd")
VELOCITY = ("asked", "measured")  # vx, vy, and wz or vz: m/s and rad/s in the body's axes
WALK_ATTACHMENT = "walk.npz"  # in the bag: velocities by time, for logs that hold them


class LogMap(Strict):
    """What the YAML says."""

    robot: str = "go2"
    joint_order: str | tuple[str, ...] = "sdk"
    time: Source | None = None
    state: dict[str, Source] = Field(default_factory=dict)
    command: dict[str, Source] = Field(default_factory=dict)
    velocity: dict[str, Source] = Field(default_factory=dict)
    state_topic: str = ""  # of a foreign rosbag whose messages are the vendor's own
    command_topic: str = ""


def import_log(log: Path, mapping: Path, output: Path) -> int:
    """Write the bag; returns the number of states."""
    named = configfile.load(mapping, LogMap)
    robot = load_robot(named.robot)
    if log.is_dir() or log.suffix == ".mcap":
        return _copy_bag(Bag(log), named, robot, output)
    if "q" not in named.state:
        raise Refusal(f"{mapping}: state.q: is missing; it is required")
    known = {
        "state": (*JOINT_STATE, *BODY_STATE, "gravity", "foot_force"),
        "command": COMMAND,
        "velocity": VELOCITY,
    }
    for section, names in known.items():
        for key in getattr(named, section):
            if key not in names:
                raise Refusal(f"{mapping}: {section}.{key}: unknown; known are {', '.join(names)}")
    columns = _read(log)
    state = {key: _take(columns, source, log) for key, source in named.state.items()}
    command = {key: _take(columns, source, log) for key, source in named.command.items()}
    velocity = {key: _take(columns, source, log) for key, source in named.velocity.items()}
    rows = np.atleast_1d(state["q"]).shape[0]
    for key, values in velocity.items():
        if values.shape != (rows, 3):
            raise Refusal(f"{mapping}: velocity.{key}: has the shape {values.shape}, not {rows, 3}")
    if "gravity" in state:
        state.setdefault("quaternion", attitude_of_gravity(state.pop("gravity")))
    order = _order(named, robot, mapping)
    if rows < 2:
        raise Refusal(f"{mapping}: state.q: has {rows} rows; two or more are needed")
    for part, keys in ((state, JOINT_STATE), (command, COMMAND)):
        for key in keys:
            part[key] = _by_joint(part.get(key), rows, robot, order, f"{mapping}: {key}")
    seconds = None if named.time is None else _take(columns, named.time, log)
    if seconds is not None and seconds.size != rows:
        raise Refusal(f"{mapping}: time: has {seconds.size} rows, not {rows}")
    if seconds is not None and seconds.ravel()[-1] <= seconds.ravel()[0]:
        raise Refusal(f"{mapping}: time: does not rise from the first row to the last")
    return _write(robot, state, command, velocity, _ticks(seconds, rows, robot), output)


def _read(log: Path) -> Mapping[str, Array]:
    if not log.is_file():
        raise Refusal(f"{log}: there is no such file")
    if log.suffix == ".npz":
        try:
            with np.load(log, allow_pickle=False) as content:
                return {name: np.asarray(content[name]) for name in content.files}
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise Refusal(
                f"{log}: not an npz file we can read: {error}; if it was cut short, copy it again"
            ) from None
    if log.suffix == ".csv":
        try:
            table: Any = np.genfromtxt(log, delimiter=",", names=True, dtype=np.float64)
        except ValueError as error:
            raise Refusal(f"{log}: not a csv file we can read: {error}") from None
        return _grouped({name: table[name] for name in table.dtype.names or ()})
    raise Refusal(f"{log}: a log is an .npz, a .csv or a rosbag (a folder, or .mcap)")


def _grouped(columns: Mapping[str, Array]) -> dict[str, Array]:
    """Columns q_0, q_1, ... of a csv are also the entries of one column q."""
    wide: dict[str, list[tuple[int, str]]] = {}
    for name in columns:
        stem, _, number = name.rpartition("_")
        if stem and number.isdigit():
            wide.setdefault(stem, []).append((int(number), name))
    grouped = {
        stem: np.stack([columns[name] for _, name in sorted(parts)], axis=1)
        for stem, parts in wide.items()
    }
    return {**columns, **grouped}


def _take(columns: Mapping[str, Array], source: Source, log: Path) -> Array:
    if isinstance(source, float):
        return np.array(source)
    named = Column(column=source) if isinstance(source, str) else source
    if named.column not in columns:
        raise Refusal(f"{log}: has no column '{named.column}'; it has: {', '.join(columns)}")
    try:
        values = np.asarray(columns[named.column], np.float64)
    except ValueError as error:
        raise Refusal(f"{log}: column '{named.column}': {error}; numbers are needed") from None
    if named.first is not None or named.last is not None:
        if values.ndim != 2:
            raise Refusal(
                f"{log}: column '{named.column}': is one column, from and to take several"
            )
        values = values[:, named.first : named.last]
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        where = f"in row {wrong[0][0]}" if values.ndim else "as its value"
        raise Refusal(
            f"{log}: column '{named.column}': has no finite number {where}; take such rows out"
        )
    return np.asarray(values * named.scale + np.asarray(named.add))


def _order(named: LogMap, robot: RobotSpec, mapping: Path) -> list[int]:
    """The index in the log of each of our joints."""
    order = named.joint_order
    if order == "sdk":
        return list(range(robot.joint_count))
    names = robot.joint_orders.get(order) if isinstance(order, str) else order
    if names is None or sorted(names) != sorted(robot.joint_names):
        known = ", ".join(("sdk", *robot.joint_orders))
        raise Refusal(f"{mapping}: joint_order: is none of {known}, nor a list of all joints")
    return [list(names).index(joint) for joint in robot.joint_names]


def _by_joint(
    values: Array | None, rows: int, robot: RobotSpec, order: list[int], source: str
) -> Array:
    if values is None:
        return np.zeros((rows, robot.joint_count))
    if values.size == 1:
        return np.full((rows, robot.joint_count), float(values.ravel()[0]))
    if values.ndim == 1 and len(values) == rows:
        return np.repeat(values[:, None], robot.joint_count, axis=1)
    if values.shape != (rows, robot.joint_count):
        raise Refusal(f"{source}: has the shape {values.shape}, not {(rows, robot.joint_count)}")
    return values[:, order]


def _ticks(seconds: Array | None, rows: int, robot: RobotSpec) -> npt.NDArray[np.int64]:
    """Each row's time on the robot's own clock, in wire periods.

    A receive time may be late but never early: rows are one period apart, and rows were lost only
    where the receive clock is well ahead of them.
    """
    if seconds is None:
        return np.arange(rows)
    since = np.asarray(seconds, np.float64).ravel() - float(seconds.ravel()[0])
    since = since * robot.wire.rate_hz
    step = max(1, round(float(np.median(np.diff(since)))))
    places, place = np.empty(rows, np.int64), -step
    for row, due in enumerate(since.tolist()):
        place = max(place + step, int(due) - LATE)
        places[row] = place
    return places


def _write(
    robot: RobotSpec,
    state: Mapping[str, Array],
    command: Mapping[str, Array],
    velocity: Mapping[str, Array],
    places: npt.NDArray[np.int64],
    output: Path,
) -> int:
    period = 1 / robot.wire.rate_hz
    attachments = {}
    if velocity:
        log_ns = np.asarray(EPOCH_NS + places * period * 1e9, np.float64)
        attachments[WALK_ATTACHMENT] = walk_attachment(log_ns, velocity)
    bag = WireBag(output, robot, {"imported": "true"}, attachments)
    states, commands = StateEncoder(robot), CommandEncoder(robot)
    blank = WholeState.blank(robot.joint_count, len(robot.legs))
    blank.remote = remote.encode(remote.Remote())
    seen = np.concatenate([state[key] for key in JOINT_STATE], axis=1)
    written = 0
    for row, place in enumerate(places.tolist()):
        now_ns = EPOCH_NS + round(place * period * 1e9)
        if row == 0 or (seen[row] != seen[row - 1]).any():
            told: dict[str, Any] = {key: np.float32(state[key][row]) for key in JOINT_STATE}
            told |= {key: np.float32(state[key][row]) for key in BODY_STATE if key in state}
            if "foot_force" in state:
                told["foot_force"] = np.int16(state["foot_force"][row])
            full = replace(blank, tick=round(place * period * 1000), **told)
            bag.state(now_ns, states.encode(full))
            written += 1
        parts = [np.float32(command[key][row]) for key in ("q", "dq", "kp", "kd", "torque")]
        bag.command(now_ns + 1, commands.encode(JointCommand(*parts)))
    bag.close()
    return written


def walk_attachment(log_ns: Array, velocity: Mapping[str, Array]) -> bytes:
    """Velocities by name (VELOCITY), one row per time, as attached to a bag."""
    content = io.BytesIO()
    columns: dict[str, Any] = {**velocity, "log_ns": log_ns}
    np.savez_compressed(content, **columns)
    return content.getvalue()


def _copy_bag(foreign: Bag, named: LogMap, robot: RobotSpec, output: Path) -> int:
    """Copy the vendor's own messages, byte for byte, under our topic names."""
    for key, topic in (("state_topic", named.state_topic), ("command_topic", named.command_topic)):
        if topic not in foreign.topics:
            known = ", ".join(sorted(foreign.topics))
            raise Refusal(f"{foreign.path}: {key} '{topic}' is not in it; it holds: {known}")
    bag, written = WireBag(output, robot, {"imported": "true"}), 0
    wanted = [foreign.topics[named.state_topic], foreign.topics[named.command_topic]]
    for message in foreign.messages(wanted):
        if message.topic == named.state_topic:
            bag.state(message.log_ns, message.data)
            written += 1
        else:
            bag.command(message.log_ns, message.data)
    bag.close()
    return written
