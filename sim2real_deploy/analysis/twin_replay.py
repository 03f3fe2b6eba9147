"""Replays recorded commands into the twin: how fast simulation and recording diverge.

Open loop from one recorded state to the end, and in windows that each restart from the recorded
state, so that an error shows where it arises and not where it has grown to.
"""

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
LEAD_IN = 25  # wire periods: longer than any command is under way
JOINTS_APART = 0.1  # rad, rms over the joints
TILT_APART = 5.0  # degrees


@dataclass(frozen=True, slots=True)
class Errors:
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
    start_s: float
    seconds: float
    windows: int
    joint_names: tuple[str, ...]
    open_loop: Errors
    windowed: Errors


class _Recording:
    """States at the wire's rate, with the command that followed each."""

    def __init__(self, recorded: Recorded, start_s: float, seconds: float) -> None:
        for name in (LOW_STATE, LOW_CMD):
            recorded.bag.require(name)
        loaded = recorded.load((LOW_STATE, ODOMETRY))
        states = loaded[LOW_STATE]
        since = (states.log_ns - states.log_ns[0]) / 1e9
        chosen = np.flatnonzero((since >= start_s) & (since < start_s + seconds))
        if len(chosen) < 2:
            raise Refusal(f"{recorded.bag.path}: has no states from {start_s:g} s on")
        self.log_ns = states.log_ns[chosen]
        self.q, self.dq = states["q"][chosen], states["dq"][chosen]
        self.torque = states["torque"][chosen]
        self.quaternion, self.rate = states["quaternion"][chosen], states["gyroscope"][chosen]
        self.gravity = gravity_in_body_rows(self.quaternion)
        self.velocity = _velocities(loaded.get(ODOMETRY), self.log_ns)
        self.commands = self._commands(recorded)

    def _commands(self, recorded: Recorded) -> list[tuple[bytes, ...]]:
        """The commands that arrived between each state and the next."""
        found: list[list[bytes]] = [[] for _ in self.log_ns]
        topic = recorded.bag.require(LOW_CMD)
        for message in recorded.bag.messages([topic]):
            index = int(np.searchsorted(self.log_ns, message.log_ns, side="right")) - 1
            if index >= 0 and message.log_ns <= self.log_ns[-1]:
                found[index].append(message.data)
        return [tuple(samples) for samples in found]

    def place(self, twin: TwinRobot, index: int) -> None:
        """Put the twin into the recorded state; position and height are not recorded."""
        base = np.array([0.0, 0.0, np.nan, *self.quaternion[index]])
        here = slice(index, index + 1)
        linear = to_world_rows(self.quaternion[here], self.velocity[here])[0]
        velocity = np.array([*linear, *self.rate[index]])
        q = self.q[index] - twin.encoders.offset
        torque = self.torque[index] / twin.encoders.torque_gain
        twin.place(base, velocity, q, self.dq[index], torque)


def replay_in_twin(
    recorded: Recorded,
    imperfections: Imperfections,
    *,
    start_s: float = 0.0,
    seconds: float = 60.0,
    window_s: float = 1.0,
) -> TwinReplay:
    recording = _Recording(recorded, start_s, seconds)
    twin = TwinRobot(recorded.robot, imperfections=imperfections.without_chance())
    rate = recorded.robot.wire.rate_hz
    count = len(recording.log_ns)
    steps = min(round(window_s * rate), count - 1)
    starts = range(0, count - steps, steps)
    open_loop = Errors(np.arange(1, count) / rate, *_run(twin, recording, 0, count - 1))
    runs = [_run(twin, recording, start, steps) for start in starts]
    joints, tilt, velocity = (
        np.sqrt(np.mean(np.square(parts), axis=0)) for parts in zip(*runs, strict=True)
    )
    windowed = Errors(np.arange(1, steps + 1) / rate, joints, tilt, velocity)
    names = recorded.robot.joint_names
    return TwinReplay(start_s, (count - 1) / rate, len(runs), names, open_loop, windowed)


def _run(
    twin: TwinRobot, recording: _Recording, start: int, steps: int
) -> tuple[npt.NDArray[np.float64], Vector, Vector]:
    """How far joints, tilt and velocity are apart after each wire period.

    A lead-in with the state held to the recording brings the commands of before on their way.
    """
    twin.reset(0)
    for index in range(max(start - LEAD_IN, 0), start):
        recording.place(twin, index)
        twin.exchange(recording.commands[index])
    recording.place(twin, start)
    q = np.empty((steps, twin.robot.joint_count))
    quaternions, velocity = np.empty((steps, 4)), np.empty((steps, 3))
    for step in range(steps):
        twin.exchange(recording.commands[start + step])
        q[step] = twin.data.qpos[7:] + twin.encoders.offset
        quaternions[step] = twin.data.qpos[3:7]
        velocity[step] = twin.data.qvel[:3]
    following = slice(start + 1, start + 1 + steps)
    cosine = np.sum(gravity_in_body_rows(quaternions) * recording.gravity[following], axis=1)
    tilt = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    seen = to_body_rows(quaternions, velocity)  # in the body frame
    return (
        np.abs(q - recording.q[following]),
        np.asarray(tilt, np.float64),
        np.linalg.norm(seen - recording.velocity[following], axis=1),
    )


def _velocities(odometry: Series | None, log_ns: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The trunk's velocity in the body frame at each state; zero without odometry."""
    if odometry is None:
        return np.zeros((len(log_ns), 3))
    axes = (odometry[f"twist.twist.linear.{axis}"] for axis in "xyz")
    return np.stack([np.interp(log_ns, odometry.log_ns, values) for values in axes], axis=1)
