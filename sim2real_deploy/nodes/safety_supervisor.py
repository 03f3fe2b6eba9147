"""The safety supervisor: a separate process that reads the wire itself and has the last word.

This module is its ROS interface: services, the latched state, diagnostics, the log and incident
files. The stop path itself is supervisor/loop.py and needs none of them.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy import topics
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes import messages
from sim2real_deploy.nodes.common import (
    CLOCK,
    FOREIGN_SIMULATOR,
    LATCHED,
    NAMESPACE,
    WIRE,
    Parameter,
    ProcessEnd,
    declare,
    every,
    run,
    wait_for_no_log,
)
from sim2real_deploy.preflight import admission
from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime.local_channel import LocalChannel, run_directory
from sim2real_deploy.runtime.realtime import prefer_interpreter, prefer_this_process
from sim2real_deploy.runtime.world_clock import open_clock
from sim2real_deploy.safety.chain import PASSIVE, Report, Stop
from sim2real_deploy.safety.events import Reaction
from sim2real_deploy.safety.incident import incident
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.safety.supervisor import Change
from sim2real_deploy.safety.watch import Watch
from sim2real_deploy.supervisor.loop import SupervisorLoop
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.motion_switcher import MotionSwitcher

LOOK_AROUND_S = 0.05  # for incidents that are due; at the surroundings once a second
MODE_TIMEOUT_S = 2.0  # a slow motion switcher is still an answer; it is asked by its own thread
MODE_EVERY_S = 1.0
AFTERMATH_NS = 500_000_000  # an incident file also shows this long after the stop
CROWD = QoSProfile(depth=1000)  # so many simultaneous calls all get an answer
BUTTONS = ("", "R1", "L1", "R2", "L2", "A", "B", "X", "Y")
PARAMETERS = (
    *WIRE,
    CLOCK,
    FOREIGN_SIMULATOR,
    Parameter("stage", "tether", "How far it may go: a stage in config/safety.yaml."),
    Parameter("settings", "", "Another file in the form of config/safety.yaml."),
    Parameter("dead_man", "", "Button of the remote to be held while walking.", choices=BUTTONS),
    Parameter("runs", "runs", "Folder that runs, and incident files, go into."),
    Parameter("real", True, "A real robot may be at the other end, unless that is this machine."),
    Parameter("recorded", False, "Nothing may start to move without a recorder that is alive."),
)
LEVELS = {
    Reaction.NOTE: DiagnosticStatus.OK,
    Reaction.STOP: DiagnosticStatus.ERROR,
    Reaction.ESTOP: DiagnosticStatus.ERROR,
}


@dataclass(slots=True)
class RecorderHealth:
    """The recorder's last report."""

    heard_ns: int | None = None
    run: Path | None = None


class SafetySupervisor(Node):
    def __init__(self, end: ProcessEnd) -> None:
        super().__init__("safety_supervisor")
        values = declare(self, PARAMETERS)
        admission.check_wire(values["interface"], values["clock"])
        foreign: bool = values["foreign_simulator"]
        admission.check_foreign_simulator(values["interface"], foreign)
        self._real = admission.is_real(values["interface"], values["real"])
        self._recorded = values["recorded"] or self._real
        self._started_ns = time.monotonic_ns()
        self._end = end
        self._robot = load_robot(values["robot"])
        self._runs = Path(values["runs"])
        self._recorder = RecorderHealth()
        settings = Path(values["settings"]) if values["settings"] else None
        events = load_events(self._robot, values["stage"], settings)
        directory = run_directory(self.get_namespace(), values["domain"])
        channel = LocalChannel(directory, "safety", "control")
        clock = open_clock(self.get_namespace(), values["domain"], values["clock"])
        link = DdsLink(
            self._robot, values["interface"], values["domain"], name="safety", clock=clock
        )
        self._switcher = MotionSwitcher(link.participant, MODE_TIMEOUT_S)
        stage = self._stage = values["stage"]
        may_recover = load_stage(stage).recovery and self._robot.get_up is not None
        self.loop = SupervisorLoop(
            self._robot, events, link, channel, values["dead_man"], stage, may_recover
        )

        self.loop.foreign_simulator = foreign
        self._state = self.create_publisher(DiagnosticStatus, topics.SAFETY, LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
        serve = partial(self.create_service, Trigger, qos_profile=CROWD)
        serve(topics.ESTOP, lambda _, response: self._press("estop", Stop.ESTOP, response))
        serve(topics.STOP, lambda _, response: self._press("stop", Stop.STOP, response))
        serve(topics.RESET, self._on_reset)
        self.create_subscription(DiagnosticArray, topics.DIAGNOSTICS, self._on_diagnostics, 10)
        self.create_subscription(String, topics.RUN, self._on_run, LATCHED)
        every(self, 0.05, self._tell)
        every(self, 1.0, self._diagnose)
        self._told: DiagnosticStatus | None = None
        self._leaving = threading.Event()
        watches = [self._look_around]
        if not foreign:  # which has no motion switcher to be asked
            watches.append(self._watch_mode)
        self._slow = [threading.Thread(target=self._watch, args=(watch,)) for watch in watches]
        prefer_interpreter()
        self.loop.start()
        for thread in self._slow:
            thread.start()
        self.get_logger().info(
            f"watching {self._robot.title} on {values['interface']}, domain {values['domain']}, "
            f"stage {values['stage']}. This stop is software: keep the remote and the switch near"
        )

    def close(self) -> None:
        self.loop.press("estop")  # nothing may move unwatched; control must know first
        self._leaving.set()
        for thread in self._slow:
            thread.join()
        self.loop.close()

    # What people call

    def _press(self, what: str, level: Stop, response: Trigger.Response) -> Trigger.Response:
        before = self.loop.chain.report
        self.loop.press(what)
        supervisor = self.loop.supervisor
        latched = self.loop.alive and supervisor.latched >= level
        idle = "" if self.loop.commands else nothing_to_stop(before)
        response.success = latched and not idle
        words = f"{supervisor.latched.name.lower()}: {supervisor.latched_reason}"
        response.message = f"{idle}; latched: {supervisor.latched_reason}" if idle else words
        return response

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        refused = self.loop.reset()
        response.success = not refused
        response.message = refused or "reset: it may start again on request"
        if refused:
            self.get_logger().warning(f"reset refused: {refused}")
        return response

    # What is told

    def _tell(self) -> None:
        if not self.loop.alive:
            self.get_logger().fatal(f"the supervisor's own loop failed: {self.loop.failure!r}")
            self._end.request(1)
            return
        while self.loop.changes:
            self._log(self.loop.changes.popleft())
        status = self._status()
        if status != self._told:
            self._told = status
            self._state.publish(status)

    def _log(self, change: Change) -> None:
        event, log = change.event, self.get_logger()
        if not change.raised:
            log.info(f"{event.key}: over")
            return
        line = f"{event.key}: {change.text} -> {event.reaction.name.lower()}. {event.remedy}"
        if event.reaction >= Reaction.STOP:
            log.error(line)
        elif event.reaction is Reaction.NOTE:
            log.info(line)
        else:
            log.warning(line)

    def _status(self) -> DiagnosticStatus:
        loop, supervisor, verdict = self.loop, self.loop.supervisor, self.loop.verdict
        active = [key for key, watch in supervisor.watches.items() if watch.active]
        level = DiagnosticStatus.WARN if active or not verdict.may_start else DiagnosticStatus.OK
        facts = {
            "stop": verdict.stop.name.lower(),
            "may_start": str(verdict.may_start).lower(),
            "torque_fraction": f"{verdict.torque_fraction:.2f}",
            "taken_over": str(supervisor.taken_over).lower(),
            "resets": str(supervisor.resets),
            "stage": self._stage,
            "control": loop.chain.report.mode if loop.chain.report else "not running",
            "recorder": self._recorder_says(),
            "events": ", ".join(active),
        }
        words = verdict.reason or "all is well"
        if verdict.stop:
            level, words = DiagnosticStatus.ERROR, f"{verdict.stop.name.lower()}: {verdict.reason}"
        return messages.diagnosis("safety", level, words, facts, self._robot.name)

    def _diagnose(self) -> None:
        state = self._status()  # a latched stop outlives the event that caused it
        state.name = f"{self.get_name()}: state"
        where = KeyValue(key=NAMESPACE, value=self.get_namespace())  # /diagnostics has none
        state.values = [*state.values, where]
        watches = self.loop.supervisor.watches.values()
        self._diagnostics.publish(messages.stamped(self, state, *map(self._status_of, watches)))

    def _status_of(self, watch: Watch) -> DiagnosticStatus:
        event, reading = watch.event, watch.reading
        level, words = DiagnosticStatus.OK, "nothing measured" if reading is None else "ok"
        if watch.active:
            level = LEVELS.get(event.reaction, DiagnosticStatus.WARN)
            words = f"{watch.describe()}. {event.remedy}"
        facts = {
            "threshold": f"{'below' if event.below else 'above'} {event.threshold:g} {event.unit}",
            "time": f"{event.time_s:g} s",
            "reaction": event.reaction.name.lower(),
        }
        if reading is not None:
            facts["measured"] = f"{reading.value:.4g} {event.unit} {reading.where}".strip()
        name = f"{self.get_name()}: {event.key}"
        return messages.diagnosis(name, level, words, facts, self._robot.name)

    def _recorder_says(self) -> str:
        if self.loop.recorder_silence_s is None:
            return "not running"
        gone = self.loop.supervisor.watches["recorder_gone"].active
        return "silent" if gone else "recording"

    # The surroundings

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == "recorder" and spoken_of(status) == self.get_namespace():
                # A recorder that reports it is not recording counts as silent from the start.
                well = status.level != DiagnosticStatus.ERROR
                if well or self._recorder.heard_ns is None:
                    self._recorder.heard_ns = time.monotonic_ns()

    def _on_run(self, message: String) -> None:
        """Where the bag is. Only a folder inside our runs is accepted: a message must not be able
        to choose any path."""
        with suppress(OSError, RuntimeError, ValueError):  # no path, or a loop of links
            run = Path(message.data).resolve()
            if run.parent == self._runs.resolve() and run.is_dir():
                self._recorder.run = run

    def _watch(self, watch: Callable[[], None]) -> None:
        """Runs in one of the slow threads. If it fails, its last report would stay in force for
        ever, so from then on nothing may start to move."""
        try:
            watch()
        except Exception as error:
            self.loop.blind = (
                f"the supervisor's{watch.__name__.replace('_', ' ')} failed: {error!r}"
            )
            self.get_logger().fatal(f"{self.loop.blind}; restart the stack")

    def _look_around(self) -> None:
        """Slow checks, which must not delay the loop."""
        due = 0.0
        while not self._leaving.wait(LOOK_AROUND_S):
            self._write_incident()
            if time.monotonic() >= due:
                due = time.monotonic() + 1.0
                self._look_once_a_second()

    def _look_once_a_second(self) -> None:
        heard_ns = self._recorder.heard_ns
        if heard_ns is None and self._recorded:
            heard_ns = self._started_ns
        self.loop.recorder_silence_s = (
            None if heard_ns is None else (time.monotonic_ns() - heard_ns) / 1e9
        )
        if self._real:
            self.loop.unfit = "; ".join(self.loop.missing_rights)
        folder = next(p for p in (self._runs, *self._runs.absolute().parents) if p.is_dir())
        self.loop.disk_free_gb = shutil.disk_usage(folder).free / 1e9

    def _watch_mode(self) -> None:
        """Watch whether the vendor's own motion mode is on; the robot may be slow to answer.

        For one look after its release, its last commands still count as the vendor's.
        """
        answered, before = time.monotonic(), False
        while True:
            driving = self.loop.driving  # read first: a mode that was on before its release is past
            with suppress(Refusal):  # without an answer the last known mode stays
                on = not self._switcher.check().released
                self.loop.vendor_mode, before = on or before, on
                self.loop.sport_mode = on and driving
                answered = time.monotonic()
            self.loop.mode_silence_s = time.monotonic() - answered
            if self._leaving.wait(MODE_EVERY_S):
                return

    def _write_incident(self) -> None:
        loop = self.loop
        if not loop.stops or loop.now_ns() - loop.stops[0] < AFTERMATH_NS:
            return
        now_ns = loop.stops.popleft()
        content = incident(
            loop.supervisor, tuple(loop.history), tuple(loop.states), loop.chain.report, now_ns
        )
        wall = datetime.now(timezone.utc)
        folder = self._recorder.run or self._runs
        path = folder / f"incident_{wall:%Y%m%d_%H%M%S_%f}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("w") as file:  # piece by piece: dumps() would block the loop
                json.dump({"time": wall.isoformat(), **content}, file)
        except OSError as error:
            self.get_logger().error(f"the incident file could not be written: {error}")
            return
        self.get_logger().info(f"incident file: {path}")


def spoken_of(status: DiagnosticStatus) -> str:
    """The namespace that a status is of; "" if it names none. /diagnostics is all robots'."""
    return messages.facts_of(status).get(NAMESPACE, "")


def nothing_to_stop(report: Report | None) -> str:
    """Tells the caller that no command of ours moves the robot; otherwise ""."""
    if report is None:
        return "nothing to stop: control is not running; use the robot's remote"
    if report.mode == PASSIVE:
        return (
            "nothing to stop: control is passive and sends nothing; a robot in its own sport mode "
            "is stopped with its remote"
        )
    return ""


def build(end: ProcessEnd) -> Sequence[Node]:
    return (SafetySupervisor(end),)


if __name__ == "__main__":
    prefer_this_process()
    wait_for_no_log()
    run(build)
