"""The control process: driver and policy nodes around one control loop.

Four threads: the loop, without ROS; the mirror, which publishes the loop's rows; the executor,
which serves the requests of people and programs; and one for the chords of the remote, because
claiming the wire may take seconds.
"""

import gc
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

from sim2real_deploy import topics
from sim2real_deploy.control.adaptation import open_adaptation
from sim2real_deploy.control.between_steps import between_steps
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.modes import IDLE_MODES, Decision, ModeEvent, ModeRequest
from sim2real_deploy.control.pad_map import load_pad
from sim2real_deploy.control.repertoire import Fallback, Repertoire
from sim2real_deploy.control.stages import default_stage, load_stage
from sim2real_deploy.control.supervision import Supervised, Unsupervised
from sim2real_deploy.control.wire_claim import WireClaim
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import (
    CLOCK,
    FOREIGN_SIMULATOR,
    ROBOT,
    WIRE,
    Parameter,
    ProcessEnd,
    declare,
    run,
    wait_for_no_log,
)
from sim2real_deploy.nodes.driver import Driver
from sim2real_deploy.nodes.messages import stamped
from sim2real_deploy.nodes.outside_odometry import LEGS
from sim2real_deploy.nodes.policy import PolicyNode
from sim2real_deploy.nodes.statistics import LoopStatistics
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.contract import listed
from sim2real_deploy.preflight import admission
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.runtime import realtime
from sim2real_deploy.runtime.local_channel import LocalChannel, run_directory
from sim2real_deploy.runtime.world_clock import open_clock
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink

ODOM_SOURCE = Parameter(
    "odom_source", LEGS, "Source of odometry: 'legs', or the topic of another nav_msgs/Odometry."
)
POLICY = (
    ROBOT,
    Parameter(
        "policy",
        "go2_walk",
        "Policy: a name in policies/, or a folder; '' for none. Several, with commas between: the "
        "first one walks until another is asked for.",
    ),
    Parameter("fallback", "", "Policy that takes over when the active one fails; '' for none."),
    ODOM_SOURCE,
)
DRIVER = (
    *WIRE,
    CLOCK,
    FOREIGN_SIMULATOR,
    Parameter("stage", "", "Deployment stage in config/stages.yaml; '' for the default."),
    Parameter("adaptation", "none", "Adaptation: none, strength, mrac, velocity, all."),
    Parameter("supervised", True, "Move only under a safety supervisor. False only in tests."),
    Parameter("real", True, "A real robot may be at the other end, unless that is this machine."),
    Parameter("runs", "runs", "Real: folder with the runs that clear a policy for its stage."),
    Parameter("last_run", "", "Real: the run one stage below; else found in runs."),
    Parameter("ungated", "", "Real, no passing gate: the words that accept it."),
    ODOM_SOURCE,
    Parameter("remote", "unitree", "Button map of the robot's remote: a file in config/pads."),
    Parameter("gamepad", "xbox", "Button map of a gamepad on `joy`: a file in config/pads."),
    Parameter("publish_rate", 100.0, "Rate of the state topics, Hz.", (1.0, 500.0)),
)
SLOW_S = 1.0
TICK_BLOCK_S = 0.02
REMOTE_S = 0.05
MIRROR_FAILS = 100  # in a row, i.e. one second: then the robot sits down


@dataclass(frozen=True, slots=True)
class Policies:
    """Which policies to load, which of them is the fallback, and the source of odometry."""

    folders: tuple[str, ...]
    fallback: str
    odom_source: str

    def open(self, spec: RobotSpec, stage: str) -> Repertoire:
        opened = [load_bundle(folder, spec).open() for folder in self.folders]
        if not self.fallback:
            return Repertoire(opened)
        events = load_events(spec, stage or default_stage())
        return Repertoire(opened, Fallback.before_stop(self.fallback, events))


class ControlNode(Driver):
    """The driver node with the loop behind it."""

    chain = Supervised

    def __init__(
        self,
        stop: ProcessEnd,
        spec: RobotSpec,
        policy_node: PolicyNode,
        policies: Policies,
    ) -> None:
        super().__init__(f"{spec.name}_driver")
        values = declare(self, DRIVER)
        for name in policies.folders or ("",):
            self._admit(values, name)
        stage = load_stage(values["stage"])
        # Before the link opens: states that queue up meanwhile would be old when taken.
        repertoire = policies.open(spec, values["stage"])
        policy_node.connect(repertoire.policies, policies.odom_source)
        pads = load_pad(values["remote"]), load_pad(values["gamepad"])
        self._stop = stop
        self._domain: int = values["domain"]
        self._period_s = 1.0 / values["publish_rate"]
        self._closers: list[Callable[[], None]] = []
        clock = open_clock(self.get_namespace(), values["domain"], values["clock"])
        self._link = DdsLink(
            spec, values["interface"], values["domain"], name="control", clock=clock
        )
        self._closers.append(self._link.close)
        adaptation = open_adaptation(spec, values["adaptation"], stage.adaptation)
        controller = Controller(spec, stage, repertoire, adaptation)
        supervision = self._join_chain(values) if values["supervised"] else Unsupervised()
        self.loop = ControlLoop(self._link, controller, supervision)
        self._claim = WireClaim(
            self._link,
            spec,
            controller.situation,
            lambda: supervision.supervisor,
            lambda: Participant(values["domain"], values["interface"], "control listens"),
            has_sport_mode=not values["foreign_simulator"],
        )
        self._claiming = threading.Lock()
        self._chords: queue.SimpleQueue[ModeRequest | None] = queue.SimpleQueue()
        self.connect(controller, self.ask, self._link.now_ns, *pads, values["odom_source"])
        self._statistics = LoopStatistics(self.loop)
        self._stats = self.create_publisher(DiagnosticArray, topics.STATISTICS, 10)
        self._diagnostics = self.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
        self._policy_node = policy_node
        self._loop_thread = threading.Thread(target=self._control, name="control")
        self._mirror_thread = threading.Thread(target=self._mirror, name="mirror")
        self._chord_thread = threading.Thread(target=self._serve_chords, name="chords")

    def _admit(self, values: dict[str, Any], policy: str) -> None:
        """Refuse to run unsupervised or without clearance, however this process was started."""
        self._interface, self._real = values["interface"], values["real"]
        admission.check_wire(self._interface, values["clock"], values["supervised"])
        admission.check_foreign_simulator(self._interface, values["foreign_simulator"])
        admission.check_policy(
            self._interface,
            self._real,
            values["robot"],
            policy,
            values["stage"],
            Path(values["runs"]),
            values["last_run"],
            values["ungated"],
        )

    def _join_chain(self, values: dict[str, Any]) -> Supervised:
        directory = run_directory(self.get_namespace(), values["domain"])
        channel = LocalChannel(directory, "control", "safety")
        self._closers.append(channel.close)
        return self.chain(channel, self._link.participant.key, values["stage"])

    def start(self) -> None:
        realtime.calm_interpreter()
        self._statistics.note(realtime.lock_memory())
        self._statistics.note(realtime.keep_awake())
        self._statistics.note(realtime.prefer_receivers())
        realtime.prefer_interpreter()
        for thread in (self._loop_thread, self._mirror_thread, self._chord_thread):
            thread.start()

    def close(self) -> None:
        """Wait until the loop, told to end, has sat the robot down and damped it; then close."""
        self._stop.request()
        self._chords.put(None)
        for thread in (self._loop_thread, self._mirror_thread, self._chord_thread):
            if thread.ident is not None:
                thread.join()
        for close in reversed(self._closers):
            close()

    def ask(self, request: ModeRequest) -> Decision:
        """Handle a person's request. Before a movement out of rest, if everything else permits it,
        the wire is claimed; a robot that moves is never delayed by that."""
        event = request.event
        if event is ModeEvent.SWITCH:
            return self.loop.switch(request.policy)
        if event not in (ModeEvent.STAND, ModeEvent.RECOVER):
            return self.loop.request(event)
        with self._claiming:  # two people may ask at once, on the remote and by a service
            return self._ask_from_rest(event)

    def _ask_from_rest(self, event: ModeEvent) -> Decision:
        if self.loop.controller.mode in IDLE_MODES:
            foreseen = self.loop.foresee(event)
            if not foreseen.accepted:
                return foreseen
            try:
                robot = self._link.robot
                admission.check_robot(self._interface, self._real, robot.name if robot else "")
                self._claim.take() if event is ModeEvent.STAND else self._claim.confirm()
            except Refusal as refusal:
                words = f"cannot {event.value}: {refusal}"
                return Decision(False, self.loop.controller.mode, words)
        return self.loop.request(event)

    def _serve_chords(self) -> None:
        while (request := self._chords.get()) is not None:
            try:
                self.serve_remote(request)
            except Exception as error:  # the next chord, perhaps to sit down, must be served
                self.get_logger().error(f"remote: {request.words} failed: {error!r}")

    def _control(self) -> None:
        self._statistics.note(realtime.prefer_this_thread())
        self._statistics.note(realtime.stay_together(self._domain))
        try:
            self.loop.run(self._stop.event, self._stop.urgent)
        except Exception as error:
            self.get_logger().fatal(f"the control loop failed: {error!r}")
            self._stop.request(1)

    def _mirror(self) -> None:
        """Publish what the loop did, without disturbing it."""
        due, failures = time.monotonic(), 0
        every = {
            self._mirror_ticks: Every(TICK_BLOCK_S),
            self._mirror_remote: Every(REMOTE_S),
            self._mirror_slow: Every(SLOW_S),
        }
        while self._loop_thread.is_alive():
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(due + self._period_s, time.monotonic())
            due = between_steps(due, self.loop.controller.walking.stepped_ns / 1e9, self._period_s)
            try:
                self._mirror_state()
                for action, clock in every.items():
                    if clock.is_due(time.monotonic()):
                        action()
                failures = 0
            except Exception as error:
                failures += 1
                self._tell_mirror_failure(error, failures)

    def _tell_mirror_failure(self, error: Exception, failures: int) -> None:
        """A failure of telemetry never damps a walking robot; if it persists, the robot sits
        down."""
        if failures == 1:
            self.get_logger().error(f"the mirror failed and continues: {error!r}")
        if failures == MIRROR_FAILS:
            self.get_logger().fatal("the mirror fails again and again: sitting down")
            self._stop.request(1)

    def _mirror_state(self) -> None:
        self.show_mode()
        if self._link.latest is not None:
            chord = self.watch_remote(self._link.latest)
            if chord is not None:
                self._chords.put(chord)
            self.show_state(self._link.latest)

    def _mirror_ticks(self) -> None:
        ticks = self.loop.ticks.drain()
        if len(ticks.figures):
            self._statistics.add(ticks)
            self._policy_node.show(ticks, self.typed)
            self.show_ticks(ticks, self.loop.ticks.columns)
            self.show_commands(ticks, self._link.latest)
            self.show_adaptation()

    def _mirror_remote(self) -> None:
        if self._link.latest is not None:
            self.show_remote(self._link.latest)

    def _mirror_slow(self) -> None:
        if self._link.latest is not None:
            self.show_slow(self._link.latest)
        message = stamped(self, self._statistics.report())
        self._stats.publish(message)
        self._diagnostics.publish(message)
        gc.collect(1)  # automatic collection is off; rclpy's garbage is young


class Every:
    """A periodic deadline that does not drift."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        if now < self._due:
            return False
        self._due = max(self._due + self._seconds, now)
        return True


def build(stop: ProcessEnd, kind: type[ControlNode] = ControlNode) -> Sequence[Node]:
    policy_node = PolicyNode()
    values = declare(policy_node, POLICY)
    spec = load_robot(values["robot"])
    policies = Policies(listed(values["policy"]), values["fallback"], values["odom_source"])
    control = kind(stop, spec, policy_node, policies)
    control.start()
    return policy_node, control


def main() -> None:
    realtime.prefer_this_process()
    wait_for_no_log()
    run(build)


if __name__ == "__main__":
    main()
