"""LowCmd and LowState, values to bytes, for either family and any number of joints.

Control uses CommandEncoder, a twin the other one. Each keeps its message from call to call: one
instance per thread.
"""

import math

import numpy as np

from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState, WholeState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.wire import kernels
from sim2real_deploy.wire.layout import Layout, word_places
from sim2real_deploy.wire.messages import FAMILIES, IMU, MOTION, POWER

ORDER = ("q", "dq", "kp", "kd", "tau")  # the rows of a JointCommand's block


class _Encoder:
    """A message in a buffer of its own: constants written once, values per call, CRC at last."""

    def __init__(self, layout: Layout) -> None:
        self._bytes = np.zeros(layout.size, np.uint8)
        self._bytes[1] = 1  # plain little-endian CDR
        self._buffer = self._bytes.data
        self._floats = self._bytes.view(np.float32)
        self._fields = self._bytes.view(layout.dtype)  # of length one, so that each is a view
        self._gather = layout.crc_gather

    def _finish(self) -> bytes:
        self._bytes.view(np.uint32)[-1] = kernels.checksum(self._bytes, self._gather)
        return self._bytes.tobytes()


class CommandEncoder(_Encoder):
    """JointCommand into rt/lowcmd samples, as the vendor's examples fill them in."""

    def __init__(self, robot: RobotSpec) -> None:
        family, used = FAMILIES[robot.wire.family], robot.joint_count
        super().__init__(family.command)
        for name, value in family.constants.items():
            self._fields[name] = value
        modes = family.command.irregular["motor_cmd.mode"]
        self._bytes[modes[:used]] = 1
        self._bytes[modes[used:]] = family.unused_mode
        unused = self._fields["motor_cmd"][0, used:]
        unused["q"], unused["dq"] = family.unused_q, family.unused_dq
        places = (family.command.floats(f"motor_cmd.{name}", used) for name in ORDER)
        self._places = np.stack([word_places(place) for place in places])
        self._echoed = family.echoed
        self._echoed_from = family.state.span(family.echoed).start if family.echoed else 0
        self.encode(JointCommand.damping(used, 0.0))  # compiled before the first real one

    def follow(self, state: RobotState) -> None:
        """Repeat from the robot's state what its commands must repeat (hg: the machine's mode)."""
        if self._echoed:
            self.set_field(self._echoed, state.raw[self._echoed_from])

    def set_field(self, name: str, value: int) -> None:
        """One of the command's own fields, in every sample from now on."""
        self._fields[name] = value

    def encode(self, command: JointCommand) -> bytes:
        """A whole sample. A value that is not finite is refused: nothing like it may leave."""
        if not kernels.fill(command.block(), self._places, self._bytes, self._gather):
            raise ValueError("a joint command holds a value that is not finite")
        return self._bytes.tobytes()


class StateEncoder(_Encoder):
    """WholeState (all but `received_ns` and `raw`) into rt/lowstate samples: how a twin speaks."""

    def __init__(self, robot: RobotSpec) -> None:
        family, joints = FAMILIES[robot.wire.family], robot.joint_count
        super().__init__(family.state)
        for name, value in family.constants.items():
            self._fields[name] = value
        self._mode_places = family.state.irregular["motor_state.mode"][:joints]
        self._bytes[self._mode_places] = 1
        fields, motors = self._fields, self._fields["motor_state"][0, :joints]
        self._has_battery = "bms_state.soc" in (family.state.dtype.names or ())
        self._tick, self._rpy = fields["tick"], fields["imu_state.rpy"][0]
        self._quaternion, self._gyroscope, self._accelerometer = (
            self._floats[family.state.floats(name)] for name in IMU
        )
        self._imu_temperature = fields["imu_state.temperature"]
        self._remote = self._buffer[family.state.span("wireless_remote")]
        self._q, self._dq, self._ddq, self._torque = (motors[name] for name in MOTION)
        if self._has_battery:
            self._temperature, self._lost = motors["temperature"], motors["lost"]
            self._feet, self._cells = fields["foot_force"][0], fields["bms_state.cell_vol"][0]
            self._percent, self._battery_current, self._voltage, self._current = (
                fields[name] for name in ("bms_state.soc", "bms_state.current", *POWER)
            )
        else:
            self._temperature, self._voltage = motors["temperature"].T, motors["vol"]

    def encode(self, state: WholeState) -> bytes:
        self._tick[0] = state.tick & 0xFFFFFFFF
        self._quaternion[:] = state.quaternion
        self._gyroscope[:] = state.gyroscope
        self._accelerometer[:] = state.accelerometer
        self._rpy[:] = roll_pitch_yaw(state.quaternion)
        self._q[:] = state.q
        self._dq[:] = state.dq
        self._ddq[:] = state.ddq
        self._torque[:] = state.torque
        if self._has_battery:
            self._feet[:] = state.foot_force
        self._write_slow(state)
        return self._finish()

    def _write_slow(self, state: WholeState) -> None:
        """What does not move: temperatures, power, the remote."""
        self._imu_temperature[0] = state.imu_temperature
        self._remote[:] = state.remote
        if len(state.motor_mode):
            self._bytes[self._mode_places] = state.motor_mode
        # Below zero a byte wraps around, as the robot's int8 does.
        degrees = state.temperature
        self._temperature[:] = degrees.astype(np.uint8) if self._has_battery else degrees
        self._voltage[:] = state.voltage
        if self._has_battery:
            self._lost[:] = state.lost
            self._cells[:] = state.cell_millivolts
            self._percent[0] = state.battery_percent
            self._battery_current[0] = state.battery_current_ma
            self._current[0] = state.current


def roll_pitch_yaw(quaternion: Floats) -> tuple[float, float, float]:
    """Angles of a w, x, y, z quaternion, as the robot's IMU reports them beside it."""
    return euler_angles(*quaternion.tolist())


def euler_angles(w: float, x: float, y: float, z: float) -> tuple[float, float, float]:
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x)))),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )
