"""The supervisor's decisions: one `update` per cycle, from observations to a verdict.

Stops are latched and the most severe wins. A reset is an input like any other and is judged after
the events of the same cycle, so a stop always beats a reset.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots.spec import LEAST_DAMPING, MOST_KD, RobotSpec
from sim2real_deploy.robots.state import JointCommand
from sim2real_deploy.safety.chain import Stop, Verdict
from sim2real_deploy.safety.envelope import CommandEnvelope
from sim2real_deploy.safety.events import Event, Reaction
from sim2real_deploy.safety.inputs import Inputs, Monitor, Reading, Readings
from sim2real_deploy.safety.monitors_body import BatteryMonitor, JointMonitor, RemoteMonitor
from sim2real_deploy.safety.monitors_state import PostureMonitor, StateMonitor
from sim2real_deploy.safety.monitors_system import ControlMonitor, SystemMonitor
from sim2real_deploy.safety.motion import MotionMonitor
from sim2real_deploy.safety.obedience import Obedience
from sim2real_deploy.safety.thermal import HeatMonitor, torque_fraction
from sim2real_deploy.safety.watch import Watch

TAKE_OVER = ("control_gone", "control_idle_gone", "control_disobeys")
ASKED = frozenset({"estop_pressed", "stop_pressed"})


@dataclass(frozen=True, slots=True)
class Change:
    """An event that was raised or cleared."""

    now_ns: int
    event: Event
    raised: bool
    text: str
    value: float


@dataclass(frozen=True, slots=True)
class CycleResult:
    verdict: Verdict
    changes: tuple[Change, ...]
    stopped: bool  # a stop was latched, or became more severe, in this cycle
    take_over: bool  # kill control now; from here on the supervisor commands the robot
    reset_refused: str  # why the reset was refused; "" if it was done or not requested


class Supervisor:
    """`dead_man`: the remote's button that must be held while walking; "" for none. `stage`: the
    stage these events belong to; "" to skip the comparison with control's. `may_recover`: the
    robot may get up by itself after a fall."""

    def __init__(
        self,
        robot: RobotSpec,
        events: Iterable[Event],
        dead_man: str = "",
        stage: str = "",
        may_recover: bool = False,
    ) -> None:
        self.watches = {event.key: Watch(event) for event in events}
        self._watching = [(watch.event.watches, watch) for watch in self.watches.values()]
        self.latched = Stop.NONE
        self.latched_reason = ""
        self.resets = 0
        self.taken_over = False
        self._latched_ns = 0
        self._last_ns: int | None = None
        self._may_adapt = True  # cleared when adaptation hits its bound, set again by a reset
        self._active: list[Watch] = []
        self._seen_state = False
        self._derate = self.watches["motor_hot"].event.threshold
        self._sit = self.watches["motor_too_hot"].event.threshold
        self._obedience = Obedience()
        self._monitors: tuple[Monitor, ...] = (
            StateMonitor(robot),
            PostureMonitor(may_recover),
            MotionMonitor(robot),
            JointMonitor(robot),
            HeatMonitor(robot, self._sit),
            BatteryMonitor(),
            RemoteMonitor(dead_man),
            ControlMonitor(stage),
            CommandEnvelope(robot),
            SystemMonitor(),
        )
        self._refuse_unfed_events()

    def _refuse_unfed_events(self) -> None:
        """An event that no monitor measures would silently never be raised."""
        measured = ASKED.union(Obedience.MEASURES, *(m.MEASURES for m in self._monitors))
        for key, watch in self.watches.items():
            if watch.event.watches not in measured:
                raise Refusal(
                    f"event '{key}' watches '{watch.event.watches}', which no monitor measures; "
                    f"there are: {', '.join(sorted(measured))}"
                )

    def update(self, inputs: Inputs, now_ns: int) -> CycleResult:
        self._seen_state = self._seen_state or inputs.state is not None
        readings = self._measure(inputs, now_ns)
        before = self.latched
        changes = self._judge(readings, now_ns)
        take_over = self._must_take_over()
        refused = self._reset(inputs) if inputs.reset_asked else ""
        return CycleResult(
            verdict=self._verdict(readings),
            changes=changes,
            stopped=self.latched > before,
            take_over=take_over,
            reset_refused=refused,
        )

    def _measure(self, inputs: Inputs, now_ns: int) -> Readings:
        readings: Readings = {
            "estop_pressed": Reading(float("estop" in inputs.pressed)),
            "stop_pressed": Reading(float("stop" in inputs.pressed)),
        }
        for monitor in self._monitors:
            readings.update(monitor.measure(inputs, now_ns))
        order = Stop.NONE if self.taken_over else self.latched
        speed = readings.get("speed")
        readings.update(self._obedience.measure(inputs, order, self._latched_ns, speed, now_ns))
        return readings

    def _judge(self, readings: Readings, now_ns: int) -> tuple[Change, ...]:
        elapsed_s = 0.0 if self._last_ns is None else (now_ns - self._last_ns) / 1e9
        self._last_ns = now_ns
        changes = []
        for watches, watch in self._watching:
            if watch.update(readings.get(watches), elapsed_s):
                value = watch.reading.value if watch.reading else 0.0
                changes.append(Change(now_ns, watch.event, watch.active, watch.describe(), value))
        if changes:
            self._active = [watch for watch in self.watches.values() if watch.active]
        for watch in self._active:
            if watch.event.reaction.stop > self.latched:
                self.latched = watch.event.reaction.stop
                self.latched_reason = watch.describe()
                self._latched_ns = now_ns
        return tuple(changes)

    def _must_take_over(self) -> bool:
        due = any(self.watches[key].active for key in TAKE_OVER)
        if self.taken_over or not due:
            return False
        self.taken_over = True
        return True

    def _reset(self, inputs: Inputs) -> str:
        """Clear the latch, or keep it and return why."""
        for watch in self._active:
            if watch.event.reaction >= Reaction.STOP:
                return f"{watch.describe()}; {watch.event.remedy}"
        if not self._seen_state:
            return "no state from the robot yet"
        if inputs.report is None:
            return "control is not running; start it first"
        if not inputs.report.damping:
            return f"control is in '{inputs.report.mode}': it must be damping first"
        if inputs.driving:
            return "control says that it damps, but what it sends does not: end it, start it again"
        self.latched, self.latched_reason = Stop.NONE, ""
        self.taken_over = False
        self._may_adapt = True
        self.resets += 1
        return ""

    def _verdict(self, readings: Readings) -> Verdict:
        temperature = readings.get("motor_temperature")
        fraction = 1.0
        if temperature is not None and self.watches["motor_hot"].active:
            fraction = torque_fraction(temperature.value, self._derate, self._sit)
        obstacle = self._obstacle()
        self._may_adapt = self._may_adapt and not self.watches["adaptation_bound"].active
        return Verdict(self.latched, fraction, not obstacle, True, obstacle, self._may_adapt)

    def _obstacle(self) -> str:
        """Why the robot may not start; "" if it may."""
        if self.latched:
            return self.latched_reason
        if not self._seen_state:
            return "no state from the robot yet"
        for watch in self._active:
            if watch.event.reaction >= Reaction.REFUSE_START:
                return watch.describe()
        return ""


def is_damping(command: JointCommand) -> bool:
    """Whether it only resists motion, with a gain that brakes a leg and that a motor bears: no
    position, speed or torque is commanded."""
    return (
        not command.kp.any()
        and not command.torque.any()
        and not command.dq.any()
        and bool((command.kd >= LEAST_DAMPING).all() and (command.kd <= MOST_KD).all())
    )
