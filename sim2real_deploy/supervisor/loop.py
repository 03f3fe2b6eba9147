"""The supervisor's own thread: it looks, decides and acts by its own clock, without ROS.

Nothing on the way from a fault to damping waits for a topic, a service or discovery. It looks at
every second state of the wire, which is half the work and, since time over a threshold counts from
the look before, no later. A stop that is not yet in force wakes it at once; anything else waits for
the next look, so that no crowd of callers changes when the supervisor looks.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence

from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.runtime.local_channel import LocalChannel
from sim2real_deploy.runtime.realtime import (
    calm_interpreter,
    lock_memory,
    prefer_receivers,
    prefer_this_thread,
)
from sim2real_deploy.safety.chain import (
    HEARTBEAT_PERIOD_NS,
    PASSIVE,
    Stop,
    SupervisorSide,
    Verdict,
)
from sim2real_deploy.safety.events import Event
from sim2real_deploy.safety.inputs import Inputs
from sim2real_deploy.safety.supervisor import Change, CycleResult, Supervisor
from sim2real_deploy.supervisor.command_watch import CommandWatch
from sim2real_deploy.supervisor.control_process import ControlProcess
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD

LOOK_S = 0.004
LAST_DAMPING = 25  # commands in control's place before it ends: one might get lost
REMEMBERED_S = 3.0  # seconds of state kept for the incident file
LEVELS = {"stop": Stop.STOP, "estop": Stop.ESTOP}  # what people may call


class SupervisorLoop:
    """`press` and `reset` may be called from any thread; the results are read from any thread."""

    def __init__(
        self,
        robot: RobotSpec,
        events: Sequence[Event],
        link: DdsLink,
        channel: LocalChannel,
        dead_man: str = "",
        stage: str = "",
        may_recover: bool = False,
    ) -> None:
        self.supervisor = Supervisor(robot, events, dead_man, stage, may_recover)
        self.chain = SupervisorSide(secrets.randbits(64), link.participant.key)
        self.verdict = Verdict(Stop.NONE, 1.0, False, True, "just started")
        self.changes: deque[Change] = deque(maxlen=1000)  # drained by the node
        self.history: deque[Change] = deque(maxlen=200)
        self.states: deque[RobotState] = deque(maxlen=round(REMEMBERED_S / LOOK_S))
        self.stops: deque[int] = deque(maxlen=10)  # times of stops, each owed an incident file
        self.missing_rights: tuple[str, ...] = ()  # real-time rights not granted
        # Written by the node's slow threads, read here.
        self.sport_mode = self.vendor_mode = False
        self.mode_silence_s: float | None = None
        self.foreign_simulator = False  # set before the start, and not changed after it
        self.unfit = self.blind = ""  # this computer; what of the surroundings goes unwatched
        self.recorder_silence_s: float | None = None
        self.disk_free_gb: float | None = None

        self.now_ns = link.now_ns
        self._link = link
        self._channel = channel
        self._damping = JointCommand.damping(robot.joint_count, float(robot.damping[0]))
        self._damping.kd[:] = robot.damping
        self._commands = link.participant.reader(LOW_CMD, FAMILIES[robot.wire.family].command)
        self._wire = CommandWatch(robot, link.participant.who, link.participant.key)
        self._control: ControlProcess | None = None
        self._leaps = 0
        self.commands = False  # we damp the robot in control's place
        self._heartbeat_ns = 0
        self._asked = threading.Condition()
        self._pressed: set[str] = set()
        self._reset_asked = self._resetting = False
        self._reset_answer = ""
        self._urgent = False  # a stop was called that is not in force yet
        self._asks = self._answered = 0  # counts of requests that wait for an answer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        calm_interpreter()
        self._thread.start()

    def close(self) -> None:
        """End the thread; tells control, which damps."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        farewell = Verdict(Stop.ESTOP, 1.0, False, True, "the supervisor has ended")
        self._send_heartbeat(farewell, self.now_ns())
        self._channel.close()
        self._link.close()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def driving(self) -> bool:
        """Control says that it moves the robot."""
        report = self.chain.report
        return report is not None and not report.damping

    def press(self, what: str) -> None:
        """Call "stop" or "estop"; returns when it is in force. One that already is counts again at
        the next look, against a reset, too, but its caller need not wait for it."""
        with self._asked:
            self._pressed.add(what)
            clearing = self._reset_asked or self._resetting
            if clearing or self.verdict.stop < LEVELS[what]:
                self._urgent = True
                self._await_answer()

    def reset(self) -> str:
        """Ask for a reset; the reason it was refused, or "" when it was done."""
        with self._asked:
            self._reset_asked = True
            self._await_answer()
            return self._reset_answer

    def _await_answer(self) -> None:
        """Wait for the end of the first cycle that starts after this request."""
        self._asks = number = self._asks + 1
        self._asked.notify_all()
        self._asked.wait_for(lambda: self._answered >= number or not self.alive, timeout=1.0)

    def _run(self) -> None:
        try:
            rights = (lock_memory(), prefer_this_thread() or prefer_receivers())
            self.missing_rights = tuple(filter(None, rights))
            due = time.monotonic()
            while not self._stopping.is_set():
                due = self._rest_until(due)
                self._cycle(self._link.wait(0.0), self.now_ns())
            for _ in range(LAST_DAMPING if self.commands else 0):
                self._link.send(self._damping)
                time.sleep(LOOK_S)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            with self._asked:
                self._asked.notify_all()

    def _rest_until(self, due: float) -> float:
        """Sleep until `due`, or until a stop is called; returns when the next look is due. An early
        look postpones none: a hundred calls must not leave the robot unwatched afterwards."""
        with self._asked:
            self._asked.wait_for(lambda: self._urgent, max(0.0, due - time.monotonic()))
        now = time.monotonic()
        return due if now < due else max(due + LOOK_S, now)

    def _cycle(self, state: RobotState | None, now_ns: int) -> None:
        if state is not None:
            self.states.append(state)
        for datagram in self._channel.receive():
            self.chain.hear(datagram)
        report, wire = self.chain.report, self._wire
        wire.see(self._commands.take(), report.participant if report else "", now_ns)
        control_silence_s = self._watch_control(now_ns)
        with self._asked:
            pressed, self._pressed = frozenset(self._pressed), set()
            reset_asked = self._resetting = self._reset_asked
            self._reset_asked = self._urgent = False
            taken = self._asks
        inputs = Inputs(
            state=state,
            counters=self._link.counters,
            report=self.chain.report,
            control_silence_s=control_silence_s,
            command=wire.command,
            command_damping=wire.damping,
            commands_between=wire.drove,
            command_age_s=(now_ns - wire.command_ns) / 1e9,
            command_not_finite=wire.not_finite,
            rivals=wire.rivals(now_ns),
            lingering=wire.lingering(now_ns),
            sport_mode=self.sport_mode,
            vendor_mode=self.vendor_mode,
            mode_silence_s=self.mode_silence_s,
            foreign_simulator=self.foreign_simulator,
            unfit=self.unfit or self.blind,
            recorder_silence_s=self.recorder_silence_s,
            disk_free_gb=self.disk_free_gb,
            wall_ns=time.time_ns(),
            pressed=pressed,
            reset_asked=reset_asked,
        )
        decision = self.supervisor.update(inputs, now_ns)
        self._act(decision, now_ns)
        with self._asked:
            self._resetting = False
            if reset_asked:
                self._reset_answer = decision.reset_refused
            if taken > self._answered:
                self._answered = taken
                self._asked.notify_all()

    def _watch_control(self, now_ns: int) -> float:
        """How long control's answer is overdue; infinite at once if its process has ended."""
        report, silence_s = self.chain.report, self.chain.silence_s(now_ns)
        if report is None:
            return 0.0
        if self._control is None or self._control.pid != report.pid:
            self._let_go_of_control()
            self._control = ControlProcess(report.pid)
        if not self._control.is_gone():
            return silence_s
        if report.leaving and (self._wire.command is None or self._wire.damping):
            self.chain.forget()  # it left as it said, which the wire shows
        return float("inf")

    def _act(self, decision: CycleResult, now_ns: int) -> None:
        if decision.take_over:
            self.commands = self._has_commanded()
            if self._control is not None:
                self._control.kill()
            self.chain.forget()
        counters = self._link.counters
        self.commands = self.commands and self.supervisor.taken_over
        if counters.leaps != self._leaps:  # the robot restarted: it is its sport mode's again
            self._leaps, self.commands = counters.leaps, False
        if self.commands:
            self._link.send(self._damping)
        changed = decision.verdict != self.verdict
        if changed or now_ns - self._heartbeat_ns >= HEARTBEAT_PERIOD_NS:
            self._send_heartbeat(decision.verdict, now_ns)
        self.verdict = decision.verdict
        self.changes.extend(decision.changes)
        self.history.extend(decision.changes)
        if decision.stopped:
            self.stops.append(now_ns)

    def _has_commanded(self) -> bool:
        """Where control was passive, and the wire never showed a command of its own, the robot is
        its own sport mode's: damping beside that would be two writers, which is worse than none."""
        report = self.chain.report
        return report is None or report.mode != PASSIVE or self._wire.command is not None

    def _send_heartbeat(self, verdict: Verdict, now_ns: int) -> None:
        self._heartbeat_ns = now_ns
        resets = self.supervisor.resets
        self._channel.send(self.chain.heartbeat(verdict, resets, secrets.randbits(64), now_ns))

    def _let_go_of_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
