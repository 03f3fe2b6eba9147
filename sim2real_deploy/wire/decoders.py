"""LowState and LowCmd, bytes to values, for either family and any number of joints.

Control uses StateDecoder, a twin the other one. Each keeps scratch memory so that a call allocates
next to nothing: one instance per thread.
"""

import enum
import struct
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.wire.checksum import Checksum
from sim2real_deploy.wire.layout import Layout
from sim2real_deploy.wire.messages import F32, FAMILIES, I16, IMU, MOTION, PD, POWER, U8, U16, U32

# Plain little-endian CDR, version 1 or 2: the same bytes for fields of up to four bytes.
_HEADERS = (b"\x00\x01", b"\x00\x07")
_U8, _I16, _U16, _U32, _F32 = (np.dtype(code) for code in (U8, I16, U16, U32, F32))
# A temperature byte is int8 in the ROS message, uint8 in the SDK's. No motor reaches 200 degrees,
# some freeze: from 200 on a byte means -56 to -1.
_DEGREES = np.array([*range(200), *range(-56, 0)], np.int16)
_MOVING = {"quaternion", "gyroscope", "accelerometer", "q", "dq", "ddq", "torque"}  # of a state
_empty = object.__new__


class Flaw(enum.Enum):
    """Why a sample is not used."""

    LENGTH = "bad_length"  # or not plain little-endian CDR
    CRC = "bad_crc"
    NOT_FINITE = "not_finite"  # NaN or infinity in a value that would be handed on


def _unpacker(places: list[slice]) -> Callable[[bytes | memoryview], tuple[float, ...]]:
    """Reads the float32 at some places of a sample.

    Their sum in double precision cannot overflow, so it is finite when all of them are.
    """
    form, at = "<", 0
    for word in _words(places):
        form += f"{4 * word - at}xf"
        at = 4 * word + 4
    return struct.Struct(form).unpack_from


def _words(places: list[slice]) -> list[int]:
    return sorted(word for place in places for word in range(place.stop)[place])


def _among(places: list[slice], one: slice) -> slice:
    """Where the numbers at one place are among those that `_unpacker` reads at all of them."""
    words = _words(places)
    found = [words.index(word) for word in range(one.stop)[one]]
    step = found[1] - found[0]
    assert found == list(range(found[0], found[-1] + 1, step))
    return slice(found[0], found[-1] + 1, step)


class _Decoder:
    """Finds the flaw of a sample, if it has one, before anything is read from it."""

    def __init__(self, layout: Layout, handed_on: list[slice]) -> None:
        self._size = layout.size
        self._checksum = Checksum(layout)
        self._handed_on = _unpacker(handed_on)

    def flaw(self, sample: bytes) -> Flaw | None:
        found = self._checked(sample)
        return found if isinstance(found, Flaw) else None

    def _checked(self, sample: bytes) -> tuple[float, ...] | Flaw:
        """The numbers handed on, in the order they lie in, or why none of them are."""
        if len(sample) != self._size or sample[:2] not in _HEADERS:
            return Flaw.LENGTH
        if not self._checksum.agrees(sample):
            return Flaw.CRC
        numbers = self._handed_on(sample)
        return numbers if isfinite(sum(numbers)) else Flaw.NOT_FINITE


class _StateInUse(RobotState):
    """A state whose arrays are read when one of them is asked for: who answers 500 a second needs
    few, and of most states the plain numbers that were there when it was checked are enough."""

    __slots__ = ("decoder", "numbers")
    decoder: "StateDecoder"
    numbers: tuple[float, ...]

    def __new__(cls, *values: Any, **named: Any) -> Any:
        """With other values (dataclasses.replace) it is a plain state: the sample says others."""
        return RobotState(*values, **named) if values or named else _empty(cls)

    def attitude(self) -> Sequence[float]:
        return self.numbers[self.decoder.attitude_at]

    def rates(self) -> Sequence[float]:
        return self.numbers[self.decoder.rates_at]

    def motion(self) -> tuple[Sequence[float], Sequence[float]]:
        numbers, (q_at, dq_at) = self.numbers, self.decoder.motion_at
        return numbers[q_at], numbers[dq_at]

    def __getattr__(self, name: str) -> Any:
        """Called for a slot that is still empty."""
        self.decoder.fill(self, name)
        return object.__getattribute__(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent elsewhere as the plain state it is."""
        return RobotState, tuple(getattr(self, name) for name in RobotState.__slots__)


class StateDecoder(_Decoder):
    """rt/lowstate samples into RobotState. Arrays are views into the sample where the wire allows.

    `read` checks and decodes; `decode` trusts the sample, whose `flaw` was asked for before.
    """

    def __init__(self, robot: RobotSpec) -> None:
        layout, joints = FAMILIES[robot.wire.family].state, robot.joint_count
        motors = [layout.floats(f"motor_state.{name}", joints) for name in MOTION]
        imu = [layout.floats(name) for name in IMU]
        self._moving = (*imu, *motors)
        self._temperature = layout.place("motor_state.temperature", joints).at
        self._motor_mode = layout.irregular["motor_state.mode"][:joints]
        if "bms_state.soc" in (layout.dtype.names or ()):
            self._read_slow: Callable[[RobotState], None] = self._read_battery
            scalars = ["imu_state.temperature", "bms_state.soc", "bms_state.current"]
            scalars += ["wireless_remote", *POWER]
            self._lost = layout.place("motor_state.lost", joints).at
            self._feet = layout.place("foot_force").at
            self._cells = layout.place("bms_state.cell_vol").at
            power = [layout.floats(name) for name in POWER]
        else:
            self._read_slow = self._read_supply
            scalars = ["imu_state.temperature", "wireless_remote"]
            self._winding = layout.place("motor_state.temperature", joints, item=1).at
            self._supply = layout.floats("motor_state.vol", joints)
            power = [self._supply]
        self._tick = layout.scalars("tick").unpack_from
        self._scalars = layout.scalars(*scalars).unpack_from
        handed_on = [*motors, *imu, *power]
        super().__init__(layout, handed_on)
        self.attitude_at, self.rates_at = _among(handed_on, imu[0]), _among(handed_on, imu[1])
        self.motion_at = _among(handed_on, motors[0]), _among(handed_on, motors[1])

    def read(self, sample: bytes, received_ns: int) -> RobotState | Flaw:
        """A sample and when it was received: what it says, or what is wrong with it."""
        numbers = self._checked(sample)
        if isinstance(numbers, tuple):
            return self._state(sample, received_ns, numbers)
        return numbers

    def decode(self, sample: bytes, received_ns: int) -> RobotState:
        return self._state(sample, received_ns, self._handed_on(sample))

    def _state(self, sample: bytes, received_ns: int, numbers: tuple[float, ...]) -> RobotState:
        state = _empty(_StateInUse)
        state.received_ns, state.raw = received_ns, sample
        state.numbers, state.decoder = numbers, self
        (state.tick,) = self._tick(sample)
        return state

    def fill(self, state: RobotState, wanted: str) -> None:
        """Read a state's arrays of motion, or all that is slow."""
        if wanted in _MOVING:
            self._read_motion(state)
        elif wanted in RobotState.__slots__:
            self._read_slow(state)
        else:
            raise AttributeError(f"a state has no '{wanted}'")

    def _read_motion(self, state: RobotState) -> None:
        floats = np.frombuffer(state.raw, _F32)
        quaternion, gyroscope, accelerometer, q, dq, ddq, torque = self._moving
        state.quaternion = floats[quaternion]
        state.gyroscope = floats[gyroscope]
        state.accelerometer = floats[accelerometer]
        state.q = floats[q]
        state.dq = floats[dq]
        state.ddq = floats[ddq]
        state.torque = floats[torque]

    def _read_battery(self, state: RobotState) -> None:
        sample = state.raw
        (
            state.imu_temperature,
            state.battery_percent,
            state.battery_current_ma,
            state.remote,
            state.voltage,
            state.current,
        ) = self._scalars(sample)
        octets = np.frombuffer(sample, _U8)
        state.temperature = _DEGREES[octets[self._temperature]]
        state.motor_mode = octets[self._motor_mode]
        state.lost = np.frombuffer(sample, _U32)[self._lost]
        state.foot_force = np.frombuffer(sample, _I16)[self._feet]
        state.cell_millivolts = np.frombuffer(sample, _U16)[self._cells]

    def _read_supply(self, state: RobotState) -> None:
        """Two sensors a motor, and no battery: the boards' supply voltage is what there is."""
        halves = np.frombuffer(state.raw, _I16)
        state.imu_temperature, state.remote = self._scalars(state.raw)
        state.temperature = np.maximum(halves[self._temperature], halves[self._winding])
        state.motor_mode = np.frombuffer(state.raw, _U8)[self._motor_mode]
        state.lost = np.zeros(len(state.temperature), np.uint32)
        state.foot_force = np.empty(0, np.int16)
        state.cell_millivolts = np.empty(0, np.uint16)
        state.battery_percent, state.battery_current_ma = -1, 0
        state.voltage = float(np.frombuffer(state.raw, _F32)[self._supply][0])
        state.current = 0.0


class CommandDecoder(_Decoder):
    """rt/lowcmd samples into JointCommand: what a robot, a twin or a watcher sees."""

    def __init__(self, robot: RobotSpec) -> None:
        layout, joints = FAMILIES[robot.wire.family].command, robot.joint_count
        motors = [layout.floats(f"motor_cmd.{name}", joints) for name in PD]
        self._q, self._dq, self._tau, self._kp, self._kd = motors
        self._modes = layout.irregular["motor_cmd.mode"][:joints]
        super().__init__(layout, motors)

    def decode(self, sample: bytes) -> JointCommand:
        """The PD targets as views into the sample, which must be free of flaws."""
        floats = np.frombuffer(sample, _F32)
        return JointCommand(
            q=floats[self._q],
            dq=floats[self._dq],
            kp=floats[self._kp],
            kd=floats[self._kd],
            torque=floats[self._tau],
        )

    def modes(self, sample: bytes) -> npt.NDArray[np.uint8]:
        """Each joint's motor mode: 1 runs the PD law, 0 does nothing."""
        return np.frombuffer(sample, np.uint8)[self._modes]
