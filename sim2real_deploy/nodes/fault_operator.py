"""The ROS side of `sim2real faults`: service calls, velocity commands, and the stack's reports.

Each line on standard input is a JSON object, answered by one on standard output:
    {"calls": ["estop", ...]}          all at once; {"start_ns": t, "answers": [[done, words], ...]}
    {"velocity": [vx, vy, wz]}         published from now on, null for silence; "source": "teleop"
    {"view": true}                     {"mode": m, "safety": {...}, "events": {name: since_ns}}
    {"forget": true}                   drops the events seen so far
"""

import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger

from sim2real_deploy import topics
from sim2real_deploy.nodes.common import ROBOT, ProcessEnd, declare, every, run
from sim2real_deploy.nodes.messages import facts_of
from sim2real_deploy.nodes.stack_client import StackClient
from sim2real_deploy.runtime.realtime import prefer_this_process

REQUESTS = ("estop", "stop", "reset", "stand", "walk", "sit", "recover")
PATIENCE_S = 10.0
VELOCITY_PERIOD_S = 0.05
CROWD = 200  # a hundred answers may come at once


class FaultOperator(Node):
    def __init__(self, stop: ProcessEnd) -> None:
        super().__init__("fault_operator", enable_rosout=False)
        self._stop = stop
        self._velocity: Sequence[float] | None = None
        self._by_teleop = False
        self._safety: dict[str, str] = {}
        self._events: dict[str, int] = {}  # monotonic ns at which each was first seen
        robot = declare(self, (ROBOT,))["robot"]
        self._stack = StackClient(self, robot, REQUESTS, updated=self._note, depth=CROWD)
        self._teleop = StackClient(self, robot, ("estop",), velocity=topics.VELOCITY_TELEOP)
        every(self, VELOCITY_PERIOD_S, self._steer)
        threading.Thread(target=self._serve, name="standard input", daemon=True).start()

    def _note(self) -> None:
        safety = self._stack.safety
        if safety.values:
            self._safety = facts_of(safety) | {"message": safety.message}
            for name in filter(None, self._safety["events"].split(", ")):
                self._events.setdefault(name, time.monotonic_ns())

    def _steer(self) -> None:
        if self._velocity is not None:
            source = self._teleop if self._by_teleop else self._stack
            source.drive(*self._velocity)

    def _serve(self) -> None:
        for line in sys.stdin:
            print(json.dumps(self._do(json.loads(line))), flush=True)
        self._stop.request()

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        if "calls" in request:
            return self._call(request["calls"])
        if "velocity" in request:
            values = request["velocity"]
            self._by_teleop = request.get("source") == "teleop"
            self._velocity = values and [math.nan if v is None else float(v) for v in values]
        if "forget" in request:
            self._events = {}
        return {"mode": self._stack.mode, "safety": self._safety, "events": dict(self._events)}

    def _call(self, names: list[str]) -> dict[str, Any]:
        patience = time.monotonic() + PATIENCE_S
        while not all(self._stack.services[name].service_is_ready() for name in names):
            if time.monotonic() > patience:
                return {"start_ns": 0, "answers": [[False, "the service is not there"]]}
            time.sleep(0.02)
        start_ns = time.monotonic_ns()
        futures = [self._stack.services[name].call_async(Trigger.Request()) for name in names]
        while not all(future.done() for future in futures) and time.monotonic() < patience:
            time.sleep(0.002)
        answers = [
            [future.result().success, future.result().message]
            if future.done()
            else [False, "no answer"]
            for future in futures
        ]
        return {"start_ns": start_ns, "answers": answers}


def build(stop: ProcessEnd) -> Sequence[Node]:
    return (FaultOperator(stop),)


if __name__ == "__main__":
    prefer_this_process()  # the stack is measured, not how long this process waits to run
    run(build)
