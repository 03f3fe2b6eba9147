"""The motor boards' side of rt/lowcmd: accept or reject commands, damp after a timeout."""

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.motors import MotorCommand
from sim2real_deploy.wire.decoders import CommandDecoder, Flaw
from sim2real_deploy.wire.messages import FAMILIES

MAX_KP = 1000.0  # Nm/rad; larger gains must be a mistake
MAX_KD = 100.0  # Nms/rad
_MOST = np.array([[MAX_KP], [MAX_KD]], np.float32)
_PD = ("q", "dq", "tau", "kp", "kd")  # adjacent in a sample, and the rows of a MotorCommand
WHOLE = 1e-6  # of a step: tolerance within which a gain counts as a whole multiple
STOP_VALUE = 1e4  # the vendor's "no position" and "no velocity" are larger, targets far smaller


def whole_steps(
    gains: npt.NDArray[np.float64], step: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Gains truncated to whole steps; a joint whose step is zero keeps its gain."""
    known = np.where(step > 0, step, 1.0)
    return np.where(step > 0, np.floor(gains / known + WHOLE) * known, gains)


@dataclass(slots=True)
class CommandCounters:
    """How many commands had each outcome."""

    accepted: int = 0
    bad_crc: int = 0
    bad_length: int = 0
    not_finite: int = 0
    bad_gain: int = 0
    timeouts: int = 0

    @property
    def rejected(self) -> int:
        return self.bad_crc + self.bad_length + self.not_finite + self.bad_gain


class Boards:
    """Holds the last accepted command; a bad one only increments a counter.

    `strength` scales each motor's gains and torque; gains are truncated to whole steps of
    `gain_step`, where that is not zero.
    """

    def __init__(
        self,
        robot: RobotSpec,
        timeout_s: float,
        strength: npt.NDArray[np.float64],
        gain_step: npt.NDArray[np.float64] | None = None,
    ) -> None:
        joints = robot.joint_count
        layout = FAMILIES[robot.wire.family].command
        self._decoder = CommandDecoder(robot)
        first, _, step = layout.floats("motor_cmd.q", joints).indices(layout.size)
        self._table = ((len(_PD), joints), np.float32), (4 * first, (4, 4 * step))
        self._modes = itemgetter(*layout.irregular["motor_cmd.mode"][:joints].tolist())
        self._all_running = (1,) * joints
        self._damping = robot.damping
        self._timeout_ns = round(timeout_s * 1e9)
        self.command = MotorCommand(joints)
        self.command.damp(self._damping)
        self.counters = CommandCounters()
        self.alive = False  # a good command came within the timeout
        self._accepted_ns = 0
        self._targets = self.command.targets.reshape(-1)
        self._ones = np.ones(2 * joints)
        self._known = b""  # the sample in force; control repeats it until the next policy step
        self._strength = np.full((3, joints), strength)
        self._gain_step = gain_step if gain_step is not None and gain_step.any() else None

    def receive(self, sample: bytes, now_ns: int) -> bool:
        """Accept a command, or count why not."""
        if sample != self._known:
            if not self._take_over(sample):
                return False
            self._known = sample
        self.counters.accepted += 1
        self._accepted_ns, self.alive = now_ns, True
        return True

    def _take_over(self, sample: bytes) -> bool:
        flaw = self._decoder.flaw(sample)
        if flaw is not None:
            self._count(flaw)
            return False
        kind, place = self._table
        asked = np.ndarray(*kind, sample, *place)
        gains = asked[3:]
        if (gains < 0).any() or (gains > _MOST).any():
            self.counters.bad_gain += 1
            return False
        command = self.command
        command.block[:], command.anew = asked, True
        if self._gain_step is not None:
            command.gains[:] = whole_steps(command.gains, self._gain_step)
        np.multiply(command.efforts, self._strength, command.efforts)
        # Targets are small; their sum is large only if a stop value is among them.
        if self._targets.dot(self._ones) > STOP_VALUE:
            command.gains[command.targets > STOP_VALUE] = 0.0
        modes = self._modes(sample)
        if modes != self._all_running:
            command.efforts[:, np.equal(modes, 0)] = 0.0
        return True

    def weaken(self, strength: npt.NDArray[np.float64]) -> None:
        """Change the motors' strength from the next command on."""
        self._strength[:] = strength
        self._known = b""

    def watch(self, now_ns: int) -> None:
        """Damp if no command has come within the timeout; a timeout of 0 keeps the last one."""
        if self._timeout_ns and self.alive and now_ns - self._accepted_ns > self._timeout_ns:
            self.alive = False
            self.counters.timeouts += 1
            self._known = b""
            self.command.damp(self._damping)

    def _count(self, flaw: Flaw) -> None:
        setattr(self.counters, flaw.value, getattr(self.counters, flaw.value) + 1)
