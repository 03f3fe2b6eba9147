"""How different two walks are: by channel, and to a classifier that sees all channels at once."""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.gap.walk import Array, Walk

AXES = ("x", "y", "z")
FOLDS = 5  # where there are too few commands to make one fold of each
LEAST_COMMANDS = 3
PAUSE_S = 0.5  # between two changes of command that are not one ramp
EVERY_S = 0.02
RIDGE = 30.0
STEPS = 8  # of Newton's method, at most


def channels(walk: Walk) -> dict[str, Array]:
    """What both sides measure while they walk, by name."""
    rows = walk.moving
    joints = walk.robot.joint_names
    found: dict[str, Array] = {}
    kinds = {
        "position": walk["q"][rows],
        "velocity": walk["dq"][rows],
        "tracking": (walk["target"] - walk["q"])[rows],
    }
    if walk.torque_known:
        kinds["torque"] = walk["torque"][rows]
    for kind, values in kinds.items():
        found |= {f"{kind} {joint}": values[:, i] for i, joint in enumerate(joints)}
    for i, axis in enumerate(AXES):
        found[f"gyro {axis}"] = walk["gyroscope"][rows, i]
    for i, axis in enumerate(AXES[:2]):
        found[f"gravity {axis}"] = walk["gravity"][rows, i]
    for i, axis in enumerate(AXES[:2]):
        found[f"speed {axis}"] = walk["velocity"][rows, i]
    return found


def wasserstein(a: Array, b: Array) -> float:
    """Mean distance between equal quantiles, in standard deviations of both together."""
    shares = (np.arange(200) + 0.5) / 200
    spread = np.concatenate((a, b)).std()
    if spread < 1e-9:
        return 0.0
    return float(np.abs(np.quantile(a, shares) - np.quantile(b, shares)).mean() / spread)


def distances(robot: Walk, twin: Walk) -> dict[str, float]:
    """Normalised Wasserstein distance by channel, the furthest first."""
    one, other = channels(robot), channels(twin)
    found = {name: wasserstein(one[name], other[name]) for name in one if name in other}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def auc(robot: Walk, twin: Walk) -> float:
    """How well a classifier tells rows of one from rows of the other that it has not seen.

    0.5: not at all; 1: always. Logistic regression on all channels and their squares.
    """
    one, other = channels(robot), channels(twin)
    names = [name for name in one if name in other]
    length = min(len(one[names[0]]), len(other[names[0]]))
    every = max(1, round(EVERY_S * robot.rate_hz))
    parts = [
        np.stack([side[name][:length:every] for name in names], axis=1) for side in (one, other)
    ]
    rows = np.concatenate(parts)
    rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-9)
    rows = np.clip(rows, -4, 4)
    features = np.hstack([rows, rows**2 - 1, np.ones((len(rows), 1))])
    label = np.repeat((1.0, 0.0), len(parts[0]))
    stretch = _stretches(robot)[:length:every]
    fold = np.tile(stretch, 2)
    found = []
    for number in np.unique(stretch):
        held = fold == number
        weights = _fitted(features[~held], label[~held])
        found.append(_area(features[held] @ weights, label[held]))
    return float(np.mean(found))


def _stretches(walk: Walk) -> npt.NDArray[np.int64]:
    """To which fold each row belongs: one for each command, so that a habit which one run keeps
    while a command lasts does not count; else one for each fifth of the walk."""
    command = walk["command"][walk.moving]
    changed = np.append(False, np.abs(np.diff(command, axis=0)).max(axis=1) > 1e-3)
    rows = np.flatnonzero(changed)
    begins = rows[np.diff(rows, prepend=-len(command)) > PAUSE_S * walk.rate_hz]
    if len(begins) + 1 < LEAST_COMMANDS:
        return np.arange(len(command)) * FOLDS // len(command)
    return np.searchsorted(begins, np.arange(len(command)), side="right")


def _fitted(features: Array, label: Array) -> Array:
    """Weights of a logistic regression with a ridge penalty."""
    weights = np.zeros(features.shape[1])
    penalty = np.full(len(weights), RIDGE)
    penalty[-1] = 1e-6
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        slope = features.T @ (chance - label) + penalty * weights
        bend = (features * (chance * (1 - chance))[:, None]).T @ features + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        weights -= step
        if np.abs(step).max() < 1e-4:
            break
    return weights


def _area(scores: Array, label: Array) -> float:
    """Area under the ROC curve, by ranks."""
    rank = np.empty(len(scores))
    rank[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    ones = label > 0
    count, others = int(ones.sum()), int((~ones).sum())
    return float((rank[ones].sum() - count * (count + 1) / 2) / (count * others))
