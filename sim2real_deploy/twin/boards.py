"""The motor boards' side of rt/lowcmd: accept, refuse and count, time out to damping."""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.motors import MotorCommand
from sim2real_deploy.wire.codec import CommandDecoder, Flaw
from sim2real_deploy.wire.messages import FAMILIES

MAX_KP = 1000.0  # Nm/rad; beyond these a command is a mistake, not a stiff robot
MAX_KD = 100.0  # Nms/rad
_MOST = np.array([[MAX_KP], [MAX_KD]], np.float32)
_PD = ("q", "dq", "kp", "kd", "tau")  # the rows of a MotorCommand
STOP_VALUE = 1e4  # the vendor's "no position" and "no velocity" lie above, targets far below


@dataclass(slots=True)
class CommandCounters:
    """What became of every command that reached the boards."""

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
    """Holds the last accepted command; one that is flawed changes nothing but a counter."""

    def __init__(self, robot: RobotSpec, timeout_s: float) -> None:
        joints = robot.joint_count
        layout = FAMILIES[robot.wire.family].command
        self._decoder = CommandDecoder(robot)
        self._places = np.array(
            [np.r_[layout.floats(f"motor_cmd.{name}", joints)] for name in _PD], np.intp
        )
        self._modes = layout.irregular["motor_cmd.mode"][:joints]
        self._all_running = bytes([1] * joints)
        self._damping = robot.damping
        self._timeout_ns = round(timeout_s * 1e9)
        self.command = MotorCommand(joints)
        self.command.damp(self._damping)
        self.counters = CommandCounters()
        self.alive = False  # a good command within the timeout
        self._accepted_ns = 0
        self._asked = np.empty((5, joints), np.float32)
        self._targets, self._gains = self._asked[:2].reshape(-1), self._asked[2:4]
        self._ones = np.ones(2 * joints, np.float32)
        self._known_gains = b""  # the last ones found good: they seldom change

    def receive(self, sample: bytes, now_ns: int) -> bool:
        """Take a command over, or count why not."""
        flaw = self._decoder.flaw(sample)
        if flaw is not None:
            self._count(flaw)
            return False
        np.frombuffer(sample, np.float32).take(self._places, out=self._asked, mode="clip")
        gains = self._gains.tobytes()
        if gains != self._known_gains:
            if (self._gains < 0).any() or (self._gains > _MOST).any():
                self.counters.bad_gain += 1
                return False
            self._known_gains = gains
        self.command.block[:] = self._asked
        # Targets are small numbers; their sum is large only where a stop value is among them.
        if self._targets.dot(self._ones) > STOP_VALUE:
            self.command.gains[self.command.targets > STOP_VALUE] = 0.0
        modes = np.frombuffer(sample, np.uint8).take(self._modes)
        if modes.tobytes() != self._all_running:
            self.command.block[2:, modes == 0] = 0.0
        self.counters.accepted += 1
        self._accepted_ns, self.alive = now_ns, True
        return True

    def watch(self, now_ns: int) -> None:
        """Damp when commands have been silent for too long."""
        if self.alive and now_ns - self._accepted_ns > self._timeout_ns:
            self.alive = False
            self.counters.timeouts += 1
            self.command.damp(self._damping)

    def _count(self, flaw: Flaw) -> None:
        setattr(self.counters, flaw.value, getattr(self.counters, flaw.value) + 1)
