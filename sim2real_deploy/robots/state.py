"""What flows between the layers: a robot's state, and a command for its joints.

Arrays are float32 in the order of the robot's motors on the wire ("SDK order"); any other order
exists only inside policy/.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class _ReadLate:
    """Values that were not given are read when first asked for: who looks at the joints does not
    pay for the battery, 500 times a second."""

    __slots__ = ("_read",)
    _read: Callable[[Any, str], None]

    if not TYPE_CHECKING:  # for a type checker only the fields below exist

        def __getattr__(self, name: str) -> Any:
            if name not in type(self).__dataclass_fields__:
                raise AttributeError(f"{type(self).__name__} has no '{name}'")
            self._read(self, name)
            return object.__getattribute__(self, name)


@dataclass(slots=True)
class RobotState(_ReadLate):
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

    @classmethod
    def of_sample(
        cls,
        raw: bytes,
        received_ns: int,
        tick: int,
        remote: bytes,
        read: "Callable[[RobotState, str], None]",
    ) -> "RobotState":
        """What is asked of every sample; `read` sets the field it is told, and any others."""
        state = cls.__new__(cls)
        state.raw, state.received_ns, state.tick, state.remote = raw, received_ns, tick, remote
        state._read = read
        return state


@dataclass(slots=True)
class JointCommand:
    """PD targets for the motor boards: tau = kp*(q - q_now) + kd*(dq - dq_now) + feed-forward."""

    q: Floats
    dq: Floats
    kp: Floats
    kd: Floats
    torque: Floats

    @classmethod
    def damping(cls, joints: int, kd: float) -> "JointCommand":
        """Resist motion and nothing else: where every stop ends."""
        zero = np.zeros(joints, np.float32)
        return cls(zero, zero, zero, np.full(joints, kd, np.float32), zero)

    def copy(self) -> "JointCommand":
        return JointCommand(
            self.q.copy(), self.dq.copy(), self.kp.copy(), self.kd.copy(), self.torque.copy()
        )
