"""Rewards as small named functions of one control step, for all environments at once.

A config names the ones it wants with their weights; what each is for stands in its docstring.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.training.config import TrainingConfig

Array = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Snapshot:
    """One control step of every environment. First axis: environments."""

    command: Array  # vx, vy, wz wanted
    velocity: Array  # of the trunk, in its own frame
    turning: Array  # of the trunk, in its own frame
    up: Array  # the world's vertical in the trunk's frame
    lean: Array  # of the trunk against the ground's slope: roll and pitch parts of `up`
    q: Array  # from the default pose
    sideways: Array  # by joint: 1 where it swings a leg sideways
    dq: Array
    dq_share: Array  # |dq| as a share of the joint's velocity limit
    ddq: Array
    torque: Array
    action: Array
    last_action: Array
    action_before: Array
    contact: Flags  # by foot
    foot_height: Array  # above the ground under it
    step_ahead: Array  # by foot: how far the ground rises in front of it
    swing_height: Array  # by foot: m, the mean of its last swing
    swing_ended: Array  # by foot that lands now: how many control steps it was up; else 0
    foot_speed: Array  # along the ground
    base_height: Array  # above the ground under the feet
    knee_height: Array  # by leg: above the ground under it
    beyond_range: Array  # by joint: how far the target is outside the range that is allowed
    phase: Array  # by foot: where in its own period the clock stands, 0 to 1
    uneven: Flags  # not on flat ground
    calm: Flags  # told to stand, upright and hardly moving: all feet are meant to stand
    recovering: Flags  # from a push: feet may step as they must


Reward = Callable[[Snapshot, TrainingConfig], Array]
REWARDS: dict[str, Reward] = {}
FAST_JOINT = 0.75  # share of the velocity limit above which `joint_speed` counts


def reward(function: Reward) -> Reward:
    REWARDS[function.__name__] = function
    return function


def _sum(values: npt.NDArray[Any]) -> Array:
    """Over feet, legs or joints."""
    return np.asarray(values.sum(1), np.float32)


def stance_wanted(s: Snapshot, config: TrainingConfig) -> Flags:
    return (s.phase < config.gait.stance) | s.calm[:, None]


def _tracking(error: Array, config: TrainingConfig) -> Array:
    """A slope for direction, a wide bell to get near and a narrow one for precision: bells alone
    teach marching in place, and a narrow one alone standing still."""
    shape = config.shape
    wide = np.exp(-np.square(error / shape.tracking_wide))
    narrow = np.exp(-np.square(error / shape.tracking_narrow))
    slope = 1.0 - np.minimum(np.abs(error), shape.tracking_reach)
    shares = shape.tracking_shares
    return np.asarray(shares[0] * wide + shares[1] * narrow + shares[2] * slope, np.float32)


@reward
def track_vx(s: Snapshot, config: TrainingConfig) -> Array:
    return _tracking(s.velocity[:, 0] - s.command[:, 0], config)


@reward
def track_vy(s: Snapshot, config: TrainingConfig) -> Array:
    return _tracking(s.velocity[:, 1] - s.command[:, 1], config)


@reward
def track_wz(s: Snapshot, config: TrainingConfig) -> Array:
    return _tracking(s.turning[:, 2] - s.command[:, 2], config)


@reward
def gait(s: Snapshot, config: TrainingConfig) -> Array:
    """Feet on the ground when the clock says so, and only then. It counts less on terrain, and not
    while the robot recovers from a push."""
    match = (s.contact == stance_wanted(s, config)).mean(1)
    counts = np.where(s.uneven, config.gait.on_terrain, 1.0) * ~s.recovering
    return np.asarray(1.0 - counts * (1.0 - match), np.float32)


@reward
def alive(s: Snapshot, config: TrainingConfig) -> Array:
    return np.ones(len(s.command), np.float32)


@reward
def swing_height(s: Snapshot, config: TrainingConfig) -> Array:
    """How far each swinging foot stays below an arch, over the step in front of it if there is
    one."""
    share = np.clip((s.phase - config.gait.stance) / (1 - config.gait.stance), 0, 1)
    top = config.gait.swing_height + s.step_ahead
    wanted = top * np.sin(np.pi * share) * ~(s.calm | s.recovering)[:, None]
    return _sum(np.square(np.minimum(s.foot_height - wanted, 0) * (wanted > 0)))


@reward
def clearance(s: Snapshot, config: TrainingConfig) -> Array:
    """How far the last swings of all feet were, on average, below `gait.clearance`, for each step
    of a swing that ends. Unlike an arch, a mean leaves it to the robot how it lifts which foot: as
    costs least."""
    short = np.maximum(config.gait.clearance - s.swing_height.mean(1), 0)
    return np.asarray(short * _sum(s.swing_ended) * ~(s.calm | s.recovering))


@reward
def vertical_speed(s: Snapshot, config: TrainingConfig) -> Array:
    return np.square(s.velocity[:, 2])


@reward
def roll_pitch_rate(s: Snapshot, config: TrainingConfig) -> Array:
    return _sum(np.square(s.turning[:, :2]))


@reward
def tilt(s: Snapshot, config: TrainingConfig) -> Array:
    """Out of line with the ground."""
    return _sum(np.square(s.lean))


@reward
def base_height(s: Snapshot, config: TrainingConfig) -> Array:
    return np.asarray(np.square(s.base_height - config.shape.base_height))


@reward
def knee_clearance(s: Snapshot, config: TrainingConfig) -> Array:
    """Knees near the ground: without it the robot learns to sit on its hind legs."""
    low = np.maximum(config.shape.knee_height - s.knee_height, 0) / config.shape.knee_height
    return _sum(low)


@reward
def torque(s: Snapshot, config: TrainingConfig) -> Array:
    return _sum(np.square(s.torque))


@reward
def joint_acceleration(s: Snapshot, config: TrainingConfig) -> Array:
    return _sum(np.square(s.ddq))


@reward
def joint_speed(s: Snapshot, config: TrainingConfig) -> Array:
    """Joints near their velocity limit, at which the robot's safety chain stops it."""
    return _sum(np.square(np.maximum(s.dq_share - FAST_JOINT, 0)))


@reward
def action_rate(s: Snapshot, config: TrainingConfig) -> Array:
    return _sum(np.square(s.action - s.last_action))


@reward
def action_jerk(s: Snapshot, config: TrainingConfig) -> Array:
    return _sum(np.square(s.action - 2 * s.last_action + s.action_before))


@reward
def foot_slip(s: Snapshot, config: TrainingConfig) -> Array:
    return _sum(np.square(s.foot_speed) * s.contact)


@reward
def hip_pose(s: Snapshot, config: TrainingConfig) -> Array:
    """Joints that swing the legs sideways (the mirror turns them over) stay near the default."""
    return _sum(np.square(s.q * s.sideways))


@reward
def pose(s: Snapshot, config: TrainingConfig) -> Array:
    return _sum(np.square(s.q))


@reward
def standing_still(s: Snapshot, config: TrainingConfig) -> Array:
    """At zero command and undisturbed: the default pose, without moving."""
    return _sum(np.abs(s.q) + 0.1 * np.abs(s.dq)) * s.calm


@reward
def target_range(s: Snapshot, config: TrainingConfig) -> Array:
    """Targets that the robot's limits would cut."""
    return _sum(s.beyond_range)


@reward
def power(s: Snapshot, config: TrainingConfig) -> Array:
    """Mechanical power. A recovery may cost what it must."""
    return _sum(np.abs(s.torque * s.dq)) * ~s.recovering
