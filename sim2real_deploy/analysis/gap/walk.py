"""A walk as the gap report compares it: one row per wire period, from a bag or from the twin.

Both sides pass through the same code, so whatever an estimate gets wrong it gets wrong on both.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.view import TOPICS, View
from sim2real_deploy.bags.import_log import WALK_ATTACHMENT
from sim2real_deploy.bags.recorded import Recorded, wire_columns
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.ticks import policy_command
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec, WholeState
from sim2real_deploy.robots.geometry import gravity_in_body_rows
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.topics import LOW_CMD, ODOMETRY, TICKS

Array = npt.NDArray[np.float64]
Samples = Sequence[tuple[int, bytes]]  # commands on the wire, with their times in ns

SETTLE_S = 1.5  # of walking before it is compared: the stand before it was not the policy's
LEAST_COMMAND = 0.05  # m/s or rad/s: less is standing
LEAST_S = 4.0  # of walking that remain
LEAST_WATCHED_S = 2.0  # the same where motion capture saw the velocity: it needs no averaging
STATE_COLUMNS = ("q", "dq", "torque", "quaternion", "gyroscope", "accelerometer", "temperature")
COMMAND_COLUMNS = {"target": "q", "kp": "kp", "kd": "kd", "feed_forward": "torque"}


@dataclass(frozen=True, slots=True)
class Walk:
    """Rows at the wire's rate. A row's command is the one sent after its state was read."""

    name: str
    robot: RobotSpec
    columns: Mapping[str, Array]
    samples: Sequence[tuple[bytes, ...]]  # commands on the wire between a row and the next
    limited: float  # share of the rows in which a limit changed what the policy asked for
    watched: bool = False  # velocity is the true one: from motion capture, or from the simulator
    foreign: bool = False  # of a stack that is not ours: no limits of ours stood behind the policy

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["q"])

    @property
    def rate_hz(self) -> float:
        return self.robot.wire.rate_hz

    @property
    def settled(self) -> slice:
        """The rows that are compared."""
        return slice(round(SETTLE_S * self.rate_hz), None)

    @property
    def moving(self) -> npt.NDArray[np.bool_]:
        """The settled rows in which it is told to move: where it stops, it stands by chance."""
        told: npt.NDArray[np.bool_] = np.abs(self["command"]).max(axis=1) > LEAST_COMMAND
        told[: self.settled.start] = False
        if not told.any():
            told[self.settled] = True
        return told

    @property
    def torque_known(self) -> bool:
        return bool(np.abs(self["torque"]).max() > 0.0)


def walk_of_bag(recorded: Recorded, least_s: float = SETTLE_S + LEAST_S) -> Walk:
    """The longest stretch of walking in a bag; refused when it is shorter than `least_s`."""
    bag = recorded.bag
    if WALK_ATTACHMENT in bag.attachments:
        return _walk_of_log(recorded)
    for name in (LOW_CMD, TICKS):
        bag.require(name)
    view = View(recorded, recorded.load(TOPICS))
    ticks = view.ticks
    start, end = _longest(ticks["mode"] == Mode.WALKING)
    first_s, last_s = ticks["seconds"][start], ticks["seconds"][end - 1]
    if last_s - first_s < least_s:
        raise Refusal(
            f"{bag.path}: its longest walk is {max(last_s - first_s, 0):.1f} s; this needs "
            f"{least_s:g} s of walking"
        )
    inside = (view.state_s >= first_s) & (view.state_s <= last_s)
    states = {name: view.states[name][inside] for name in (*STATE_COLUMNS, "tick")}
    topic = bag.require(LOW_CMD)
    samples = [(message.log_ns, message.data) for message in bag.messages([topic])]
    asked = policy_command(ticks).astype(np.float64)
    limits = [ticks[name][start:end] > 0 for name in ticks if name.startswith("limit.")]
    measured = None
    if ODOMETRY in view.series:
        odometry = view.series[ODOMETRY]
        axes = ("linear.x", "linear.y", "linear.z")
        rows = np.stack([odometry[f"twist.twist.{axis}"] for axis in axes], axis=1)
        measured = (view.seconds(odometry) * 1e9 + view.start_ns, rows)
    return make_walk(
        bag.path.resolve().name,
        recorded.robot,
        states,
        view.states.log_ns[inside],
        samples,
        (ticks["seconds"] * 1e9 + view.start_ns, asked),
        float(np.any(limits, axis=0).mean()) if limits else 0.0,
        measured,
    )


def _walk_of_log(recorded: Recorded) -> Walk:
    """A log of somebody else that holds velocities: a walk from its first row to its last."""
    bag = recorded.bag
    with np.load(io.BytesIO(bag.attachments[WALK_ATTACHMENT])) as content:
        log = {name: np.asarray(content[name], np.float64) for name in content.files}
    if "asked" not in log:
        raise Refusal(f"{bag.path}: was imported without velocity.asked: what was it told to do?")
    view = View(recorded, recorded.load(TOPICS))
    topic = bag.require(LOW_CMD)
    foreign = bag.information.get("imported") == "true"
    walk = make_walk(
        bag.path.resolve().name,
        recorded.robot,
        {name: view.states[name] for name in (*STATE_COLUMNS, "tick")},
        view.states.log_ns,
        [(message.log_ns, message.data) for message in bag.messages([topic])],
        (log["log_ns"], log["asked"]),
        limited=0.0,
        measured=(log["log_ns"], log["measured"]) if "measured" in log else None,
        watched="measured" in log,
    )
    least_s = SETTLE_S + (LEAST_WATCHED_S if walk.watched else LEAST_S)
    if len(walk) < least_s * walk.rate_hz:
        raise Refusal(
            f"{bag.path}: is {len(walk) / walk.rate_hz:.1f} s long; this needs {least_s:g} s"
        )
    return replace(walk, foreign=foreign)


def make_walk(
    name: str,
    robot: RobotSpec,
    states: Mapping[str, npt.NDArray[Any]],
    log_ns: npt.NDArray[np.int64],
    samples: Samples,
    asked: tuple[Array, Array],
    limited: float,
    measured: tuple[Array, Array] | None = None,
    watched: bool = False,
) -> Walk:
    """On an even grid by the robot's own tick: a state that was lost is interpolated.

    `measured` velocities count where they are the truth, or where legs without torque say nothing.
    """
    tick, unique = np.unique(states["tick"].astype(np.int64), return_index=True)
    period_ms = 1000 / robot.wire.rate_hz
    grid = np.arange(tick[0], tick[-1] + 0.5, period_ms)
    columns = {
        key: _interpolated(grid, tick, states[key][unique].astype(np.float64))
        for key in STATE_COLUMNS
    }
    when = np.interp(grid, tick, log_ns[unique].astype(np.float64))
    place = np.searchsorted(when, [ns for ns, _ in samples], side="right") - 1
    between: list[list[bytes]] = [[] for _ in grid]
    for index, (_, sample) in zip(place.tolist(), samples, strict=True):
        if index >= 0:
            between[index].append(sample)
    commands = wire_columns(robot, LOW_CMD, [sample for _, sample in samples])
    newest = np.maximum(np.searchsorted(place, np.arange(len(grid)), side="right") - 1, 0)
    for key, field in COMMAND_COLUMNS.items():
        columns[key] = commands[field][newest].astype(np.float64)
    columns["gravity"] = gravity_in_body_rows(columns["quaternion"])
    columns["command"] = _interpolated(when, *asked)
    columns["velocity"], columns["load"] = _odometry(robot, columns)
    if measured is not None and (watched or not np.abs(columns["torque"]).max() > 0.0):
        columns["velocity"] = _interpolated(when, *measured)
    return Walk(name, robot, columns, [tuple(part) for part in between], limited, watched)


def _odometry(robot: RobotSpec, columns: Mapping[str, Array]) -> tuple[Array, Array]:
    """Velocity of the trunk in its own frame, and the load on each foot, from the legs."""
    rows = len(columns["q"])
    velocity, load = np.zeros((rows, 3)), np.zeros((rows, len(robot.legs)))
    if not LegOdometry.possible(robot):
        return velocity, load
    odometry = LegOdometry(robot)
    nothing: Any = np.zeros(0, np.uint8)
    names = ("quaternion", "gyroscope", "accelerometer", "q", "dq", "torque")
    period_ns = round(1e9 / robot.wire.rate_hz)
    for row in range(rows):
        quaternion, gyro, felt, q, dq, torque = (columns[name][row] for name in names)
        state = WholeState(
            row * period_ns, row, quaternion, gyro, felt, q, dq, dq, torque,
            nothing, nothing, nothing, -1, 0, nothing, 0.0, 0.0, 0, b"", b"",
        )  # fmt: skip
        odometry.update(state)
        velocity[row], load[row] = odometry.velocity, odometry.loads
    return velocity, load


def _longest(flags: npt.NDArray[np.bool_]) -> tuple[int, int]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(int)))
    if not len(edges):
        return 0, 1
    pairs = edges.reshape(-1, 2)
    start, end = pairs[np.argmax(pairs[:, 1] - pairs[:, 0])].tolist()
    return start, end


def _interpolated(at: Array, times: npt.NDArray[Any], values: Array) -> Array:
    return np.stack([np.interp(at, times, column) for column in values.T], axis=1)
