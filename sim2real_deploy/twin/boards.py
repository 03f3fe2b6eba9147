"""The motor boards' side of rt/lowcmd: accept, refuse and count, time out to damping."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.motors import MotorCommand
from sim2real_deploy.wire.codec import CommandDecoder, Flaw

MAX_KP = 1000.0  # Nm/rad; beyond these a command is a mistake, not a stiff robot
MAX_KD = 100.0  # Nms/rad
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
        self._decoder = CommandDecoder(robot)
        self._damping = robot.damping
        self._timeout_ns = round(timeout_s * 1e9)
        self.command = MotorCommand(joints)
        self.command.damp(self._damping)
        self.counters = CommandCounters()
        self.alive = False  # a good command within the timeout
        self._accepted_ns = 0
        self._gains: npt.NDArray[np.float32] = np.empty((2, joints), np.float32)
        self._centre = np.array([[MAX_KP / 2], [MAX_KD / 2]], np.float32)

    def receive(self, sample: bytes, now_ns: int) -> None:
        flaw = self._decoder.flaw(sample)
        if flaw is not None:
            self._count(flaw)
            return
        asked = self._decoder.decode(sample)
        self._gains[0], self._gains[1] = asked.kp, asked.kd
        np.subtract(self._gains, self._centre, self._gains)
        if (np.abs(self._gains) > self._centre).any():
            self.counters.bad_gain += 1
            return
        command = self.command
        command.q[:], command.dq[:], command.torque[:] = asked.q, asked.dq, asked.torque
        command.kp[:], command.kd[:] = asked.kp, asked.kd
        if command.q.max() > STOP_VALUE or command.dq.max() > STOP_VALUE:
            command.kp[command.q > STOP_VALUE] = 0.0
            command.kd[command.dq > STOP_VALUE] = 0.0
        running = self._decoder.modes(sample)
        if not running.all():
            for part in (command.kp, command.kd, command.torque):
                part[running == 0] = 0.0
        self.counters.accepted += 1
        self._accepted_ns, self.alive = now_ns, True

    def watch(self, now_ns: int) -> None:
        """Damp when commands have been silent for too long."""
        if self.alive and now_ns - self._accepted_ns > self._timeout_ns:
            self.alive = False
            self.counters.timeouts += 1
            self.command.damp(self._damping)

    def _count(self, flaw: Flaw) -> None:
        setattr(self.counters, flaw.value, getattr(self.counters, flaw.value) + 1)
