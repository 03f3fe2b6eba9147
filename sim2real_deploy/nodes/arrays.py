"""Numbers to ROS arrays, without rclpy's check of every element of a list."""

from array import array

import numpy as np
import numpy.typing as npt
from std_msgs.msg import MultiArrayDimension, MultiArrayLayout


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
