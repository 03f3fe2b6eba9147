"""A ring buffer with one row per tick of the loop, allocated once.

The loop writes and one other thread drains; neither waits for the other. A reader that falls behind
loses the oldest rows; they are counted.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

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
    "missed": "missed",  # the gap was longer than two periods
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


class TickRing:
    """Written by copying bytes, which is several times faster than assigning to numpy records."""

    def __init__(self, controller: Controller, capacity: int = CAPACITY) -> None:
        joints = controller.spec.joint_names
        policies = controller.repertoire.policies
        self.columns = (*COLUMNS, *(f"limit.{name}" for name in joints))
        self.written = 0
        self.dropped = 0
        self._read = 0
        self._capacity = capacity
        self.controller = controller
        self.surprise = 0.0
        row = np.dtype(
            [
                ("figures", np.float64, len(COLUMNS)),
                ("limits", np.uint8, len(joints)),
                ("asked", np.float32, (5, len(joints))),
                ("sent", np.float32, (5, len(joints))),
                *((f"observation{k}", np.float32, len(p.labels)) for k, p in enumerate(policies)),
                *((f"action{k}", np.float32, len(p.action)) for k, p in enumerate(policies)),
                *((f"told{k}", np.float32, len(p.estimated)) for k, p in enumerate(policies)),
            ]
        )
        self._rows = np.zeros(capacity, row)
        self._bytes = self._rows.view(np.uint8).data
        self._row_size = row.itemsize
        self._places = {name: offset for name, (_, offset, *_) in (row.fields or {}).items()}
        self._every_tick = [
            self._copied("limits", controller.limiter.acted_bits),
            self._copied("asked", controller.asked_block),
            self._copied("sent", controller.limiter.sent_block),
        ]
        self._policy_steps = [
            (
                1 << k,
                self._copied(f"observation{k}", policy.observation),
                self._copied(f"action{k}", policy.action),
                self._copied(f"told{k}", policy.estimates),
            )
            for k, policy in enumerate(policies)
        ]

    def _copied(self, field: str, source: npt.NDArray[np.generic]) -> tuple[int, int, memoryview]:
        """Start and end of a field in a row, and the memory that is copied there."""
        start = self._places[field]
        return start, start + source.nbytes, source.reshape(-1).view(np.uint8).data

    def write(
        self,
        now_ns: int,
        age_ns: int,
        gap_ns: int,
        work_ns: int,
        write_ns: int,
        stood_still_ns: int = 0,
    ) -> None:
        """Write this tick's row. Called by the loop alone."""
        controller, state = self.controller, self.controller.state
        if controller.walking.stepped:
            self.surprise = controller.surprise
        self.now_ns, self.age_ns, self.gap_ns = now_ns, age_ns, gap_ns
        self.work_ns, self.write_ns, self.stood_still_ns = work_ns, write_ns, stood_still_ns
        self.state_tick = -1 if state is None else state.tick
        self.missed = gap_ns > 2 * controller.period_ns
        self.vx, self.vy, self.wz = controller.velocity.shaped
        self.trim_vx, self.trim_vy, self.trim_wz = controller.walking.trim
        at, into = self.written % self._capacity * self._row_size, self._bytes
        _FIGURES.pack_into(into, at, *_values(self))
        for start, end, source in self._every_tick:
            into[at + start : at + end] = source
        if controller.walking.stepped:
            for bit, *copies in self._policy_steps:
                if controller.walking.stepped & bit:
                    for start, end, source in copies:
                        into[at + start : at + end] = source
        self.written += 1

    def drain(self) -> Ticks:
        """Copies of all rows since the last call."""
        written = self.written
        oldest = max(self._read, written - self._capacity + 64)  # keep clear of the writer
        self.dropped += oldest - self._read
        rows = self._rows[np.arange(oldest, written) % self._capacity]
        self._read = written
        return Ticks(
            np.concatenate([rows["figures"], rows["limits"]], 1),
            rows["asked"],
            rows["sent"],
            tuple(rows[f"observation{k}"] for k in range(len(self._policy_steps))),
            tuple(rows[f"action{k}"] for k in range(len(self._policy_steps))),
            tuple(rows[f"told{k}"] for k in range(len(self._policy_steps))),
        )
