"""Encoders of LowCmd and LowState, for either family and any number of joints.

Control uses CommandEncoder, a twin StateEncoder. Each reuses its buffer: one instance per thread.
"""

import numpy as np

from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState, WholeState
from sim2real_deploy.robots.geometry import euler_angles
from sim2real_deploy.wire import kernels
from sim2real_deploy.wire.layout import Layout, word_places
from sim2real_deploy.wire.messages import FAMILIES, IMU, MOTION, POWER

ORDER = ("q", "dq", "kp", "kd", "tau")  # the rows of a JointCommand's block


class _Encoder:
    """A message in its own buffer: constants written once, values per call, then the CRC."""

    def __init__(self, layout: Layout) -> None:
        self.sample = np.zeros(layout.size, np.uint8)
        self.sample[1] = 1  # plain little-endian CDR
        self._buffer = self.sample.data
        self._floats = self.sample.view(np.float32)
        self._fields = self.sample.view(layout.dtype)  # an array of one, so that fields are views
        self.gather = layout.crc_gather

    def _finish(self) -> bytes:
        self.sample.view(np.uint32)[-1] = kernels.checksum(self.sample, self.gather)
        return self.sample.tobytes()


class CommandEncoder(_Encoder):
    """JointCommand to rt/lowcmd samples, filled in like the vendor's examples."""

    def __init__(self, robot: RobotSpec) -> None:
        family, used = FAMILIES[robot.wire.family], robot.joint_count
        super().__init__(family.command)
        for name, value in family.constants.items():
            self._fields[name] = value
        modes = family.command.irregular["motor_cmd.mode"]
        self.sample[modes[:used]] = 1
        self.sample[modes[used:]] = family.unused_mode
        unused = self._fields["motor_cmd"][0, used:]
        unused["q"], unused["dq"] = family.unused_q, family.unused_dq
        places = (family.command.floats(f"motor_cmd.{name}", used) for name in ORDER)
        self.places = np.stack([word_places(place) for place in places])
        self.copies = np.zeros((0, 2), np.uint16)  # bytes of a state, and where they go
        for name in filter(None, [family.echoed]):
            self.repeat(family.state.span(name), family.command.span(name))
        self.encode(JointCommand.damping(used, 0.0))  # compiles now, before the loop runs

    def repeat(self, of_state: slice, of_command: slice) -> None:
        """Commands repeat these bytes of the state that they answer (hg: `mode_machine`)."""
        here, there = (np.arange(s.start, s.stop, dtype=np.uint16) for s in (of_state, of_command))
        self.copies = np.concatenate([self.copies, np.stack([here, there], 1)])

    def follow(self, state: RobotState) -> None:
        """Copy what commands must repeat."""
        for here, there in self.copies:
            self.sample[there] = state.raw[here]

    def encode(self, command: JointCommand) -> bytes:
        """A whole sample; raises ValueError if a value is not finite."""
        if not kernels.fill(command.block(), self.places, self.sample, self.gather):
            raise ValueError("a joint command holds a value that is not finite")
        return self.sample.tobytes()


class StateEncoder(_Encoder):
    """WholeState (all but `received_ns` and `raw`) to rt/lowstate samples, for a twin."""

    def __init__(self, robot: RobotSpec) -> None:
        family, joints = FAMILIES[robot.wire.family], robot.joint_count
        super().__init__(family.state)
        for name, value in family.constants.items():
            self._fields[name] = value
        self._mode_places = family.state.irregular["motor_state.mode"][:joints]
        self.sample[self._mode_places] = 1
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
        self._rpy[:] = euler_angles(*state.quaternion.tolist())
        self._q[:] = state.q
        self._dq[:] = state.dq
        self._ddq[:] = state.ddq
        self._torque[:] = state.torque
        if self._has_battery:
            self._feet[:] = state.foot_force
        self._write_slow(state)
        return self._finish()

    def _write_slow(self, state: WholeState) -> None:
        """The slow fields: temperatures, power, the remote."""
        self._imu_temperature[0] = state.imu_temperature
        self._remote[:] = state.remote
        if len(state.motor_mode):
            self.sample[self._mode_places] = state.motor_mode
        # Below zero the byte wraps around, like the robot's int8.
        degrees = state.temperature
        self._temperature[:] = degrees.astype(np.uint8) if self._has_battery else degrees
        self._voltage[:] = state.voltage
        if self._has_battery:
            self._lost[:] = state.lost
            self._cells[:] = state.cell_millivolts
            self._percent[0] = state.battery_percent
            self._battery_current[0] = state.battery_current_ma
            self._current[0] = state.current
