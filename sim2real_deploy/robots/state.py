"""The values that flow between the rooms: a robot's state, and a command for its joints.

Arrays are float32 in the order of the robot's motors on the wire ("SDK order"); any other order
exists only inside policy/.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
CELL_SLOTS = 15  # for battery cells in a message, however many the pack has
REMOTE_BYTES = 40


class RobotState(Protocol):
    """One decoded LowState: the motion, which every tick needs; `whole` gives the rest."""

    @property
    def received_ns(self) -> int:
        """The link's monotonic clock when the sample was taken."""

    @property
    def tick(self) -> int:
        """The robot's own millisecond counter."""

    @property
    def quaternion(self) -> Floats:
        """w, x, y, z: body in world."""

    @property
    def gyroscope(self) -> Floats:
        """rad/s, body frame."""

    @property
    def accelerometer(self) -> Floats:
        """m/s^2, body frame, +g on z at rest."""

    @property
    def q(self) -> Floats: ...

    @property
    def dq(self) -> Floats: ...

    @property
    def ddq(self) -> Floats: ...

    @property
    def torque(self) -> Floats:
        """Estimated by the motor boards, Nm."""

    @property
    def raw(self) -> bytes:
        """The sample as received, CDR header included."""

    @property
    def numbers(self) -> Floats:
        """Quaternion, gyroscope, accelerometer, q, dq, ddq, torque; a decoder may add more."""

    def motion(self) -> Floats:
        """Rows `q` and `dq` of one block."""

    def attitude(self) -> Sequence[float]:
        """`quaternion` as plain numbers."""

    def rates(self) -> Sequence[float]:
        """`gyroscope` as plain numbers."""

    def whole(self) -> "WholeState":
        """The state with everything else in the sample."""


@dataclass(slots=True)
class WholeState:
    """A RobotState with all its fields. Arrays may be views into the received sample: read only."""

    received_ns: int
    tick: int
    quaternion: Floats
    gyroscope: Floats
    accelerometer: Floats
    q: Floats
    dq: Floats
    ddq: Floats
    torque: Floats
    temperature: npt.NDArray[np.integer]  # degrees C, one per joint
    lost: npt.NDArray[np.uint32]  # packets each motor lost, counted by the robot
    foot_force: npt.NDArray[np.integer]  # raw sensor units, leg order; empty where there is none
    battery_percent: int  # -1 where the state does not carry it
    battery_current_ma: int
    cell_millivolts: npt.NDArray[np.uint16]  # zero where a cell slot is not used; may be empty
    voltage: float
    current: float
    imu_temperature: int
    remote: bytes  # of the wireless controller, REMOTE_BYTES
    raw: bytes
    # Each motor's mode as its board reports it; empty where the state does not carry it.
    motor_mode: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    @classmethod
    def blank(cls, joints: int, legs: int) -> "WholeState":
        """All zeros; for `dataclasses.replace` to fill in."""
        vector, row = np.zeros(3, np.float32), np.zeros(joints, np.float32)
        return cls(
            received_ns=0,
            tick=0,
            quaternion=np.zeros(4, np.float32),
            gyroscope=vector,
            accelerometer=vector,
            q=row,
            dq=row,
            ddq=row,
            torque=row,
            temperature=np.zeros(joints, np.int16),
            lost=np.zeros(joints, np.uint32),
            foot_force=np.zeros(legs, np.int16),
            battery_percent=0,
            battery_current_ma=0,
            cell_millivolts=np.zeros(CELL_SLOTS, np.uint16),
            voltage=0.0,
            current=0.0,
            imu_temperature=0,
            remote=bytes(REMOTE_BYTES),
            raw=b"",
        )

    @property
    def numbers(self) -> Floats:
        trunk = self.quaternion, self.gyroscope, self.accelerometer
        return np.concatenate((*trunk, self.q, self.dq, self.ddq, self.torque), dtype=np.float32)

    def motion(self) -> Floats:
        return np.stack((self.q, self.dq))

    def attitude(self) -> Sequence[float]:
        plain: list[float] = self.quaternion.tolist()
        return plain

    def rates(self) -> Sequence[float]:
        plain: list[float] = self.gyroscope.tolist()
        return plain

    def whole(self) -> "WholeState":
        return self


@dataclass(slots=True)
class JointCommand:
    """PD targets for the motor boards: tau = kp*(q - q_now) + kd*(dq - dq_now) + feed-forward."""

    q: Floats
    dq: Floats
    kp: Floats
    kd: Floats
    torque: Floats
    # All five as one array, if they are its rows; dataclasses.replace does not pass it on.
    _block: Floats | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of_block(cls, block: Floats) -> "JointCommand":
        """A command whose arrays are the rows of a block."""
        command = cls(*block)
        command._block = block
        return command

    def block(self) -> Floats:
        """Rows q, dq, kp, kd, torque."""
        if self._block is not None:
            return self._block
        return np.stack((self.q, self.dq, self.kp, self.kd, self.torque))

    @classmethod
    def damping(cls, joints: int, kd: float) -> "JointCommand":
        """Only resist motion; every stop ends in this command."""
        zero = np.zeros(joints, np.float32)
        return cls(zero, zero, zero, np.full(joints, kd, np.float32), zero)

    def copy(self) -> "JointCommand":
        return JointCommand(
            self.q.copy(), self.dq.copy(), self.kp.copy(), self.kd.copy(), self.torque.copy()
        )
