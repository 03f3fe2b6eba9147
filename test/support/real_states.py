"""Recordings of real robots as the LowState messages they were, for the safety tests.

The recordings hold what moves; the rest (battery, temperatures, remote) is a healthy robot's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotState
from sim2real_deploy.wire.encoders import StateEncoder
from support.places import SHARED_DATA
from support.safety_world import GO2, healthy_state

FOLDER = SHARED_DATA / "real" / "go2_lowstate"
PERIOD_S = 0.002


def recordings() -> list[Path]:
    return sorted(FOLDER.glob("*.npz"))


def is_undisturbed(path: Path) -> bool:
    """The others have a leg caught by a wire or held by hand."""
    return path.stem.startswith(("walking", "stop"))


class RealStates:
    """`samples` yields (time in ns, bytes): evenly at 500 Hz, or in the bursts they came in."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as content:
            self._parts: dict[str, npt.NDArray[Any]] = {name: content[name] for name in content}
        self._times = self._parts["time"] - self._parts["time"][0]
        self._encoder = StateEncoder(GO2)

    def samples(self, bursty: bool) -> Iterator[tuple[int, bytes]]:
        if bursty:
            # Their receiver lost some: in as many bursts, but at the robot's own rate.
            count = len(self._times)
            arrivals = self._times * (count * PERIOD_S / self._times[-1])
            rows = np.arange(count)
        else:
            arrivals = np.arange(0.0, self._times[-1], PERIOD_S)
            rows = np.searchsorted(self._times, arrivals)
        for number, (arrival, row) in enumerate(zip(arrivals, rows, strict=True)):
            now_ns = 1_000_000 + round(arrival * 1e9)
            yield now_ns, self._encoder.encode(self._state(int(row), 2 * number, now_ns))

    def _state(self, row: int, tick: int, now_ns: int) -> RobotState:
        part = {name: values[row].astype(np.float32) for name, values in self._parts.items()}
        return healthy_state(
            now_ns,
            tick=tick,
            q=part["q"],
            dq=part["dq"],
            torque=part["tau"],
            gyroscope=part["gyro"],
            accelerometer=part["acc"],
            quaternion=_quaternion(*(part["rpy"] / 2)),
        )


def _quaternion(roll: float, pitch: float, yaw: float) -> npt.NDArray[np.float32]:
    """Of half angles."""
    cr, cp, cy = np.cos((roll, pitch, yaw))
    sr, sp, sy = np.sin((roll, pitch, yaw))
    return np.float32(
        [
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ]
    )
