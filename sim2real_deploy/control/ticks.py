"""One row per tick of the loop, kept in memory that is there from the start.

The loop writes, one other thread drains; neither waits for the other. A reader that falls behind
loses the oldest rows, and they are counted.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.controller import Controller
from sim2real_deploy.robots.state import Floats

CAPACITY = 2048

# What a row of figures holds, before one column of limit bits per joint. Times are ns.
COLUMNS = (
    "tick",
    "now_ns",
    "state_tick",  # the robot's counter of the state in use; -1 before the first
    "mode",
    "vx",  # the shaped command, as the policy was given it
    "vy",
    "wz",
    "policy_stepped",
    "age_ns",  # from the state's arrival to the command's departure
    "gap_ns",  # since the tick before
    "work_ns",  # of the whole tick
    "observe_ns",
    "infer_ns",
    "write_ns",
    "missed",  # the gap was longer than two periods
    "surprise",
)


@dataclass(slots=True)
class Ticks:
    """Rows that were drained, oldest first."""

    figures: npt.NDArray[np.float64]  # one column per name of TickRing.columns
    asked: Floats  # rows of (q, dq, kp, kd, torque) x joints
    sent: Floats
    observation: Floats  # valid where policy_stepped
    action: Floats

    def column(self, name: str) -> npt.NDArray[np.float64]:
        values: npt.NDArray[np.float64] = self.figures[:, COLUMNS.index(name)]
        return values

    @property
    def limits(self) -> npt.NDArray[np.float64]:
        bits: npt.NDArray[np.float64] = self.figures[:, len(COLUMNS) :]
        return bits


class TickRing:
    def __init__(self, controller: Controller, capacity: int = CAPACITY) -> None:
        joints = controller.spec.joint_names
        policy = controller.policy
        self.columns = (*COLUMNS, *(f"limit.{name}" for name in joints))
        self.written = 0
        self.dropped = 0
        self._read = 0
        self._capacity = capacity
        self._controller = controller
        self._rows = Ticks(
            figures=np.zeros((capacity, len(self.columns))),
            asked=np.zeros((capacity, 5, len(joints)), np.float32),
            sent=np.zeros((capacity, 5, len(joints)), np.float32),
            observation=np.zeros((capacity, len(policy.labels) if policy else 0), np.float32),
            action=np.zeros((capacity, len(joints)), np.float32),
        )

    def write(self, now_ns: int, age_ns: int, gap_ns: int, work_ns: int, write_ns: int) -> None:
        """Take this tick's row down. Called by the loop alone."""
        controller, rows = self._controller, self._rows
        index = self.written % self._capacity
        state, policy = controller.state, controller.policy
        vx, vy, wz = controller.velocity.shaped.tolist()
        figures = rows.figures[index]
        figures[: len(COLUMNS)] = (
            self.written,
            now_ns,
            -1 if state is None else state.tick,
            controller.mode,
            vx,
            vy,
            wz,
            controller.policy_stepped,
            age_ns,
            gap_ns,
            work_ns,
            controller.observe_ns,
            controller.infer_ns,
            write_ns,
            gap_ns > 2 * controller.period_ns,
            controller.surprise,
        )
        figures[len(COLUMNS) :] = controller.limiter.acted
        rows.asked[index] = controller.asked_block
        rows.sent[index] = controller.limiter.sent_block
        if policy is not None and controller.policy_stepped:
            rows.observation[index] = policy.observation
            rows.action[index] = policy.action
        self.written += 1

    def drain(self) -> Ticks:
        """Copies of all rows since the last call."""
        written = self.written
        oldest = max(self._read, written - self._capacity + 64)  # a margin to the writer
        self.dropped += oldest - self._read
        index = np.arange(oldest, written) % self._capacity
        self._read = written
        rows = self._rows
        return Ticks(
            rows.figures[index],
            rows.asked[index],
            rows.sent[index],
            rows.observation[index],
            rows.action[index],
        )
