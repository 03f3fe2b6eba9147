"""Decoders of LowState and LowCmd, for either family and any number of joints.

Control uses StateDecoder, a twin CommandDecoder.
"""

import enum
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import JointCommand, RobotSpec, WholeState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.wire import kernels
from sim2real_deploy.wire.layout import Layout, word_places
from sim2real_deploy.wire.messages import F32, FAMILIES, I16, IMU, MOTION, PD, POWER, U8, U16, U32

# Plain little-endian CDR, version 1 or 2: identical for fields of up to four bytes.
_HEADERS = (b"\x00\x01", b"\x00\x07")
_U8, _I16, _U16, _U32, _F32 = (np.dtype(code) for code in (U8, I16, U16, U32, F32))
# A temperature byte is int8 in the ROS message and uint8 in the SDK's. No motor reaches 200 degrees
# and some freeze, so bytes from 200 on mean -56 to -1.
_DEGREES = np.array([*range(200), *range(-56, 0)], np.int16)


class Flaw(enum.Enum):
    """Why a sample is not used."""

    LENGTH = "bad_length"  # or not plain little-endian CDR
    CRC = "bad_crc"
    NOT_FINITE = "not_finite"  # NaN or infinity in a value that would be used


_FLAWS = {kernels.BAD_CRC: Flaw.CRC, kernels.NOT_FINITE: Flaw.NOT_FINITE}


class _Decoder:
    """Checks a sample before anything is read from it."""

    def __init__(self, layout: Layout, used: Sequence[slice]) -> None:
        self.size = layout.size
        self.gather = layout.crc_gather
        self.places = np.concatenate([word_places(place) for place in used])
        self.flaw(bytes([0, 1]).ljust(layout.size, b"\0"))  # compiles now, before the loop runs

    def flaw(self, sample: bytes) -> Flaw | None:
        found = self._checked(sample)
        return found if isinstance(found, Flaw) else None

    def _checked(self, sample: bytes) -> Floats | Flaw:
        """The numbers used, in the order of their places, or the sample's flaw."""
        if len(sample) != self.size or sample[:2] not in _HEADERS:
            return Flaw.LENGTH
        numbers = np.empty(len(self.places), np.float32)
        found = kernels.check(np.frombuffer(sample, _U8), self.gather, self.places, numbers)
        return _FLAWS[found] if found else numbers


class LiveState:
    """The RobotState of one sample: motion copied out at once, the rest decoded on request."""

    __slots__ = ("_decoder", "_whole", "numbers", "raw", "received_ns", "tick")

    def __init__(self, sample: bytes, ns: int, numbers: Floats, decoder: "StateDecoder") -> None:
        self.raw, self.received_ns = sample, ns
        self.tick = int.from_bytes(sample[decoder.tick_at], "little")
        self.numbers, self._decoder = numbers, decoder
        self._whole: WholeState | None = None

    @property
    def quaternion(self) -> Floats:
        return self.numbers[0:4]

    @property
    def gyroscope(self) -> Floats:
        return self.numbers[4:7]

    @property
    def accelerometer(self) -> Floats:
        return self.numbers[7:10]

    @property
    def q(self) -> Floats:
        return self._row(0)

    @property
    def dq(self) -> Floats:
        return self._row(1)

    @property
    def ddq(self) -> Floats:
        return self._row(2)

    @property
    def torque(self) -> Floats:
        return self._row(3)

    def _row(self, row: int) -> Floats:
        joints = self._decoder.joints
        return self.numbers[10 + row * joints : 10 + (row + 1) * joints]

    def motion(self) -> Floats:
        joints = self._decoder.joints
        return self.numbers[10 : 10 + 2 * joints].reshape(2, joints)

    def attitude(self) -> Sequence[float]:
        plain: list[float] = self.numbers[0:4].tolist()
        return plain

    def rates(self) -> Sequence[float]:
        plain: list[float] = self.numbers[4:7].tolist()
        return plain

    def whole(self) -> WholeState:
        if self._whole is None:
            self._whole = self._decoder.whole(self)
        return self._whole


class StateDecoder(_Decoder):
    """rt/lowstate samples to RobotState. `read` checks and decodes; `decode` is for a sample whose
    `flaw` has been checked before."""

    def __init__(self, robot: RobotSpec) -> None:
        layout, self.joints = FAMILIES[robot.wire.family].state, robot.joint_count
        self.tick_at = layout.span("tick")
        self._has_battery = "bms_state.soc" in (layout.dtype.names or ())
        self._temperature = layout.place("motor_state.temperature", self.joints).at
        self._motor_mode = layout.irregular["motor_state.mode"][: self.joints]
        scalars = ["imu_state.temperature", "wireless_remote"]
        if self._has_battery:
            scalars[1:1] = ["bms_state.soc", "bms_state.current"]
            scalars += POWER
            self._lost = layout.place("motor_state.lost", self.joints).at
            self._feet = layout.place("foot_force").at
            self._cells = layout.place("bms_state.cell_vol").at
            power = [layout.floats(name) for name in POWER]
        else:
            self._winding = layout.place("motor_state.temperature", self.joints, item=1).at
            power = [layout.floats("motor_state.vol", self.joints)]
        edges = (0, 4, 7, *range(10, 11 + 4 * self.joints, self.joints))
        self._motion = tuple(slice(a, b) for a, b in itertools.pairwise(edges))
        self._scalars = layout.scalars(*scalars).unpack_from
        moving = [layout.floats(name) for name in IMU]
        moving += [layout.floats(f"motor_state.{name}", self.joints) for name in MOTION]
        super().__init__(layout, [*moving, *power])

    def read(self, sample: bytes, received_ns: int) -> LiveState | Flaw:
        """The state in a sample, or the sample's flaw."""
        numbers = self._checked(sample)
        if isinstance(numbers, Flaw):
            return numbers
        return LiveState(sample, received_ns, numbers, self)

    def decode(self, sample: bytes, received_ns: int) -> LiveState:
        numbers = np.frombuffer(sample, _F32)[self.places]
        return LiveState(sample, received_ns, numbers, self)

    def whole(self, state: LiveState) -> WholeState:
        """Everything in the state's sample."""
        sample, octets = state.raw, np.frombuffer(state.raw, _U8)
        if self._has_battery:
            heat, percent, drain, remote, voltage, current = self._scalars(sample)
            temperature = _DEGREES[octets[self._temperature]]
            lost = np.frombuffer(sample, _U32)[self._lost]
            feet = np.frombuffer(sample, _I16)[self._feet]
            cells = np.frombuffer(sample, _U16)[self._cells]
        else:  # two sensors per motor, and of the battery only the boards' supply voltage
            heat, remote = self._scalars(sample)
            percent, drain, current = -1, 0, 0.0
            voltage = float(np.frombuffer(sample, _F32)[self.places[10 + 4 * self.joints]])
            halves = np.frombuffer(sample, _I16)
            temperature = np.maximum(halves[self._temperature], halves[self._winding])
            lost = np.zeros(self.joints, np.uint32)
            feet, cells = np.empty(0, np.int16), np.empty(0, np.uint16)
        numbers = state.numbers
        quaternion, gyroscope, accelerometer, q, dq, ddq, torque = self._motion
        # In the order of its fields: this many keyword arguments take a microsecond.
        return WholeState(
            state.received_ns,
            state.tick,
            numbers[quaternion],
            numbers[gyroscope],
            numbers[accelerometer],
            numbers[q],
            numbers[dq],
            numbers[ddq],
            numbers[torque],
            temperature,
            lost,
            feet,
            percent,
            drain,
            cells,
            voltage,
            current,
            heat,
            remote,
            sample,
            octets[self._motor_mode],
        )


class CommandDecoder(_Decoder):
    """rt/lowcmd samples to JointCommand, for a twin or a watcher."""

    def __init__(self, robot: RobotSpec) -> None:
        layout, joints = FAMILIES[robot.wire.family].command, robot.joint_count
        motors = [layout.floats(f"motor_cmd.{name}", joints) for name in PD]
        self._q, self._dq, self._tau, self._kp, self._kd = motors
        self._modes = layout.irregular["motor_cmd.mode"][:joints]
        super().__init__(layout, motors)

    def decode(self, sample: bytes) -> JointCommand:
        """The PD targets as views into the sample, which must have no flaw."""
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
