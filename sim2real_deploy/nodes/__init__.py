"""ROS 2 nodes: the only place that imports rclpy. Each module is a process: `python -m ...`."""

import signal
import sys

if sys.argv[:1] == ["-m"]:  # this process is about to become a node: until it is one, just end
    signal.signal(signal.SIGINT, signal.SIG_DFL)
