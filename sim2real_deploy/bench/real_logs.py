"""Reads public recordings of real Go2 robots from a folder; they are not part of the project."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy import paths
from sim2real_deploy.identify.recording import Recording, from_arrays
from sim2real_deploy.robots import RobotSpec

Array = npt.NDArray[np.float64]

SEEN = ("torque_9hz_kp25_kd1.25", "torque_9hz_kp25_kd3.00", "torque_5hz_kp25_kd5.00")
WALK_PERIOD = 0.005  # s between rows of go2_walk
WALK_GAINS = (25.0, 0.5)
SCALE = 0.25  # of an action, rad
ISAAC_REST = np.array([0.1, -0.1, 0.1, -0.1, 0.8, 0.8, 1.0, 1.0, -1.5, -1.5, -1.5, -1.5])
ISAAC_ORDER = [
    f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")
]


def beside() -> Path | None:
    """The folder of recordings, if it exists."""
    folder = paths.share_directory().parent / "shared" / "data" / "real"
    return folder if folder.is_dir() else None


def chirps(folder: Path | None) -> dict[str, Path]:
    """Recordings with torque, by name; empty if one of SEEN is missing."""
    found = _named(folder, "go2_chirp", "torque_*.npz")
    return found if all(name in found for name in SEEN) else {}


def walks(folder: Path | None) -> dict[str, Path]:
    return _named(folder, "go2_walk", "*_trial_*.npz")


def chirp(path: Path, robot: RobotSpec) -> Recording:
    with np.load(path) as log:
        rows = len(log["q"])
        columns = {"q": log["q"], "dq": log["dq"], "torque": log["tau"], "target_q": log["q_des"]}
        columns |= {key: np.full(rows, float(log[key])) for key in ("kp", "kd")}
    return from_arrays(path.stem, robot, columns)


def walk(path: Path, robot: RobotSpec) -> Recording:
    """Resampled to the robot's wire rate: states interpolated, targets held until the next row."""
    with np.load(path) as log:
        seen = np.asarray(log["obs"], np.float64)
    order = [ISAAC_ORDER.index(name) for name in robot.joint_names]
    at = np.arange(len(seen)) * WALK_PERIOD
    times = np.arange(0.0, at[-1], 1 / robot.wire.rate_hz)
    held = np.minimum((times / WALK_PERIOD + 1e-6).astype(int), len(seen) - 1)

    def between(columns: Array) -> Array:
        return np.stack([np.interp(times, at, column) for column in columns.T], axis=1)

    kp, kd = WALK_GAINS
    columns = {
        "q": between((seen[:, 12:24] + ISAAC_REST)[:, order]),
        "dq": between(seen[:, 24:36][:, order]),
        "target_q": (ISAAC_REST + SCALE * seen[:, 36:48])[:, order][held],
        "gyroscope": between(seen[:, 3:6]),
        "gravity": between(seen[:, 6:9]),
        "kp": np.full(len(times), kp),
        "kd": np.full(len(times), kd),
    }
    return from_arrays(path.stem, robot, columns)


def _named(folder: Path | None, part: str, pattern: str) -> dict[str, Path]:
    if folder is None:
        return {}
    return {path.stem: path for path in sorted((folder / part).glob(pattern))}
