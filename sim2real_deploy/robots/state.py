"""What flows between the layers: a robot's state, and a command for its joints.

Arrays are float32 in the order of the robot's motors on the wire ("SDK order"); any other order
exists only inside policy/.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(slots=True)
class RobotState:
    """One decoded LowState. Arrays may be views into the received sample: read, never write."""

    received_ns: int  # the link's monotonic clock when the sample was taken
    tick: int  # the robot's own millisecond counter
    quaternion: Floats  # w, x, y, z: body in world
    gyroscope: Floats  # rad/s, body frame
    accelerometer: Floats  # m/s^2, body frame, +g on z at rest
    q: Floats
    dq: Floats
    ddq: Floats
    torque: Floats  # estimated by the motor board, Nm
    temperature: npt.NDArray[np.integer]  # degrees C, one per joint
    lost: npt.NDArray[np.uint32]  # packets each motor lost, counted by the robot
    foot_force: npt.NDArray[np.integer]  # raw sensor units, leg order; empty where there is none
    battery_percent: int  # -1 where the state does not carry it
    battery_current_ma: int
    cell_millivolts: npt.NDArray[np.uint16]  # zero where a cell slot is not used; may be empty
    voltage: float
    current: float
    imu_temperature: int
    remote: bytes  # 40 bytes of the wireless controller
    raw: bytes  # the sample as received, CDR header included
    # Each motor's mode as its board reports it; empty where the state does not carry it.
    motor_mode: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    def attitude(self) -> Sequence[float]:
        """`quaternion` as plain numbers: one by one they are cheaper than those of an array."""
        plain: list[float] = self.quaternion.tolist()
        return plain

    def rates(self) -> Sequence[float]:
        """`gyroscope` as plain numbers."""
        plain: list[float] = self.gyroscope.tolist()
        return plain

    def motion(self) -> tuple[Sequence[float], Sequence[float]]:
        """`q` and `dq` as plain numbers."""
        return self.q.tolist(), self.dq.tolist()


@dataclass(slots=True)
class JointCommand:
    """PD targets for the motor boards: tau = kp*(q - q_now) + kd*(dq - dq_now) + feed-forward."""

    q: Floats
    dq: Floats
    kp: Floats
    kd: Floats
    torque: Floats
    # Of all five, where they are the rows of one block; not handed on by dataclasses.replace.
    memory: memoryview | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of_block(cls, block: Floats) -> "JointCommand":
        """A command whose arrays are the rows of a block."""
        command = cls(*block)
        command.memory = block.data
        return command

    def values(self) -> bytes:
        """All numbers, one after another: to tell whether a command is another one."""
        if self.memory is not None:
            return self.memory.tobytes()
        rows = self.q, self.dq, self.kp, self.kd, self.torque
        return b"".join([row.tobytes() for row in rows])

    @classmethod
    def damping(cls, joints: int, kd: float) -> "JointCommand":
        """Resist motion and nothing else: where every stop ends."""
        zero = np.zeros(joints, np.float32)
        return cls(zero, zero, zero, np.full(joints, kd, np.float32), zero)

    def copy(self) -> "JointCommand":
        return JointCommand(
            self.q.copy(), self.dq.copy(), self.kp.copy(), self.kd.copy(), self.torque.copy()
        )
