"""The codec against the vendor's own: golden messages, and whatever else a message can hold."""

import dataclasses
import struct
from typing import Any

import fastcrc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.robots import JointCommand
from sim2real_deploy.robots.geometry import euler_angles
from sim2real_deploy.wire import remote, vendor
from sim2real_deploy.wire.decoders import CommandDecoder, Flaw, LiveState, StateDecoder
from sim2real_deploy.wire.encoders import CommandEncoder, StateEncoder
from sim2real_deploy.wire.layout import Layout
from sim2real_deploy.wire.messages import FAMILIES
from support.wire_support import golden, layouts, needs_vendor_sdk, robot, state

FAMILY_NAMES = list(FAMILIES)


def unpack(layout: Layout, sample: bytes) -> dict[str, Any]:
    """A sample as the nested fields that the golden file and the IDL classes have."""
    record = np.frombuffer(sample, layout.dtype)[0]
    fields: dict[str, Any] = {}
    for name in layout.dtype.names or ():
        value = record[name]
        if value.dtype.names:
            modes = layout.irregular[f"{name}.mode"]
            fields[name] = [
                {"mode": sample[at], **{k: element[k].tolist() for k in value.dtype.names}}
                for at, element in zip(modes, value, strict=True)
            ]
        else:
            outer, _, inner = name.rpartition(".")
            target = fields.setdefault(outer, {}) if outer else fields
            target[inner] = value.tolist()
    return fields


def pack(layout: Layout, fields: dict[str, Any]) -> bytes:
    """The reverse of `unpack`, CRC computed and not copied."""
    raw = np.zeros(layout.size, np.uint8)
    raw[1] = 1
    view = raw.view(layout.dtype)
    for name in layout.dtype.names or ():
        value: Any = fields
        for part in name.split("."):
            value = value[part]
        if isinstance(value, list) and isinstance(value[0], dict):
            raw[layout.irregular[f"{name}.mode"]] = [element["mode"] for element in value]
            for key in view[name].dtype.names:
                view[name][key] = [[element[key] for element in value]]
        else:
            view[name] = np.array([value], view[name].dtype)
    view["crc"] = fastcrc.crc32.mpeg_2(raw[layout.crc_gather].data)
    return raw.tobytes()


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.type_name)
@pytest.mark.parametrize("number", range(4))
def test_golden_messages_decode_to_their_fields_and_back(layout: Layout, number: int) -> None:
    message = golden()[layout.type_name][number]
    sample = bytes.fromhex(message["cdr"])
    fields = unpack(layout, sample)
    assert fields == message["fields"]
    assert fields["crc"] == message["crc"]
    assert pack(layout, message["fields"]) == sample


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("number", range(4))
def test_golden_states_pass_the_gate_with_their_values(family: str, number: int) -> None:
    message = golden()[FAMILIES[family].state.type_name][number]
    decoder = StateDecoder(robot(family))
    sample = bytes.fromhex(message["cdr"])
    assert decoder.flaw(sample) is None
    got, want = decoder.decode(sample, 7).whole(), message["fields"]
    motors = want["motor_state"][: robot(family).joint_count]
    assert (got.received_ns, got.tick, got.raw) == (7, want["tick"], sample)
    for name, key in (("q", "q"), ("dq", "dq"), ("ddq", "ddq"), ("torque", "tau_est")):
        np.testing.assert_array_equal(getattr(got, name), np.float32([m[key] for m in motors]))
    for name in ("quaternion", "gyroscope", "accelerometer"):
        np.testing.assert_array_equal(getattr(got, name), np.float32(want["imu_state"][name]))
    assert got.imu_temperature == want["imu_state"]["temperature"]
    assert list(got.remote) == want["wireless_remote"]
    assert got.temperature.tolist() == [np.max(m["temperature"]) for m in motors]
    if family == "go":
        assert got.lost.tolist() == [m["lost"] for m in motors]
        assert got.foot_force.tolist() == want["foot_force"]
        assert got.battery_percent == want["bms_state"]["soc"]
        assert got.battery_current_ma == want["bms_state"]["current"]
        assert got.cell_millivolts.tolist() == want["bms_state"]["cell_vol"]
        assert (got.voltage, got.current) == (want["power_v"], want["power_a"])
    else:
        assert got.battery_percent == -1
        assert got.voltage == motors[0]["vol"]


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("number", range(4))
def test_golden_commands_decode_to_their_values(family: str, number: int) -> None:
    message = golden()[FAMILIES[family].command.type_name][number]
    decoder = CommandDecoder(robot(family))
    sample = bytes.fromhex(message["cdr"])
    assert decoder.flaw(sample) is None
    motors = message["fields"]["motor_cmd"][: robot(family).joint_count]
    got = decoder.decode(sample)
    for name, key in (("q", "q"), ("dq", "dq"), ("kp", "kp"), ("kd", "kd"), ("torque", "tau")):
        np.testing.assert_array_equal(getattr(got, name), np.float32([m[key] for m in motors]))
    assert decoder.modes(sample).tolist() == [m["mode"] for m in motors]


NESTED = {
    "imu_state": "IMUState_",
    "motor_state": "MotorState_",
    "motor_cmd": "MotorCmd_",
    "bms_state": "BmsState_",
    "bms_cmd": "BmsCmd_",
}


def vendor_message(type_name: str, fields: dict[str, Any]) -> Any:
    """The SDK's own object with these fields."""
    package = type_name.rpartition("::")[0]

    def nested(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return vendor.idl(f"{package}::{NESTED[name]}")(**value)
        if isinstance(value, list) and isinstance(value[0], dict):
            return [nested(name, element) for element in value]
        return value

    return vendor.idl(type_name)(**{name: nested(name, value) for name, value in fields.items()})


def tame(value: Any, mask: int = ~0) -> Any:
    """No NaN, which has no equal; integers cut to the bits of the mask."""
    if isinstance(value, dict):
        return {key: tame(item, mask) for key, item in value.items()}
    if isinstance(value, list):
        return [tame(item, mask) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else 0.0
    return value & mask


random_bits = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).bytes(4096))


@needs_vendor_sdk
@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.type_name)
@settings(max_examples=40, deadline=None)
@given(bits=random_bits)
def test_bytes_are_those_of_the_vendors_serialiser(layout: Layout, bits: bytes) -> None:
    fields = tame(unpack(layout, bits[: layout.size]))
    ours = pack(layout, fields)
    fields["crc"] = unpack(layout, ours)["crc"]
    assert ours == vendor_message(layout.type_name, fields).serialize()
    assert unpack(layout, ours) == fields


@needs_vendor_sdk
@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.type_name)
@settings(max_examples=20, deadline=None)
@given(bits=random_bits)
def test_checksum_is_the_vendors(layout: Layout, bits: bytes) -> None:
    # The SDK packs unsigned bytes as signed ones and fails above 127: stay below.
    fields = tame(unpack(layout, bits[: layout.size]), mask=0x7F)
    ours = unpack(layout, pack(layout, fields))["crc"]
    assert ours == vendor.checksum()(vendor_message(layout.type_name, fields))


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_padding_may_hold_anything(family: str) -> None:
    """Not every DDS clears the bytes between two fields."""
    spec, layout = robot(family), FAMILIES[family].state
    sample = bytearray(StateEncoder(spec).encode(state(spec)))
    padding = set(range(4, layout.size - 4)) - set(layout.crc_gather.tolist())
    assert len(padding) > spec.joint_count
    for at in padding:
        sample[at] = 0xFF
    assert StateDecoder(spec).flaw(bytes(sample)) is None


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("family", FAMILY_NAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_command_comes_back_as_it_was_given(family: str, data: st.DataObject) -> None:
    spec = robot(family)
    numbers = st.lists(finite, min_size=spec.joint_count, max_size=spec.joint_count)
    command = JointCommand(*(np.array(data.draw(numbers), np.float32) for _ in range(5)))
    sample = CommandEncoder(spec).encode(command)
    decoder = CommandDecoder(spec)
    assert decoder.flaw(sample) is None
    back = decoder.decode(sample)
    for field in dataclasses.fields(command):
        np.testing.assert_array_equal(getattr(back, field.name), getattr(command, field.name))
    assert (decoder.modes(sample) == 1).all()


def test_whatever_changed_since_the_last_command_is_encoded_anew() -> None:
    spec = robot("go")
    encoder, decoder = CommandEncoder(spec), CommandDecoder(spec)
    block = np.ones((5, spec.joint_count), np.float32)
    command = JointCommand.of_block(block)
    for row in (0, 1, 2, 3, 4, 0):
        block[row, 3] += 1.0
        back = decoder.decode(encoder.encode(command))
        for field in ("q", "dq", "kp", "kd", "torque"):
            np.testing.assert_array_equal(getattr(back, field), getattr(command, field))
        sound = block[row, 3]
        block[row, 3] = np.nan
        with pytest.raises(ValueError, match="not finite"):
            encoder.encode(command)
        block[row, 3] = sound


def test_a_go_command_says_what_the_robot_wants_to_hear() -> None:
    spec = robot("go")
    layout = FAMILIES["go"].command
    fields = unpack(layout, CommandEncoder(spec).encode(JointCommand.damping(12, 3.0)))
    assert fields["head"] == [0xFE, 0xEF]
    assert fields["level_flag"] == 0xFF
    assert [motor["kd"] for motor in fields["motor_cmd"]] == [3.0] * 12 + [0.0] * 8
    for motor in fields["motor_cmd"][12:]:
        assert (motor["mode"], motor["q"], motor["dq"]) == (1, np.float32(2.146e9), 16000.0)
        assert (motor["kp"], motor["tau"]) == (0.0, 0.0)


def test_an_hg_command_repeats_the_machines_mode() -> None:
    spec, family = robot("hg"), FAMILIES["hg"]
    fields = unpack(family.state, StateEncoder(spec).encode(state(spec)))
    fields["mode_machine"] = 5
    seen = StateDecoder(spec).decode(pack(family.state, fields), 0)
    encoder = CommandEncoder(spec)
    encoder.follow(seen)
    sent = unpack(family.command, encoder.encode(JointCommand.damping(29, 3.0)))
    assert sent["mode_machine"] == 5
    assert [motor["mode"] for motor in sent["motor_cmd"]] == [1] * 29 + [0] * 6


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["q", "dq", "kp", "kd", "torque"])
def test_an_encoder_refuses_what_is_not_finite(family: str, value: float, field: str) -> None:
    spec = robot(family)
    command = JointCommand(*(np.zeros(spec.joint_count, np.float32) for _ in range(5)))
    getattr(command, field)[-1] = value
    encoder = CommandEncoder(spec)
    with pytest.raises(ValueError, match="not finite"):
        encoder.encode(command)
    good = encoder.encode(JointCommand.damping(spec.joint_count, 1.0))
    assert CommandDecoder(spec).flaw(good) is None


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_state_comes_back_as_it_was_given(family: str) -> None:
    spec = robot(family)
    given_state = state(spec, tick=123456)
    given_state.q += np.linspace(0, 1, spec.joint_count, dtype=np.float32)
    given_state.temperature[3] = 71
    sample = StateEncoder(spec).encode(given_state)
    decoder = StateDecoder(spec)
    assert decoder.flaw(sample) is None
    back = decoder.decode(sample, received_ns=9).whole()
    for field in dataclasses.fields(back):
        if field.name not in ("raw", "received_ns"):
            np.testing.assert_array_equal(
                getattr(back, field.name), getattr(given_state, field.name), err_msg=field.name
            )


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_value_that_is_handed_on_must_be_finite_and_others_may_be_anything(family: str) -> None:
    spec, layout = robot(family), FAMILIES[family].state
    decoder = StateDecoder(spec)
    good = unpack(layout, StateEncoder(spec).encode(state(spec)))
    for path in ("quaternion", "gyroscope", "accelerometer"):
        fields = tame(good)
        fields["imu_state"][path][2] = float("nan")
        assert decoder.flaw(pack(layout, fields)) is Flaw.NOT_FINITE
    for name in ("q", "dq", "ddq", "tau_est"):
        fields = tame(good)
        fields["motor_state"][spec.joint_count - 1][name] = float("-inf")
        assert decoder.flaw(pack(layout, fields)) is Flaw.NOT_FINITE
        fields = tame(good)
        fields["motor_state"][spec.joint_count][name] = float("nan")
        assert decoder.flaw(pack(layout, fields)) is None


@given(
    roll=st.floats(-3.1, 3.1),
    pitch=st.floats(-1.5, 1.5),
    yaw=st.floats(-3.1, 3.1),
)
def test_angles_are_those_of_the_quaternion(roll: float, pitch: float, yaw: float) -> None:
    def turn(angle: float, axis: int) -> np.ndarray:
        q = np.zeros(4)
        q[0], q[axis] = np.cos(angle / 2), np.sin(angle / 2)
        return q

    def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        scalar = a[0] * b[0] - a[1:] @ b[1:]
        return np.array([scalar, *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])

    quaternion = times(times(turn(yaw, 3), turn(pitch, 2)), turn(roll, 1))
    got = euler_angles(*quaternion.tolist())
    np.testing.assert_allclose(got, (roll, pitch, yaw), atol=1e-6)


def test_the_remote_reads_buttons_and_sticks_where_the_vendor_puts_them() -> None:
    raw = bytearray(40)
    raw[:2] = 85, 81  # it is switched on
    raw[2] = 1 << 5  # L2
    raw[3] = 1 << 1  # B
    for at, value in ((4, 0.1), (8, 0.2), (12, 0.3), (20, 0.4)):
        struct.pack_into("<f", raw, at, value)
    got = remote.decode(bytes(raw))
    assert got.pressed == {"L2", "B"}
    assert (got.lx, got.rx, got.ry, got.ly) == pytest.approx((0.1, 0.2, 0.3, 0.4))
    assert remote.encode(got) == bytes(raw)
    assert got.on


def test_a_remote_that_is_off_is_forty_zeros() -> None:
    off = remote.Remote(pressed=frozenset({"A"}), on=False)
    assert remote.encode(off) == bytes(40)
    assert not remote.decode(bytes(40)).on


@pytest.mark.parametrize(
    ("octet", "degrees"), [(255, -1), (236, -20), (0, 0), (95, 95), (150, 150)]
)
def test_a_temperature_byte_is_a_motor_that_may_freeze(octet: int, degrees: int) -> None:
    """int8 in the ROS message, uint8 in the SDK's: one that reads 255 is at -1, not at 255."""
    spec = robot("go")
    given_state = state(spec)
    given_state.temperature = np.full(spec.joint_count, octet if octet < 128 else octet - 256)
    sample = StateEncoder(spec).encode(given_state)
    found = StateDecoder(spec).decode(sample, 0).whole().temperature
    assert found.tolist() == [degrees] * spec.joint_count


@given(st.binary(min_size=40, max_size=40))
def test_any_forty_bytes_are_a_remote_within_bounds(raw: bytes) -> None:
    got = remote.decode(raw)
    assert all(-1.0 <= stick <= 1.0 for stick in (got.lx, got.ly, got.rx, got.ry))
    assert got.pressed <= set(remote.BUTTONS)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_plain_numbers_of_a_state_are_those_of_its_arrays(family: str) -> None:
    decoder = StateDecoder(robot(family))
    state = decoder.read(bytes.fromhex(golden()[FAMILIES[family].state.type_name][0]["cdr"]), 5)
    assert isinstance(state, LiveState)
    assert list(state.attitude()) == state.quaternion.tolist()
    assert [list(numbers) for numbers in state.motion()] == [state.q.tolist(), state.dq.tolist()]
    assert state.whole() is state.whole()
    moved = dataclasses.replace(state.whole(), q=state.q + 1, quaternion=-state.quaternion)
    assert list(moved.motion()[0]) == (state.q + 1).tolist()
    assert list(moved.attitude()) == (-state.quaternion).tolist()


def test_a_command_in_a_block_is_encoded_as_any_other_and_anew_when_it_changes() -> None:
    spec = robot("go")
    block = np.arange(5 * spec.joint_count, dtype=np.float32).reshape(5, -1)
    inside, encoder = JointCommand.of_block(block), CommandEncoder(spec)
    first = encoder.encode(inside)
    assert first == CommandEncoder(spec).encode(JointCommand(*block.copy()))
    for row in range(5):
        block[row, 3] += 1
        again = encoder.encode(inside)
        assert again != first
        assert again == CommandEncoder(spec).encode(inside.copy())
        first = again
    other = dataclasses.replace(inside, q=inside.q + 1)
    assert encoder.encode(other) == CommandEncoder(spec).encode(other.copy()) != first
