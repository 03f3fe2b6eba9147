"""The control process: driver and policy nodes around one control loop.

Three threads: the loop, which ROS never touches; the mirror, which drains the loop's rows and
publishes them; and the executor, which takes what people and programs ask for.
"""

import gc
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

from sim2real_deploy import topics
from sim2real_deploy.control.between_steps import between_steps
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.modes import Decision, Event
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.supervision import Supervised, Unsupervised
from sim2real_deploy.control.wire_claim import WireClaim
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import CLOCK, ROBOT, WIRE, Parameter, Stop, declare, run
from sim2real_deploy.nodes.driver import Driver
from sim2real_deploy.nodes.policy import PolicyNode
from sim2real_deploy.nodes.statistics import LoopStatistics
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.runtime import realtime
from sim2real_deploy.runtime.local_channel import LocalChannel, run_directory
from sim2real_deploy.runtime.world_clock import open_clock
from sim2real_deploy.wire.dds_link import DdsLink

POLICY = (
    ROBOT,
    Parameter("policy", "go2_walk", "Policy: a name in policies/, or a folder; '' for none."),
)
DRIVER = (
    *WIRE,
    CLOCK,
    Parameter("stage", "", "How far it may go: a stage in config/stages.yaml; '' for its default."),
    Parameter("supervised", True, "Move only under a safety supervisor. False for tests alone."),
    Parameter("publish_rate", 100.0, "Rate of the state topics, Hz.", (1.0, 500.0)),
)
SLOW_S = 1.0
TICK_BLOCK_S = 0.02
REMOTE_S = 0.05
WRITERS_S = 0.2


class ControlNode(Driver):
    """The driver node with the loop behind it."""

    def __init__(
        self, stop: Stop, spec: RobotSpec, policy: Policy | None, policy_node: PolicyNode
    ) -> None:
        super().__init__(f"{spec.name}_driver")
        values = declare(self, DRIVER)
        stage = load_stage(values["stage"])
        self._stop = stop
        self._domain: int = values["domain"]
        self._period_s = 1.0 / values["publish_rate"]
        self._closers: list[Callable[[], None]] = []
        clock = open_clock(self.get_namespace(), values["domain"], values["clock"])
        self._link = DdsLink(
            spec, values["interface"], values["domain"], name="control", clock=clock
        )
        self._closers.append(self._link.close)
        controller = Controller(spec, stage, policy)
        supervision = self._join_chain(values) if values["supervised"] else Unsupervised()
        self.loop = ControlLoop(self._link, controller, supervision)
        self._claim = WireClaim(
            self._link, spec, controller.situation, lambda: supervision.supervisor
        )
        self.connect(controller, self.ask, self._link.now_ns)
        self._statistics = LoopStatistics(self.loop)
        self._stats = self.create_publisher(DiagnosticArray, topics.STATISTICS, 10)
        self._diagnostics = self.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
        self._policy_node = policy_node
        self._loop_thread = threading.Thread(target=self._control, name="control")
        self._mirror_thread = threading.Thread(target=self._mirror, name="mirror")

    def _join_chain(self, values: dict[str, Any]) -> Supervised:
        directory = run_directory(self.get_namespace(), values["domain"])
        channel = LocalChannel(directory, "control", "safety")
        self._closers.append(channel.close)
        return Supervised(channel, self._link.participant.key)

    def start(self) -> None:
        realtime.calm_interpreter()
        self._statistics.note(realtime.lock_memory())
        self._statistics.note(realtime.keep_awake())
        self._statistics.note(realtime.prefer_receivers())
        self._loop_thread.start()
        self._mirror_thread.start()

    def close(self) -> None:
        """Damp, then leave: the loop has been told to end by whatever ended the process."""
        self._stop.request()
        for thread in (self._loop_thread, self._mirror_thread):
            if thread.ident is not None:
                thread.join()
        for close in reversed(self._closers):
            close()

    def ask(self, event: Event) -> Decision:
        """What a person asked for; the wire is claimed before the first movement."""
        if event is Event.STAND:
            try:
                self._claim.take()
            except Refusal as refusal:
                return Decision(False, self.loop.controller.mode, f"cannot stand: {refusal}")
        return self.loop.request(event)

    def _control(self) -> None:
        self._statistics.note(realtime.prefer_this_thread())
        self._statistics.note(realtime.stay_together(self._domain))
        try:
            self.loop.run(self._stop.event)
        except Exception as error:
            self.get_logger().fatal(f"the control loop failed: {error!r}")
            self._stop.request(1)

    def _mirror(self) -> None:
        """Publish what the loop did, from outside of it and out of its way."""
        try:
            due = time.monotonic()
            every = {
                self._mirror_ticks: Every(TICK_BLOCK_S),
                self._mirror_remote: Every(REMOTE_S),
                self._claim.look: Every(WRITERS_S),
                self._mirror_slow: Every(SLOW_S),
            }
            while not self._stop.event.wait(max(0.0, due - time.monotonic())):
                due = max(due + self._period_s, time.monotonic())
                due = between_steps(due, self.loop.controller.stepped_ns / 1e9, self._period_s)
                self._mirror_state()
                for action, clock in every.items():
                    if clock.is_due(time.monotonic()):
                        action()
        except Exception as error:
            self.get_logger().fatal(f"the mirror failed: {error!r}")
            self._stop.request(1)

    def _mirror_state(self) -> None:
        self.show_mode()
        if self._link.latest is not None:
            self.show_state(self._link.latest)
            self.watch_remote(self._link.latest)

    def _mirror_ticks(self) -> None:
        ticks = self.loop.ticks.drain()
        if len(ticks.figures):
            self._statistics.add(ticks)
            self._policy_node.show(ticks)
            self.show_ticks(ticks, self.loop.ticks.columns)
            self.show_commands(ticks, self._link.latest)

    def _mirror_remote(self) -> None:
        if self._link.latest is not None:
            self.show_remote(self._link.latest)

    def _mirror_slow(self) -> None:
        if self._link.latest is not None:
            self.show_slow(self._link.latest)
        message = self._statistics.report()
        message.header.stamp = self.get_clock().now().to_msg()
        self._stats.publish(message)
        self._diagnostics.publish(message)
        gc.collect(1)  # the collector is off; what rclpy leaves behind is young


class Every:
    """An interval that does not drift."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        if now < self._due:
            return False
        self._due = max(self._due + self._seconds, now)
        return True


def build(stop: Stop) -> Sequence[Node]:
    policy_node = PolicyNode()
    values = declare(policy_node, POLICY)
    spec = load_robot(values["robot"])
    policy = load_bundle(values["policy"], spec).open() if values["policy"] else None
    policy_node.connect(policy)
    control = ControlNode(stop, spec, policy, policy_node)
    control.start()
    return policy_node, control


def main() -> None:
    realtime.prefer_this_process()
    run(build)


if __name__ == "__main__":
    main()
