"""Values to and from ROS messages.

Numbers become arrays without rclpy's check of every element of a list.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import Float32MultiArray, MultiArrayDimension, MultiArrayLayout


def doubles(values: npt.NDArray[np.floating]) -> "array[float]":
    return array("d", values.astype(np.float64).tobytes())


def floats(values: npt.NDArray[np.number]) -> "array[float]":
    return array("f", values.astype(np.float32).tobytes())


def labelled(names: tuple[str, ...]) -> MultiArrayLayout:
    """One dimension whose label names every entry, separated by commas."""
    count = len(names)
    return MultiArrayLayout(
        dim=[MultiArrayDimension(label=",".join(names), size=count, stride=count)]
    )


def labelled_rows(names: tuple[str, ...], rows: int) -> MultiArrayLayout:
    """Rows of named columns."""
    count = len(names)
    return MultiArrayLayout(
        dim=[
            MultiArrayDimension(label="rows", size=rows, stride=rows * count),
            MultiArrayDimension(label=",".join(names), size=count, stride=count),
        ]
    )


def by_name(message: Float32MultiArray) -> dict[str, float]:
    """The values of a labelled array."""
    names = message.layout.dim[0].label.split(",") if message.layout.dim else ()
    return dict(zip(names, message.data, strict=False))


def set_vector(message: Any, values: Sequence[float]) -> None:
    message.x, message.y, message.z = values


def set_quaternion(message: Any, quaternion: Sequence[float]) -> None:
    message.w, message.x, message.y, message.z = quaternion


def quaternion_of(message: Any) -> tuple[float, float, float, float]:
    return message.w, message.x, message.y, message.z


def diagnosis(
    name: str, level: bytes, message: str, facts: Mapping[str, object], hardware: str = ""
) -> DiagnosticStatus:
    return DiagnosticStatus(
        level=level,
        name=name,
        hardware_id=hardware or name,
        message=message,
        values=[KeyValue(key=key, value=str(value)) for key, value in facts.items()],
    )


def facts_of(status: DiagnosticStatus) -> dict[str, str]:
    return {pair.key: pair.value for pair in status.values}


def stamped(node: Node, *statuses: DiagnosticStatus) -> DiagnosticArray:
    array = DiagnosticArray(status=list(statuses))
    array.header.stamp = node.get_clock().now().to_msg()
    return array
