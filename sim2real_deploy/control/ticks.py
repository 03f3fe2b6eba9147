"""A ring buffer with one row per tick of the loop, allocated once.

The loop writes and one other thread drains; neither waits for the other. A reader that falls behind
loses the oldest rows; they are counted.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.controller import Controller
from sim2real_deploy.robots.state import Floats

CAPACITY = 2048

# The columns of a row, and the attribute of the ring that holds each value; times are ns. After
# them comes one column of limit bits per joint.
FIGURES = {
    "tick": "written",
    "now_ns": "now_ns",
    "state_tick": "state_tick",  # the robot's counter in the state used; -1 before the first
    "mode": "controller.mode",
    "vx": "vx",  # the shaped command; the policy gets its sum with the trim (policy_command)
    "vy": "vy",
    "wz": "wz",
    # Bit k: policy k stepped; during a switch the policy being left steps one tick later.
    "policy_stepped": "controller.walking.stepped",
    "policy": "controller.repertoire.active",  # index of the active policy
    "age_ns": "age_ns",  # from the arrival of the state to the sending of the command
    "gap_ns": "gap_ns",  # since the previous tick
    "work_ns": "work_ns",  # duration of the whole tick
    "observe_ns": "controller.walking.observe_ns",
    "infer_ns": "controller.walking.infer_ns",
    "write_ns": "write_ns",
    "missed": "late",  # came over a period after it was due; lost states do not count
    "surprise": "surprise",
    # Total time for which a twin's world clock has waited for a stalled machine; 0 on a robot.
    "stood_still_ns": "stood_still_ns",
    "trim_vx": "trim_vx",  # adaptation's correction of the shaped command
    "trim_vy": "trim_vy",
    "trim_wz": "trim_wz",
}
COLUMNS = tuple(FIGURES)
AXES = ("vx", "vy", "wz")
_values = attrgetter(*FIGURES.values())
_FIGURES = struct.Struct(f"={len(COLUMNS)}d")


@dataclass(slots=True)
class Ticks:
    """Drained rows, oldest first."""

    figures: npt.NDArray[np.float64]  # one column per name of TickRing.columns
    asked: Floats  # rows of (q, dq, kp, kd, torque) x joints
    sent: Floats
    observations: tuple[Floats, ...]  # by policy; valid where its bit of policy_stepped is set
    actions: tuple[Floats, ...]
    estimates: tuple[Floats, ...]  # no columns where a policy tells none

    def column(self, name: str) -> npt.NDArray[np.float64]:
        values: npt.NDArray[np.float64] = self.figures[:, COLUMNS.index(name)]
        return values

    def steps_of(self, policy: int) -> npt.NDArray[np.intp]:
        """The rows in which this policy stepped."""
        return np.flatnonzero(self.column("policy_stepped").astype(np.int64) >> policy & 1)

    @property
    def limits(self) -> npt.NDArray[np.float64]:
        bits: npt.NDArray[np.float64] = self.figures[:, len(COLUMNS) :]
        return bits


def policy_command(column: Mapping[str, npt.NDArray[np.float64]]) -> Floats:
    """The velocity commands that the policy was given, of columns by name. Old recordings hold no
    correction."""
    shaped = np.stack([column[axis] for axis in AXES], axis=1)
    trim = np.stack([column.get(f"trim_{a}", np.zeros(len(shaped))) for a in AXES], axis=1)
    given: Floats = shaped.astype(np.float32) + trim.astype(np.float32)
    return given


class StepColumns(NamedTuple):
    """The rows of one policy's steps, for compiled loops."""

    bit: Any  # one number: see `policy_stepped`
    observations: Any
    actions: Any
    estimates: Any

    @classmethod
    def nothing(cls) -> "StepColumns":
        """Never used, but of the same types."""
        return cls(np.zeros(1, np.int64), *np.zeros((3, 1, 1), np.float32))


class _Column:
    """Copies of one array, a row per tick. Copying bytes is several times faster than assigning."""

    def __init__(self, source: npt.NDArray[Any], capacity: int) -> None:
        self.rows = np.zeros((capacity, *source.shape), source.dtype)
        self._source = source.reshape(-1).view(np.uint8).data
        self._memory, self._size = self.rows.reshape(-1).view(np.uint8).data, source.nbytes

    def copy(self, row: int) -> None:
        self._memory[row * self._size : (row + 1) * self._size] = self._source


class TickRing:
    """`write` adds a row; compiled loops write theirs into the arrays, then count them."""

    def __init__(self, controller: Controller, capacity: int = CAPACITY) -> None:
        joints = controller.spec.joint_names
        policies = controller.repertoire.policies
        self.columns = (*COLUMNS, *(f"limit.{name}" for name in joints))
        self.count = np.zeros(1, np.int64)  # rows written
        self._count = self.count.data
        self.dropped = 0
        self._read = 0
        self._capacity = capacity
        self.controller = controller
        self.surprise = 0.0
        self.figures = np.zeros((capacity, len(COLUMNS)))
        self._figures_memory = self.figures.reshape(-1).view(np.uint8).data
        limiter = controller.limiter
        sources = (limiter.acted_bits, controller.asked_block, limiter.sent_block)
        self._every_tick = [_Column(source, capacity) for source in sources]
        self.limits, self.asked, self.sent = (column.rows for column in self._every_tick)
        self._policy_steps = [
            [_Column(source, capacity) for source in (p.observation, p.action, p.estimates)]
            for p in policies
        ]
        self.step_columns = [
            StepColumns(np.array([1 << k]), *(column.rows for column in columns))
            for k, columns in enumerate(self._policy_steps)
        ]

    @property
    def written(self) -> int:
        """The number of rows; compiled loops count theirs, too."""
        return self._count[0]

    def write(
        self,
        now_ns: int,
        age_ns: int,
        gap_ns: int,
        work_ns: int,
        write_ns: int,
        late: bool,
        stood_still_ns: int = 0,
    ) -> None:
        """Write this tick's row. Called by the loop alone."""
        controller, state = self.controller, self.controller.state
        if controller.walking.stepped:
            self.surprise = controller.surprise
        self.now_ns, self.age_ns, self.gap_ns = now_ns, age_ns, gap_ns
        self.work_ns, self.write_ns, self.stood_still_ns = work_ns, write_ns, stood_still_ns
        self.late = late
        self.state_tick = -1 if state is None else state.tick
        self.vx, self.vy, self.wz = controller.velocity.shaped
        self.trim_vx, self.trim_vy, self.trim_wz = controller.velocity.trim
        row = self.written % self._capacity
        _FIGURES.pack_into(self._figures_memory, row * _FIGURES.size, *_values(self))
        for column in self._every_tick:
            column.copy(row)
        if controller.walking.stepped:
            for k, columns in enumerate(self._policy_steps):
                if controller.walking.stepped >> k & 1:
                    for column in columns:
                        column.copy(row)
        self._count[0] += 1

    @property
    def newest(self) -> int:
        """The place of the last row."""
        return (self.written - 1) % self._capacity

    def drain(self) -> Ticks:
        """Copies of all rows since the last call."""
        written = self.written
        oldest = max(self._read, written - self._capacity + 64)  # keep clear of the writer
        self.dropped += oldest - self._read
        rows = np.arange(oldest, written) % self._capacity
        self._read = written
        observations, actions, estimates = (
            tuple(columns[k].rows[rows] for columns in self._policy_steps) for k in range(3)
        )
        return Ticks(
            np.concatenate([self.figures[rows], self.limits[rows]], 1),
            self.asked[rows],
            self.sent[rows],
            observations,
            actions,
            estimates,
        )
