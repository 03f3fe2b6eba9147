"""LowState and LowCmd, bytes to values and back, for either family and any number of joints.

Control uses StateDecoder and CommandEncoder, a twin the other two. Each keeps scratch memory so
that a call allocates next to nothing: one instance per thread.
"""

import enum
import math

import fastcrc
import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.wire.layout import Layout
from sim2real_deploy.wire.messages import FAMILIES

# Plain little-endian CDR, version 1 or 2: the same bytes for fields of up to four bytes.
_HEADERS = (b"\x00\x01", b"\x00\x07")
_MOTOR = ("q", "dq", "ddq", "tau_est")
_IMU = ("imu_state.quaternion", "imu_state.gyroscope", "imu_state.accelerometer")
_PD = ("q", "dq", "tau", "kp", "kd")


class Flaw(enum.Enum):
    """Why a sample is not used."""

    LENGTH = "bad_length"  # or not plain little-endian CDR
    CRC = "bad_crc"
    NOT_FINITE = "not_finite"  # NaN or infinity in a value that would be handed on


class _Checksum:
    """The vendor's CRC-32 over a sample, through scratch memory of its own."""

    def __init__(self, layout: Layout) -> None:
        self._gather = layout.crc_gather
        self._struct = np.empty(len(self._gather), np.uint8)

    def __call__(self, sample: npt.NDArray[np.uint8]) -> int:
        sample.take(self._gather, out=self._struct, mode="clip")
        return fastcrc.crc32.mpeg_2(self._struct.data)


class _Decoder:
    """Finds the flaw of a sample, if it has one, before anything is read from it."""

    def __init__(
        self,
        layout: Layout,
        joints: int,
        motors: tuple[str, tuple[str, ...]],
        others: tuple[str, ...] = (),
    ) -> None:
        """`motors` (the array and its members) and `others` name the floats that are handed on."""
        self._layout = layout
        self._joints = joints
        self._checksum = _Checksum(layout)
        # Where those floats lie, found by reading word numbers through the dtype itself.
        words = np.arange(layout.size // 4, dtype="<u4").view(layout.dtype)[0]
        array, members = motors
        places = [words[array][name][:joints] for name in members]
        places += [np.atleast_1d(words[name]) for name in others]
        self._floats = np.concatenate(places).view("<u4")
        self._values = np.empty(len(self._floats), np.float32)

    def flaw(self, sample: bytes) -> Flaw | None:
        if len(sample) != self._layout.size or sample[:2] not in _HEADERS:
            return Flaw.LENGTH
        if self._checksum(np.frombuffer(sample, np.uint8)) != int.from_bytes(sample[-4:], "little"):
            return Flaw.CRC
        np.frombuffer(sample, np.float32).take(self._floats, out=self._values, mode="clip")
        return None if np.isfinite(self._values).all() else Flaw.NOT_FINITE


class StateDecoder(_Decoder):
    """rt/lowstate samples into RobotState. Ask `flaw` first: `decode` trusts the sample."""

    def __init__(self, robot: RobotSpec) -> None:
        layout = FAMILIES[robot.wire.family].state
        self._has_battery = "bms_state.soc" in (layout.dtype.names or ())
        power = ("power_v", "power_a") if self._has_battery else ()
        supply = () if self._has_battery else ("vol",)
        super().__init__(
            layout, robot.joint_count, ("motor_state", (*_MOTOR, *supply)), (*_IMU, *power)
        )
        start = int(layout.dtype.fields["wireless_remote"][1])  # type: ignore[index]
        self._remote = slice(start, start + layout.dtype["wireless_remote"].itemsize)
        self._no_feet = np.empty(0, np.int16)
        self._no_cells = np.empty(0, np.uint16)
        self._none_lost = np.zeros(robot.joint_count, np.uint32)

    def decode(self, sample: bytes, received_ns: int) -> RobotState:
        """The sample's values; arrays are views into it where the wire allows."""
        record = np.frombuffer(sample, self._layout.dtype)[0]
        motors = record["motor_state"][: self._joints]
        if self._has_battery:
            temperature, lost = motors["temperature"], motors["lost"]
            foot_force, cells = record["foot_force"], record["bms_state.cell_vol"]
            percent, milliamps = int(record["bms_state.soc"]), int(record["bms_state.current"])
            voltage, current = float(record["power_v"]), float(record["power_a"])
        else:
            # Two sensors a motor, and no battery: the boards' supply voltage is what there is.
            temperature, lost = motors["temperature"].max(axis=1), self._none_lost
            foot_force, cells = self._no_feet, self._no_cells
            percent, milliamps = -1, 0
            voltage, current = float(motors["vol"][0]), 0.0
        return RobotState(
            received_ns=received_ns,
            tick=int(record["tick"]),
            quaternion=record["imu_state.quaternion"],
            gyroscope=record["imu_state.gyroscope"],
            accelerometer=record["imu_state.accelerometer"],
            q=motors["q"],
            dq=motors["dq"],
            ddq=motors["ddq"],
            torque=motors["tau_est"],
            temperature=temperature,
            lost=lost,
            foot_force=foot_force,
            battery_percent=percent,
            battery_current_ma=milliamps,
            cell_millivolts=cells,
            voltage=voltage,
            current=current,
            imu_temperature=int(record["imu_state.temperature"]),
            remote=sample[self._remote],
            raw=sample,
        )


class CommandDecoder(_Decoder):
    """rt/lowcmd samples into JointCommand: what a robot, a twin or a watcher sees."""

    def __init__(self, robot: RobotSpec) -> None:
        layout = FAMILIES[robot.wire.family].command
        super().__init__(layout, robot.joint_count, ("motor_cmd", _PD))
        self._modes = layout.irregular["motor_cmd.mode"][: robot.joint_count]

    def decode(self, sample: bytes) -> JointCommand:
        """The PD targets as views into the sample, which must be free of flaws."""
        motors = np.frombuffer(sample, self._layout.dtype)[0]["motor_cmd"][: self._joints]
        return JointCommand(motors["q"], motors["dq"], motors["kp"], motors["kd"], motors["tau"])

    def modes(self, sample: bytes) -> npt.NDArray[np.uint8]:
        """Each joint's motor mode: 1 runs the PD law, 0 does nothing."""
        return np.frombuffer(sample, np.uint8)[self._modes]


class _Encoder:
    """A message in a buffer of its own: constants written once, values per call, CRC at last."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._bytes = np.zeros(layout.size, np.uint8)
        self._bytes[1] = 1  # plain little-endian CDR
        self._record = self._bytes.view(layout.dtype)[0]
        self._crc = self._bytes[-4:].view("<u4")
        self._checksum = _Checksum(layout)

    def _finish(self) -> bytes:
        self._crc[0] = self._checksum(self._bytes)
        return self._bytes.tobytes()


class CommandEncoder(_Encoder):
    """JointCommand into rt/lowcmd samples, as the vendor's examples fill them in."""

    def __init__(self, robot: RobotSpec) -> None:
        family = FAMILIES[robot.wire.family]
        super().__init__(family.command)
        for name, value in family.command_constants.items():
            self._record[name] = value
        used = robot.joint_count
        modes = family.command.irregular["motor_cmd.mode"]
        self._bytes[modes[:used]] = 1
        self._bytes[modes[used:]] = family.unused_mode
        motors = self._record["motor_cmd"]
        motors["q"][used:] = family.unused_q
        motors["dq"][used:] = family.unused_dq
        self._q, self._dq, self._tau, self._kp, self._kd = (motors[n][:used] for n in _PD)
        self._echoed = family.echoed
        self._state_dtype = family.state.dtype

    def follow(self, state: RobotState) -> None:
        """Repeat from the robot's state what its commands must repeat (hg: the machine's mode)."""
        if self._echoed:
            seen = np.frombuffer(state.raw, self._state_dtype)[0]
            self._record[self._echoed] = seen[self._echoed]

    def encode(self, command: JointCommand) -> bytes:
        """A whole sample. A value that is not finite is refused: nothing like it may leave."""
        parts = (command.q, command.dq, command.torque, command.kp, command.kd)
        if not np.isfinite(parts).all():
            raise ValueError("a joint command holds a value that is not finite")
        self._q[:], self._dq[:], self._tau[:], self._kp[:], self._kd[:] = parts
        return self._finish()


class StateEncoder(_Encoder):
    """RobotState (all but `received_ns` and `raw`) into rt/lowstate samples: how a twin speaks."""

    def __init__(self, robot: RobotSpec) -> None:
        family = FAMILIES[robot.wire.family]
        super().__init__(family.state)
        names = family.state.dtype.names or ()
        self._has_battery = "bms_state.soc" in names
        if "head" in names:
            self._record["head"] = family.command_constants["head"]
            self._record["level_flag"] = family.command_constants["level_flag"]
        self._bytes[family.state.irregular["motor_state.mode"][: robot.joint_count]] = 1
        self._motors = self._record["motor_state"][: robot.joint_count]

    def encode(self, state: RobotState) -> bytes:
        record, motors = self._record, self._motors
        record["tick"] = state.tick & 0xFFFFFFFF
        record["imu_state.quaternion"] = state.quaternion
        record["imu_state.gyroscope"] = state.gyroscope
        record["imu_state.accelerometer"] = state.accelerometer
        record["imu_state.rpy"] = roll_pitch_yaw(state.quaternion)
        record["imu_state.temperature"] = state.imu_temperature
        record["wireless_remote"] = np.frombuffer(state.remote, np.uint8)
        motors["q"], motors["dq"], motors["ddq"] = state.q, state.dq, state.ddq
        motors["tau_est"] = state.torque
        if self._has_battery:
            motors["temperature"], motors["lost"] = state.temperature, state.lost
            record["foot_force"] = state.foot_force
            record["bms_state.soc"] = state.battery_percent
            record["bms_state.current"] = state.battery_current_ma
            record["bms_state.cell_vol"] = state.cell_millivolts
            record["power_v"], record["power_a"] = state.voltage, state.current
        else:
            motors["temperature"] = state.temperature[:, None]
            motors["vol"] = state.voltage
        return self._finish()


def roll_pitch_yaw(quaternion: Floats) -> tuple[float, float, float]:
    """Angles of a w, x, y, z quaternion, as the robot's IMU reports them beside it."""
    w, x, y, z = quaternion.tolist()
    return (
        math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x)))),
        math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
    )
