"""The rt/lowstate message as a buffer that the sensor models write into."""

import struct
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec, WholeState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.twin.kernels import write_body
from sim2real_deploy.wire import remote
from sim2real_deploy.wire.encoders import StateEncoder
from sim2real_deploy.wire.messages import FAMILIES

Vector = npt.NDArray[np.float64]

_IMU_VALUES = 13  # quaternion, gyroscope, accelerometer, roll pitch yaw
_SIDE_BY_SIDE = ("q", "dq", "ddq", "tau_est")  # in either family's motor_state
_TICK = struct.Struct("<I")


class StateMessage(StateEncoder):
    """Fast fields are written in place; slow ones go through the encoder now and then, because
    encoding a WholeState every time would cost as much as the physics."""

    def __init__(self, robot: RobotSpec) -> None:
        super().__init__(robot)
        layout, joints = FAMILIES[robot.wire.family].state, robot.joint_count
        floats = self.sample.view(np.float32)
        q = layout.floats("motor_state.q", joints)
        table = floats[q.start : q.start + joints * q.step].reshape(joints, q.step)
        self.motors: Floats = table[:, : len(_SIDE_BY_SIDE)].T
        self.q, self.dq, self.ddq, self.torque = self.motors
        start = layout.floats("imu_state.quaternion").start
        self._imu: Floats = floats[start : start + _IMU_VALUES]
        self._tick_at = layout.span("tick").start
        feet = "foot_force" in (layout.dtype.names or ())
        blank = np.zeros(len(robot.legs), np.int16)
        self.foot_force = self._fields["foot_force"][0] if feet else blank
        self.slow = _slow_fields(robot)  # temperatures, battery, remote: sent after `refresh`

    def refresh(self) -> None:
        """Write the temperatures, power and remote of `slow`."""
        self._write_slow(self.slow)

    def set_body(self, imu: Vector, feet: Vector) -> None:
        """Quaternion, gyroscope and accelerometer; N under each foot."""
        write_body(imu, feet, self._imu, self.foot_force)

    def finish(self, tick: int) -> bytes:
        _TICK.pack_into(self._buffer, self._tick_at, tick & 0xFFFFFFFF)
        return self._finish()


def _slow_fields(robot: RobotSpec) -> WholeState:
    joints = robot.joint_count
    return replace(
        WholeState.blank(joints, len(robot.legs)),
        imu_temperature=40,
        remote=remote.encode(remote.Remote()),
        motor_mode=np.ones(joints, np.uint8),
    )
