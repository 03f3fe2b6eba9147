"""Replays recorded commands into the twin: how fast simulation and recording diverge.

Open loop from one recorded state to the end, and in windows that each restart from the recorded
state, so that an error shows where it arises and not where it has grown to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags.recorded import Recorded, Series
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots.geometry import gravity_in_body_rows, to_body_rows, to_world_rows
from sim2real_deploy.topics import LOW_CMD, LOW_STATE, ODOMETRY
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.robot import TwinRobot, Vector

HORIZONS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LEAD_IN = 25  # wire periods: longer than the delay of any command
JOINTS_APART = 0.1  # rad, rms over the joints
TILT_APART = 5.0  # degrees


@dataclass(frozen=True, slots=True)
class ReplayErrors:
    """RMS differences between twin and recording, by time since they were equal."""

    seconds: Vector
    joints: npt.NDArray[np.float64]  # rad, one column per joint
    tilt: Vector  # degrees, between the two directions of gravity
    velocity: Vector  # m/s, of the trunk, against the recorded odometry

    def at(self, seconds: float) -> int:
        return min(int(np.searchsorted(self.seconds, seconds)), len(self.seconds) - 1)

    @property
    def parted_after_s(self) -> float:
        """When joints or trunk first exceed the thresholds of divergence."""
        rms = np.sqrt(np.mean(self.joints**2, axis=1))
        apart = (rms > JOINTS_APART) | (self.tilt > TILT_APART)
        return float(self.seconds[np.argmax(apart)]) if apart.any() else float("inf")


@dataclass(frozen=True, slots=True)
class TwinReplay:
    seconds: float
    windows: int
    joint_names: tuple[str, ...]
    open_loop: ReplayErrors
    windowed: ReplayErrors


@dataclass(frozen=True, slots=True)
class RecordedStates:
    """Recorded states at the wire's rate, with the commands that followed each."""

    q: npt.NDArray[Any]
    dq: npt.NDArray[Any]
    torque: npt.NDArray[Any]
    quaternion: npt.NDArray[Any]
    rate: npt.NDArray[Any]  # rad/s, body frame
    velocity: npt.NDArray[Any]  # m/s, body frame
    commands: Sequence[tuple[bytes, ...]]

    def __len__(self) -> int:
        return len(self.q)

    def place(self, twin: TwinRobot, index: int) -> None:
        """Put the twin into the recorded state; position and height are not recorded."""
        base = np.array([0.0, 0.0, np.nan, *self.quaternion[index]])
        here = slice(index, index + 1)
        linear = to_world_rows(self.quaternion[here], self.velocity[here])[0]
        velocity = np.array([*linear, *self.rate[index]])
        q = self.q[index] - twin.encoders.offset
        torque = self.torque[index] / twin.encoders.torque_gain
        twin.place(base, velocity, q, self.dq[index], torque)


def motion_of_bag(recorded: Recorded, start_s: float, seconds: float) -> RecordedStates:
    for name in (LOW_STATE, LOW_CMD):
        recorded.bag.require(name)
    loaded = recorded.load((LOW_STATE, ODOMETRY))
    states = loaded[LOW_STATE]
    since = (states.log_ns - states.log_ns[0]) / 1e9
    chosen = np.flatnonzero((since >= start_s) & (since < start_s + seconds))
    if len(chosen) < 2:
        raise Refusal(f"{recorded.bag.path}: has no states from {start_s:g} s on")
    log_ns = states.log_ns[chosen]
    return RecordedStates(
        q=states["q"][chosen],
        dq=states["dq"][chosen],
        torque=states["torque"][chosen],
        quaternion=states["quaternion"][chosen],
        rate=states["gyroscope"][chosen],
        velocity=_velocities(loaded.get(ODOMETRY), log_ns),
        commands=_commands(recorded, log_ns),
    )


def roll_out(
    twin: TwinRobot, motion: RecordedStates, start: int, steps: int, lead_in: int = LEAD_IN
) -> tuple[Vector, Vector, Vector]:
    """The twin's joints, attitude and world velocity at each step from a recorded state on.

    A lead-in, with the state held to the recording, puts the earlier commands into the buses.
    """
    twin.reset(0)
    for index in range(max(start - lead_in, 0), start):
        motion.place(twin, index)
        twin.exchange(motion.commands[index])
    motion.place(twin, start)
    q = np.empty((steps, twin.robot.joint_count))
    quaternions, velocity = np.empty((steps, 4)), np.empty((steps, 3))
    for step in range(steps):
        twin.exchange(motion.commands[start + step])
        q[step] = twin.data.qpos[7:] + twin.encoders.offset
        quaternions[step] = twin.data.qpos[3:7]
        velocity[step] = twin.data.qvel[:3]
    return q, quaternions, velocity


def replay_errors(twin: TwinRobot, motion: RecordedStates, window_s: float) -> ReplayErrors:
    """Over all windows that fit into the motion."""
    rate = twin.robot.wire.rate_hz
    steps = min(round(window_s * rate), len(motion) - 1)
    runs = [_apart(twin, motion, n, steps) for n in range(0, len(motion) - steps, steps)]
    joints, tilt, velocity = (
        np.sqrt(np.mean(np.square(parts), axis=0)) for parts in zip(*runs, strict=True)
    )
    return ReplayErrors(np.arange(1, steps + 1) / rate, joints, tilt, velocity)


def replay_in_twin(
    recorded: Recorded,
    imperfections: Imperfections,
    *,
    start_s: float = 0.0,
    seconds: float = 60.0,
    window_s: float = 1.0,
) -> TwinReplay:
    motion = motion_of_bag(recorded, start_s, seconds)
    twin = TwinRobot(recorded.robot, imperfections=imperfections.without_chance())
    rate = recorded.robot.wire.rate_hz
    steps = len(motion) - 1
    windows = max(1, steps // round(window_s * rate))
    open_loop = ReplayErrors(np.arange(1, steps + 1) / rate, *_apart(twin, motion, 0, steps))
    windowed = replay_errors(twin, motion, window_s)
    names = recorded.robot.joint_names
    return TwinReplay(steps / rate, windows, names, open_loop, windowed)


def _apart(
    twin: TwinRobot, motion: RecordedStates, start: int, steps: int
) -> tuple[npt.NDArray[np.float64], Vector, Vector]:
    """How far joints, tilt and velocity are apart after each wire period."""
    q, quaternions, velocity = roll_out(twin, motion, start, steps)
    following = slice(start + 1, start + 1 + steps)
    recorded = gravity_in_body_rows(motion.quaternion[following])
    cosine = np.sum(gravity_in_body_rows(quaternions) * recorded, axis=1)
    tilt = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    seen = to_body_rows(quaternions, velocity)  # in the body frame
    return (
        np.abs(q - motion.q[following]),
        np.asarray(tilt, np.float64),
        np.linalg.norm(seen - motion.velocity[following], axis=1),
    )


def _commands(recorded: Recorded, log_ns: npt.NDArray[np.int64]) -> list[tuple[bytes, ...]]:
    """The commands that arrived between each state and the next."""
    found: list[list[bytes]] = [[] for _ in log_ns]
    topic = recorded.bag.require(LOW_CMD)
    for message in recorded.bag.messages([topic]):
        index = int(np.searchsorted(log_ns, message.log_ns, side="right")) - 1
        if index >= 0 and message.log_ns <= log_ns[-1]:
            found[index].append(message.data)
    return [tuple(samples) for samples in found]


def _velocities(odometry: Series | None, log_ns: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The trunk's velocity in the body frame at each state; zero without odometry."""
    if odometry is None:
        return np.zeros((len(log_ns), 3))
    axes = (odometry[f"twist.twist.linear.{axis}"] for axis in "xyz")
    return np.stack([np.interp(log_ns, odometry.log_ns, values) for values in axes], axis=1)
