"""ROS 2 nodes: the only place that imports rclpy. Each module is a process: `python -m ...`."""

import signal
import sys

if sys.argv[:1] == ["-m"]:  # this process is becoming a node; until then a signal just ends it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
