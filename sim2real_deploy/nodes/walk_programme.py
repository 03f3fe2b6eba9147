"""The operator of `make walk`: stand up, walk the programme, sit down, summarise."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from nav_msgs.msg import Odometry
from rclpy.node import Node
from std_msgs.msg import Float32MultiArray
from std_srvs.srv import Trigger

from sim2real_deploy.checks import Check, exit_code, print_table, write_json
from sim2real_deploy.gate.programme import Segment, Tracker, segment_at
from sim2real_deploy.nodes.common import ROBOT, SENSOR, Parameter, ProcessEnd, declare, run
from sim2real_deploy.nodes.messages import by_name, quaternion_of
from sim2real_deploy.nodes.stack_client import StackClient
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.topics import ADAPTATION, ESTIMATES, TRUTH

PARAMETERS = (
    ROBOT,
    Parameter("duration", 20.0, "Seconds of walking; 0 walks until Ctrl-C.", (0.0, 86400.0)),
    Parameter("runs", "runs", "Folder for the summary where nothing is recorded."),
    Parameter("recorded", True, "Wait for the recorder before anything moves."),
    Parameter("truth", TRUTH, "Odometry to judge by: the twin's truth, or `odom`."),
)
READY_S = 60.0  # the processes start side by side; ROS discovery takes a few seconds
ASK_AGAIN_S = 0.1
MOVE_S = 15.0
COMMAND_PERIOD_S = 0.05


class Ended(Exception):
    """The programme ended early: asked to stop, or the robot left the mode."""


class WalkProgramme(Node):
    def __init__(self, stop: ProcessEnd) -> None:
        super().__init__("walk_programme")
        values = declare(self, PARAMETERS)
        self._duration_s = float(values["duration"])
        self._recorded = bool(values["recorded"])
        self._unrecorded = Path(values["runs"]) / time.strftime("%Y-%m-%d_%H-%M-%S")
        self._stop = stop
        self._tracker = Tracker()
        self._segment: Segment | None = None
        self._velocity = (0.0, 0.0, 0.0)
        self._stack = StackClient(self, values["robot"], ("stand", "walk", "sit"))
        self.create_subscription(Odometry, values["truth"], self._on_odometry, SENSOR)
        self._adaptation: dict[str, float] = {}  # what it believes; empty where there is none
        self.create_subscription(Float32MultiArray, ADAPTATION, self._on_adaptation, SENSOR)
        self._estimates: list[dict[str, float]] = []  # of the policy's network, while it walks
        self.create_subscription(Float32MultiArray, ESTIMATES, self._on_estimates, SENSOR)
        self._thread = threading.Thread(target=self._run, name="programme", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(2.0)

    def _run(self) -> None:
        ended_early = ""
        try:
            self._await_recorder()
            self._reach("stand", "standing")
            self._reach("walk", "walking")
            self._walk()
            if not self._ends_as_asked():  # control was told to end as well, and damps by itself
                self._reach("sit", "damping")
        except Ended as ended:
            ended_early = str(ended)
        checks = [Check.at_most("ended early", float(bool(ended_early)), 0)]
        checks += self._tracker.checks()
        self._report(checks, ended_early)
        self._stop.request(exit_code(checks))

    def _await_recorder(self) -> None:
        """So that the bag contains the whole run."""
        patience = time.monotonic() + READY_S
        while self._recorded and not self._stack.recording:
            self._check_running()
            if time.monotonic() > patience:
                raise Ended("the recorder did not start")
            time.sleep(0.05)

    def _reach(self, service: str, mode: str) -> None:
        """Repeat the request until control accepts it, then wait for the mode."""
        client = self._stack.services[service]
        last_words = ""
        patience = time.monotonic() + READY_S
        while True:
            self._check_running()
            if client.service_is_ready():
                answer = self._call(client)
                if answer is not None and answer.success:
                    break
                words = "no answer" if answer is None else answer.message
            else:
                words = "control is not there yet"
            if time.monotonic() > patience:
                raise Ended(f"{service}: {words}")
            if words != last_words:
                last_words = words
                self.get_logger().info(f"waiting to {service}: {words}")
            time.sleep(ASK_AGAIN_S)
        patience = time.monotonic() + MOVE_S
        while self._stack.mode != mode:
            self._check_running()
            if time.monotonic() > patience:
                raise Ended(f"{service}: still {self._state()} after {MOVE_S:g} s")
            time.sleep(0.02)

    def _call(self, client: Any) -> Any:
        future = client.call_async(Trigger.Request())
        patience = time.monotonic() + 5.0
        while not future.done() and time.monotonic() < patience:
            time.sleep(0.005)
        return future.result() if future.done() else None

    def _walk(self) -> None:
        start = time.monotonic()
        shown_s = 0
        try:
            while True:
                elapsed = time.monotonic() - start
                self._segment = segment_at(elapsed, self._duration_s)
                if self._segment is None:
                    return
                if self._ends_as_asked():
                    return
                self._check_running()
                if self._stack.mode != "walking":
                    raise Ended(f"no longer walking but {self._state()}")
                self._stack.drive(self._segment.vx, self._segment.vy, self._segment.wz)
                if int(elapsed) > shown_s:
                    shown_s = int(elapsed)
                    self._say_status(elapsed)
                time.sleep(COMMAND_PERIOD_S)
        finally:
            self._segment = None
            self._stack.drive(0.0, 0.0, 0.0)

    def _state(self) -> str:
        return f"{self._stack.mode} ({self._stack.safety.message})"

    def _ends_as_asked(self) -> bool:
        """Whether it walks until a signal, as requested by duration 0."""
        return self._duration_s == 0 and self._stop.event.is_set()

    def _check_running(self) -> None:
        if self._stop.event.is_set():
            raise Ended("interrupted")

    def _say_status(self, elapsed: float) -> None:
        assert self._segment is not None
        vx, vy, wz = self._velocity
        leaned = math.degrees(self._tracker.max_tilt_rad)
        print(
            f"\r{elapsed:5.0f} s  {self._segment.name:<9} vx {vx:+.2f} vy {vy:+.2f} wz {wz:+.2f}  "
            f"{self._tracker.distance_m:5.1f} m  tilt at most {leaned:.0f} deg  "
            f"safety: {self._stack.safety.message}",
            flush=True,
        )

    def _report(self, checks: list[Check], ended_early: str) -> None:
        rows = self._tracker.segments()
        for row in rows:
            asked = "  ".join(f"{value:+.2f}" for value in row["asked"])
            measured = "  ".join(f"{value:+.2f}" for value in row["measured"])
            print(f"{row['name']:<9} asked {asked}   measured {measured}   (vx, vy, wz)")
        for key, value in self._stack.statistics.items():
            print(f"{key}: {value}")
        if ended_early:
            print(f"ended early: {ended_early}")
        print_table(f"walked {self._tracker.distance_m:.1f} m", checks)
        raw = {
            "distance_m": self._tracker.distance_m,
            "segments": rows,
            "control": self._stack.statistics,
            "adaptation": self._adaptation,
            "policy_estimates": mean_and_spread(self._estimates),
            "ended_early": ended_early,
        }
        summary = Path(self._stack.recording or self._unrecorded) / "summary.json"
        write_json(summary, "walk", checks, raw)
        print(f"summary: {summary}", flush=True)

    def _on_adaptation(self, message: Float32MultiArray) -> None:
        self._adaptation = by_name(message)

    def _on_estimates(self, message: Float32MultiArray) -> None:
        if self._segment is not None:
            self._estimates.append(by_name(message))

    def _on_odometry(self, message: Odometry) -> None:
        twist = message.twist.twist
        self._velocity = (twist.linear.x, twist.linear.y, twist.angular.z)
        leaning = tilt(quaternion_of(message.pose.pose.orientation))
        self._tracker.add(time.monotonic(), self._segment, self._velocity, leaning)


def mean_and_spread(rows: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of each named value."""
    return {
        name: {
            "mean": float(np.mean([row[name] for row in rows])),
            "spread": float(np.std([row[name] for row in rows])),
        }
        for name in (rows[0] if rows else ())
    }


def main() -> None:
    run(lambda stop: [WalkProgramme(stop)])


if __name__ == "__main__":
    main()
