"""The hands of `sim2real faults` in the ROS graph: calls, velocity commands, and what is said.

One JSON object a line on standard input, one in answer on standard output:
    {"calls": ["safety/estop", ...]}   all at once; {"start_ns": t, "answers": [[done, words], ...]}
    {"velocity": [vx, vy, wz]}         published from now on, null for silence
    {"view": true}                     {"mode": m, "safety": {...}, "events": every one seen}
    {"forget": true}                   the events seen so far
"""

import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy.nodes.common import LATCHED, Stop, run
from sim2real_deploy.runtime.realtime import prefer_this_process

SERVICES = (
    *("safety/estop", "safety/stop", "safety/reset"),
    *("go2_driver/stand", "go2_driver/walk", "go2_driver/sit"),
)
PATIENCE_S = 10.0
VELOCITY_PERIOD_S = 0.05
CROWD = QoSProfile(depth=200)  # a hundred answers may come at once


class FaultOperator(Node):
    def __init__(self, stop: Stop) -> None:
        super().__init__("fault_operator", enable_rosout=False)
        self._stop = stop
        self._callers: dict[str, Any] = {
            name: self.create_client(Trigger, name, qos_profile=CROWD) for name in SERVICES
        }
        self._velocity: Sequence[float] | None = None
        self._mode = ""
        self._safety: dict[str, str] = {}
        self._events: set[str] = set()
        self._command = self.create_publisher(Twist, "cmd_vel", 10)
        self.create_subscription(String, "control/mode", self._on_mode, LATCHED)
        self.create_subscription(DiagnosticStatus, "safety/state", self._on_safety, LATCHED)
        self.create_timer(VELOCITY_PERIOD_S, self._steer)
        threading.Thread(target=self._serve, name="standard input", daemon=True).start()

    def _on_mode(self, message: String) -> None:
        self._mode = message.data

    def _on_safety(self, message: DiagnosticStatus) -> None:
        self._safety = {pair.key: pair.value for pair in message.values}
        self._safety["message"] = message.message
        self._events |= set(filter(None, self._safety["events"].split(", ")))

    def _steer(self) -> None:
        if self._velocity is not None:
            twist = Twist()
            twist.linear.x, twist.linear.y, twist.angular.z = self._velocity
            self._command.publish(twist)

    def _serve(self) -> None:
        for line in sys.stdin:
            print(json.dumps(self._do(json.loads(line))), flush=True)
        self._stop.request()

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        if "calls" in request:
            return self._call(request["calls"])
        if "velocity" in request:
            values = request["velocity"]
            self._velocity = values and [math.nan if v is None else float(v) for v in values]
        if "forget" in request:
            self._events = set()
        return {"mode": self._mode, "safety": self._safety, "events": sorted(self._events)}

    def _call(self, names: list[str]) -> dict[str, Any]:
        patience = time.monotonic() + PATIENCE_S
        while not all(self._callers[name].service_is_ready() for name in names):
            if time.monotonic() > patience:
                return {"start_ns": 0, "answers": [[False, "the service is not there"]]}
            time.sleep(0.02)
        start_ns = time.monotonic_ns()
        futures = [self._callers[name].call_async(Trigger.Request()) for name in names]
        while not all(future.done() for future in futures) and time.monotonic() < patience:
            time.sleep(0.002)
        answers = [
            [future.result().success, future.result().message]
            if future.done()
            else [False, "no answer"]
            for future in futures
        ]
        return {"start_ns": start_ns, "answers": answers}


def build(stop: Stop) -> Sequence[Node]:
    return (FaultOperator(stop),)


if __name__ == "__main__":
    prefer_this_process()  # what is measured is the stack, not how long its caller waits to run
    run(build)
