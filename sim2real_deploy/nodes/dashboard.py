"""The dashboard node: shows the stack on a page and passes on the page's requests.

It reads the fast topics only as often as the page is redrawn, and not at all while nobody watches.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.node import Node
from sensor_msgs.msg import BatteryState, JointState
from std_msgs.msg import Float32MultiArray, String

from sim2real_deploy import topics
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.dashboard.access import page_token
from sim2real_deploy.dashboard.snapshot import REQUESTS, Answered, Snapshot, Velocity
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import (
    LATCHED,
    ROBOT,
    SENSOR,
    Parameter,
    ProcessEnd,
    declare,
    every,
    run,
)
from sim2real_deploy.nodes.messages import quaternion_of
from sim2real_deploy.nodes.newest import Newest
from sim2real_deploy.nodes.stack_client import StackClient
from sim2real_deploy.paths import to_install
from sim2real_deploy.policy.contract import contract_names
from sim2real_deploy.robots import load_robot

PARAMETERS = (
    ROBOT,
    Parameter("stage", "", "Stage in config/stages.yaml that bounds the sliders."),
    Parameter("policy", "", "Loaded policies, comma-separated: a button for each."),
    Parameter("host", "127.0.0.1", "Address to serve on; any but this machine's needs a token."),
    Parameter("port", 8080, "Port to serve on; the next free one if it is taken.", (1, 65535)),
    Parameter("token", "", "Needed to command; generated and logged if needed and empty."),
    Parameter("real", False, "A real robot: the page asks for a token on this machine, too."),
    Parameter("rate", 20.0, "How often the robot is drawn, Hz.", (1.0, 60.0)),
)
WORDS_S = 0.5
COMMAND_S = 0.05
HOLD_S = 0.3  # without a command from the browser the robot stands; a held button sends at 10 Hz
STILL: Velocity = (0.0, 0.0, 0.0)


class Dashboard(Node):
    def __init__(self) -> None:
        super().__init__("dashboard")
        values = declare(self, PARAMETERS)
        page_module = _page_module()
        robot = load_robot(values["robot"])
        self._snapshot = Snapshot()
        self._velocity, self._driven_s = STILL, 0.0
        self._heard_joints = -np.inf
        policies = contract_names(values["policy"])
        requests = ("estop", *REQUESTS, *map(topics.switch_to, policies))
        self._stack = StackClient(
            self, robot.name, requests, updated=self._on_stack, velocity=topics.VELOCITY_PAGE
        )
        self._joints = Newest(self, JointState, topics.JOINTS, SENSOR)
        self._odometry = Newest(self, Odometry, topics.ODOMETRY, SENSOR)
        self._asked = Newest(self, Twist, topics.VELOCITY, 10)
        subscribe = self.create_subscription
        subscribe(String, topics.LEASE, self._on_lease, LATCHED)
        subscribe(String, topics.POLICY, self._on_policy, LATCHED)
        subscribe(Float32MultiArray, topics.TEMPERATURES, self._on_temperatures, SENSOR)
        subscribe(BatteryState, topics.BATTERY, self._on_battery, 10)
        subscribe(DiagnosticArray, topics.DIAGNOSTICS, self._on_diagnostics, 10)
        host = values["host"]
        token = page_token(values["token"], host, values["real"])
        stage = load_stage(values["stage"])
        self._page = page_module.Page(
            robot, values["stage"], stage.velocity, self, host, values["port"], token, policies
        )
        self._drawing = threading.Event()
        self._thread = threading.Thread(
            target=self._draw, args=(1.0 / values["rate"],), name="drawing"
        )
        self._thread.start()
        every(self, COMMAND_S, self._send_velocity)
        secret = f"; the token to command: {token}" if token else ""
        self.get_logger().info(f"open http://{host}:{self._page.port}{secret}")

    def close(self) -> None:
        self._drawing.set()
        self._thread.join()
        self._page.close()

    # What the page asks for, in the page's threads

    def estop(self, answered: Answered) -> None:
        self._stack.ask("estop", answered)

    def ask(self, service: str, answered: Answered) -> None:
        self._stack.ask(service, answered)

    def drive(self, velocity: Velocity) -> None:
        """Hold to run: unless the page repeats the command, the robot stands still."""
        was, self._velocity, self._driven_s = self._velocity, velocity, time.monotonic()
        if velocity == STILL and was != STILL:
            self._stack.drive(*STILL)

    def _send_velocity(self) -> None:
        if self._velocity == STILL:
            return
        if time.monotonic() - self._driven_s > HOLD_S:
            self.drive(STILL)
        else:
            self._stack.drive(*self._velocity)

    # What the page shows

    def _draw(self, period_s: float) -> None:
        words_due = 0.0
        while not self._drawing.wait(period_s):
            if not self._page.watched:
                continue
            self._look()
            self._snapshot.recording = self._stack.recording
            self._snapshot.statistics = self._stack.statistics
            self._page.show(self._snapshot)
            if time.monotonic() >= words_due:
                words_due = time.monotonic() + WORDS_S
                self._page.show_words(self._snapshot)

    def _look(self) -> None:
        shown, now = self._snapshot, time.monotonic()
        joints = self._joints.take()
        if joints is not None:
            self._heard_joints = now
            shown.q = np.array(joints.position, np.float32)
            shown.effort = np.array(joints.effort, np.float32)
        shown.silent_s = now - self._heard_joints
        odometry = self._odometry.take()
        if odometry is not None:
            pose, twist = odometry.pose.pose, odometry.twist.twist
            shown.position = (pose.position.x, pose.position.y, pose.position.z)
            shown.quaternion = quaternion_of(pose.orientation)
            shown.measured = (twist.linear.x, twist.linear.y, twist.angular.z)
        asked = self._asked.take()
        if asked is not None:
            shown.asked = (asked.linear.x, asked.linear.y, asked.angular.z)

    def _on_temperatures(self, message: Float32MultiArray) -> None:
        self._snapshot.temperature = np.array(message.data, np.float32)

    def _on_battery(self, message: BatteryState) -> None:
        self._snapshot.battery = f"{message.percentage * 100:.0f} %, {message.voltage:.1f} V"

    def _on_policy(self, message: String) -> None:
        self._snapshot.policy = message.data
        self._note(f"policy: {message.data or 'none'}")

    def _on_lease(self, message: String) -> None:
        self._snapshot.holder = message.data

    def _on_stack(self) -> None:
        shown, stack = self._snapshot, self._stack
        if stack.mode != shown.mode:
            self._note(f"mode: {stack.mode}")
        if stack.safety.message != shown.safety:
            self._note(f"safety: {stack.safety.message}")
        shown.mode, shown.safety = stack.mode, stack.safety.message
        shown.stopped = stack.safety.level == DiagnosticStatus.ERROR

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.level == DiagnosticStatus.OK:
                self._snapshot.troubles.pop(status.name, None)
            else:
                if status.name not in self._snapshot.troubles:
                    self._note(f"{status.name}: {status.message}")
                self._snapshot.troubles[status.name] = status.message

    def _note(self, words: str) -> None:
        self._snapshot.events.append(f"{time.strftime('%H:%M:%S')} {words}")


def _page_module() -> Any:
    """Imported late, because its packages are an optional extra."""
    try:
        from sim2real_deploy.dashboard import page
    except ModuleNotFoundError as error:
        raise Refusal(f"the dashboard needs {error.name}: {to_install('dashboard')}") from None
    return page


def build(_: ProcessEnd) -> Sequence[Node]:
    return (Dashboard(),)


if __name__ == "__main__":
    run(build)
