"""ROS messages read without ROS: against what ROS itself serialised."""

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from hypothesis import given
from hypothesis import strategies as st
from nav_msgs.msg import Odometry
from rclpy.serialization import serialize_message
from sensor_msgs.msg import BatteryState, JointState, Joy
from std_msgs.msg import Float32MultiArray, Header, MultiArrayDimension, MultiArrayLayout, String

from sim2real_deploy.bags import definitions
from sim2real_deploy.bags.cdr import Definition, texts
from sim2real_deploy.bags.growing import Columns, GrowingColumns
from sim2real_deploy.errors import Refusal


def columns(*messages: object) -> Columns:
    definition = Definition(*definitions.of_class(type(messages[0])))
    return table_of(definition, [serialize_message(message) for message in messages], len(messages))


def table_of(definition: Definition, messages: list[bytes], at_once: int) -> Columns:
    table = GrowingColumns()
    for start in range(0, len(messages), at_once):
        batch = messages[start : start + at_once]
        table.extend(len(batch), definition.groups(batch))
    return table.done()


def test_messages_of_one_shape_become_arrays() -> None:
    sent = [
        JointState(
            header=Header(stamp=Time(sec=i, nanosec=7), frame_id="base"),
            name=["a", "bcd"],
            position=[0.1 * i, 2.0],
        )
        for i in range(100)
    ]
    table = columns(*sent)
    assert table["header.stamp.sec"].tolist() == list(range(100))
    assert table["position"].shape == (100, 2)
    np.testing.assert_array_equal(table["position"][:, 0], [0.1 * i for i in range(100)])
    assert texts(table["name.1"]) == ["bcd"] * 100
    assert "velocity" not in table


def test_shapes_may_change_from_message_to_message() -> None:
    table = columns(
        Joy(axes=[1.0], buttons=[]), Joy(axes=[2.0, 3.0], buttons=[4]), Joy(axes=[], buttons=[5, 6])
    )
    nan = np.nan
    np.testing.assert_array_equal(table["axes"], np.float32([[1, nan], [2, 3], [nan, nan]]))
    assert table["buttons"].tolist() == [[0, 0], [4, 0], [5, 6]]


def test_nested_messages_and_lists_of_them_are_flat() -> None:
    def status(text: str) -> DiagnosticStatus:
        return DiagnosticStatus(
            level=DiagnosticStatus.WARN, name=text, values=[KeyValue(key="k", value=text * 2)]
        )

    table = columns(
        DiagnosticArray(status=[status("motor")]),
        DiagnosticArray(status=[status("imu"), status("battery")]),
    )
    assert texts(table["status.0.name"]) == ["motor", "imu"]
    assert texts(table["status.1.values.0.value"]) == ["", "batterybattery"]
    assert table["status.0.level"].tolist() == [1, 1]


def test_alignment_of_doubles_after_odd_strings() -> None:
    for frame in ("", "x", "xy", "base_link", "a" * 17):
        odometry = Odometry(header=Header(frame_id=frame), child_frame_id=frame + "z")
        odometry.pose.pose.position.x = 1.25
        odometry.twist.covariance[35] = -3.5
        table = columns(odometry)
        assert table["pose.pose.position.x"][0] == 1.25
        assert table["twist.covariance"][0, 35] == -3.5
    assert columns(BatteryState(percentage=0.5, present=True))["present"].tolist() == [True]


@given(
    st.lists(
        st.tuples(st.lists(st.floats(width=32, allow_nan=False), max_size=6), st.text(max_size=9)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 8),
)
def test_whatever_is_serialised_is_read_in_any_batches(
    content: list[tuple[list[float], str]], at_once: int
) -> None:
    labels = [label.replace("\0", "").encode("utf-8", "ignore").decode() for _, label in content]
    sent = [
        Float32MultiArray(
            layout=MultiArrayLayout(dim=[MultiArrayDimension(label=label, size=len(data))]),
            data=data,
        )
        for (data, _), label in zip(content, labels, strict=True)
    ]
    definition = Definition(*definitions.of_class(Float32MultiArray))
    table = table_of(definition, [serialize_message(message) for message in sent], at_once)
    assert texts(table["layout.dim.0.label"]) == labels
    assert table["layout.dim.0.size"].tolist() == [len(data) for data, _ in content]
    for row, (data, _) in enumerate(content):
        if data:
            np.testing.assert_array_equal(table["data"][row, : len(data)], np.float32(data))


def test_what_does_not_fit_is_refused() -> None:
    definition = Definition(*definitions.of_class(String))
    with pytest.raises(Refusal, match="does not fit its own definition"):
        list(definition.groups([b"\x00\x01\x00\x00\xff\x00\x00\x00abc"]))
    with pytest.raises(Refusal, match="not little-endian CDR"):
        list(definition.groups([b"\x00\x00\x00\x00\x00\x00\x00\x01a"]))
