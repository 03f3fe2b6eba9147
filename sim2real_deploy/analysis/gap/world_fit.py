"""Fits joint friction, payload and floor friction so that short replays match the recording.

Gauss-Newton over windows of 0.1 s, all three at once, because each alone would also explain part of
the others. Strength and delay are known by then from the motor law.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim2real_deploy.analysis.gap.walk import Array, Walk
from sim2real_deploy.analysis.twin_replay import RecordedStates, roll_out
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.per_joint import named, per_joint, times
from sim2real_deploy.twin.robot import TwinRobot

WINDOW_S = 0.1
WINDOWS = 40
LEAD_IN = 12  # rows before a window that put commands on their way
EVERY = 10  # rows of a window that are compared
JOINT_SCALE = 0.01  # rad that count as one
MOST = 4.0  # a larger error is an accident, and counts as this
ROUNDS = 3
LEAST_FRICTION = 0.1  # Nm: what "times as much" refers to where the twin has less


@dataclass(frozen=True, slots=True)
class World:
    """How the robot and its floor differ from the twin's."""

    strength: float = 1.0  # times
    delay_s: float = 0.0  # more
    friction: float = 1.0  # times, of the joints
    payload: float = 0.0  # kg more
    floor: float = 1.0  # times, of the floor

    def twin(self, robot: RobotSpec, imperfections: Imperfections, floor: Floor) -> TwinRobot:
        ground = floor.model_copy(update={"friction": floor.friction * self.floor})
        return TwinRobot(robot, ground, self.imperfections(robot, imperfections))

    def imperfections(self, robot: RobotSpec, imperfections: Imperfections) -> Imperfections:
        """Those of a twin, with this difference; the floor is not part of them."""
        motors = imperfections.motors
        nominal = per_joint(motors.friction, robot, "motors.friction")
        dry = nominal + (self.friction - 1.0) * np.maximum(nominal, LEAST_FRICTION)
        delay = per_joint(motors.delay, robot, "motors.delay") + self.delay_s
        changed = motors.model_copy(
            update={
                "strength": times(motors.strength, self.strength, most=1.5),
                "delay": named(robot, np.maximum(delay, 0.0)),
                "friction": named(robot, np.maximum(dry, 0.0)),
            }
        )
        trunk = imperfections.trunk
        trunk = trunk.model_copy(update={"mass": trunk.mass + self.payload})
        return imperfections.model_copy(update={"motors": changed, "trunk": trunk})


# What is searched for: one unit of each, its bounds, and the step of the finite differences.
UNITS = {"friction": 1.0, "payload": 2.0, "floor": 0.5}
BOUNDS = {"friction": (0.0, 8.0), "payload": (-4.0, 8.0), "floor": (0.15, 2.0)}
STEPS = {"friction": 0.3, "payload": 0.4, "floor": -0.15}
PRIOR = 0.002  # of the evidence in one unit: holds what the walk does not show where it was


def fit_world(
    walk: Walk, imperfections: Imperfections, floor: Floor, known: World
) -> tuple[World, float]:
    """Starting from what is known; also the rms error that stays, in JOINT_SCALE."""
    quiet = imperfections.without_chance()
    motion = motion_of_walk(walk)
    starts = _starts(walk)

    def errors(world: World) -> Array:
        return _errors(world.twin(walk.robot, quiet, floor), motion, starts)

    world, now = known, errors(known)
    for _ in range(ROUNDS):
        slopes = []
        for name, step in STEPS.items():
            moved = replace(world, **{name: getattr(world, name) + step})
            slopes.append((errors(moved) - now) / step * UNITS[name])
        slope = np.stack(slopes, axis=1)
        away = [(getattr(world, n) - getattr(known, n)) / UNITS[n] for n in STEPS]
        prior = PRIOR * len(now) * np.eye(len(STEPS))
        change = -np.linalg.solve(slope.T @ slope + prior, slope.T @ now + prior @ np.array(away))
        better = None
        for share in (1.0, 0.5, 0.25):
            tried = _moved(world, share * change)
            found = errors(tried)
            if found @ found < now @ now:
                better = tried, found
                break
        if better is None:
            break
        world, now = better
        if np.abs(change).max() < 0.02:
            break
    return world, float(np.sqrt(np.mean(now**2)))


def motion_of_walk(walk: Walk) -> RecordedStates:
    return RecordedStates(
        q=walk["q"],
        dq=walk["dq"],
        torque=walk["torque"],
        quaternion=walk["quaternion"],
        rate=walk["gyroscope"],
        velocity=walk["velocity"],
        commands=walk.samples,
    )


def _moved(world: World, change: Array) -> World:
    values = {}
    for name, by in zip(STEPS, change.tolist(), strict=True):
        low, high = BOUNDS[name]
        values[name] = min(max(getattr(world, name) + by * UNITS[name], low), high)
    return replace(world, **values)


def _starts(walk: Walk) -> list[int]:
    first = walk.settled.start
    last = len(walk) - round(WINDOW_S * walk.rate_hz) - 2
    return [int(row) for row in np.linspace(first, last, WINDOWS)]


def _errors(twin: TwinRobot, motion: RecordedStates, starts: Sequence[int]) -> Array:
    steps = round(WINDOW_S * twin.robot.wire.rate_hz)
    looks = np.arange(EVERY - 1, steps, EVERY)
    found = []
    for start in starts:
        q, _, _ = roll_out(twin, motion, start, steps, LEAD_IN)
        found.append((q[looks] - motion.q[start + 1 + looks]) / JOINT_SCALE)
    return np.asarray(np.clip(np.concatenate(found), -MOST, MOST).ravel())
