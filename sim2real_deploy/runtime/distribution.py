"""Which ROS 2 this is, for what differs from one distribution to the next."""

import os
from importlib.metadata import PackageNotFoundError, version

# Major version of rclpy: the distribution it belongs to.
_BY_RCLPY = {3: "humble", 4: "iron", 7: "jazzy", 9: "kilted", 10: "lyrical"}
NEWEST = "lyrical"
BEFORE_JAZZY = frozenset(("foxy", "galactic", "humble", "iron"))


def distribution() -> str:
    """By ROS_DISTRO, as a sourced ROS 2 sets it, else by the rclpy from PyPI; "" without ROS."""
    named = os.environ.get("ROS_DISTRO")
    if named:
        return named
    for package in ("ros-rclpy", "rclpy"):
        try:
            major = int(version(package).partition(".")[0])
        except PackageNotFoundError:
            continue
        return _BY_RCLPY.get(major, NEWEST if major > max(_BY_RCLPY) else "rolling")
    return ""
