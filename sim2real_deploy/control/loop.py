"""The control loop: each state is answered at once, in the thread that waited for it.

The thread blocks in the link and wakes with the sample. While the robot is silent the loop ticks at
absolute deadlines, so that it still obeys the supervisor.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from threading import Event

from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import IDLE_MODES, Decision, Mode, ModeEvent
from sim2real_deploy.control.plain_ticks import (
    ADAPTS,
    ASKED,
    AWAY_NS,
    BACK,
    DUE,
    LAST,
    PATIENCE_PERIODS,
    STEP,
    STEP_PERIOD,
    STEPPED,
    SURPRISE,
    PlainTicks,
)
from sim2real_deploy.control.supervision import Supervision
from sim2real_deploy.control.ticks import TickRing
from sim2real_deploy.robots import RobotState
from sim2real_deploy.wire.link import Link

LAST_DAMPING = 25  # damping commands sent at the end: one might get lost
SIT_S = 6.0  # allowed for slowing down and sitting down at the end
REQUEST_TIMEOUT_S = 1.0
SWITCH_PATIENCE_S = 0.2


class ControlLoop:
    """`run` is the thread; `request` and `switch` are called from others."""

    def __init__(self, link: Link, controller: Controller, supervision: Supervision) -> None:
        self.link = link
        self.controller = controller
        self.supervision = supervision
        self.ticks = TickRing(controller)
        self.late_ticks = 0
        self._requests: deque[tuple[Callable[[int], Decision], Future[Decision]]] = deque()
        self._last_ns: int | None = None
        self._counters = link.counters
        self._not_finite = link.counters.not_finite
        self._lost = link.counters.lost
        self._leaps = link.counters.leaps
        self._patience_ns = round(PATIENCE_PERIODS * controller.period_ns)
        self._due_ns = link.now_ns() + controller.period_ns
        self._plain: PlainTicks | None = None
        if (compiled := link.compiled()) is not None:
            self._plain = PlainTicks(compiled, controller, self.ticks, supervision.orders)

    def request(self, event: ModeEvent) -> Decision:
        """Request a mode from another thread and wait for the loop's decision."""
        return self._decide(partial(self.controller.request, event))

    def switch(self, policy: str) -> Decision:
        """Request a policy by name, or the next one with "". Limits act briefly in any gait, so a
        switch that one prevents is tried again for SWITCH_PATIENCE_S."""
        decision = self._decide(partial(self.controller.switch, policy))
        due_s = time.monotonic() + SWITCH_PATIENCE_S
        while not decision.accepted and self.controller.situation.limited:
            if time.monotonic() > due_s:
                break
            time.sleep(self.controller.period_ns / 1e9)
            decision = self._decide(partial(self.controller.switch, policy))
        return decision

    def _decide(self, request: Callable[[int], Decision]) -> Decision:
        future: Future[Decision] = Future()
        self._requests.append((request, future))
        if self._plain is not None:
            self._plain.times[ASKED] = 1
        try:
            return future.result(REQUEST_TIMEOUT_S)
        except FutureTimeout:
            future.cancel()  # the caller is told it was refused, so it must not happen later
            return Decision(False, self.controller.mode, "the control loop does not answer")

    def foresee(self, event: ModeEvent) -> Decision:
        """What `request` would decide if the wire were ours; changes nothing. For any thread."""
        return self.controller.foresee(event, self.link.now_ns())

    def run(self, stopped: Event, urgent: Event | None = None) -> None:
        """Run until `stopped`, then sit down if the supervisor is healthy. However it ends, damping
        is the last command sent. `urgent` cuts sitting down short."""
        try:
            while not stopped.is_set():
                self.cycle()
            self._sit_down(urgent or Event())
        finally:
            self._leave()

    def _sit_down(self, urgent: Event) -> None:
        """Do not leave the robot standing; without a healthy supervisor damp at once instead."""
        controller = self.controller
        due_ns = self.link.now_ns() + round(SIT_S * 1e9)
        if controller.mode not in IDLE_MODES:
            controller.request(ModeEvent.SIT, self.link.now_ns())
        while controller.mode not in IDLE_MODES and not urgent.is_set():
            if self.link.now_ns() > due_ns or not controller.situation.verdict.healthy:
                return
            self.cycle()

    def cycle(self) -> None:
        """Wait for the next state, or until it is overdue, and run one tick; or compiled ones."""
        if self._plain is not None and self._run_plain(self._plain):
            return
        link = self.link
        state = link.wait((self._due_ns - link.now_ns()) / 1e9)
        now_ns = link.now_ns()
        if state is None:
            self._due_ns += self.controller.period_ns
        else:
            self._due_ns = now_ns + self._patience_ns
        self.tick(state, now_ns)

    def _run_plain(self, plain: PlainTicks) -> bool:
        """Run the ticks that need no Python, and catch up with what they did. False if Python has
        to make the next one: it may be there already."""
        controller, times, last_ns = self.controller, plain.times, self._last_ns
        step_ns = controller.plain_until_ns
        if last_ns is None or not step_ns:
            return False
        step = controller.compiled_step
        if step is None and last_ns + 1.5 * controller.period_ns >= step_ns:
            return False
        times[LAST], times[DUE], times[BACK] = last_ns, self._due_ns, last_ns + AWAY_NS
        times[STEP], times[STEPPED] = step_ns, 0
        times[ADAPTS] = controller.situation.verdict.may_adapt
        times[STEP_PERIOD] = 0 if step is None else controller.walking.step_period_ns
        self.link.compiled()
        self.supervision.order(controller, last_ns, self.late_ticks)
        left = plain.run(controller.repertoire.active, step is not None)
        self.link.catch_up(left)
        now_ns, self._due_ns = times[LAST], times[DUE]
        self._last_ns, controller.state = now_ns, self.link.latest
        controller.walking.clear_tick()
        if times[STEPPED]:
            self.ticks.surprise = float(self.ticks.figures[self.ticks.newest, SURPRISE])
            controller.walking.catch_up(times[STEP], times[STEPPED], self.ticks.surprise)
        if left or now_ns == last_ns:
            return False
        controller.situation.verdict = self.supervision.verdict(now_ns)
        self._finish(now_ns)
        return True

    def tick(self, state: RobotState | None, now_ns: int) -> None:
        """Send the command first; everything that can wait comes after it."""
        start = time.perf_counter_ns()
        controller, supervision = self.controller, self.supervision
        if self._counters.not_finite != self._not_finite:
            self._not_finite = self._counters.not_finite
            controller.fail("the robot's state holds NaN or infinity", now_ns)
        if self._counters.leaps != self._leaps:
            self._leaps = self._counters.leaps
            controller.robot_was_away(now_ns)
        command = controller.step(state, now_ns, supervision.verdict(now_ns))
        decided = time.perf_counter_ns()
        if command is not None:
            self.link.send(command)
        done = time.perf_counter_ns()
        age_ns = (
            0 if controller.state is None else self.link.now_ns() - controller.state.received_ns
        )
        gap_ns = controller.period_ns if self._last_ns is None else now_ns - self._last_ns
        self._last_ns = now_ns
        late = self._is_late(gap_ns, state is None)
        self.late_ticks += late
        still_ns = self.link.stood_still_ns if self.link.may_wait else 0
        self.ticks.write(now_ns, age_ns, gap_ns, done - start, done - decided, late, still_ns)
        self._finish(now_ns)

    def _is_late(self, gap_ns: int, silent: bool) -> bool:
        """Whether this tick came over a period after it was due. States that were lost, and waiting
        for one that did not come, are no lateness of this computer."""
        lost, self._lost = self._counters.lost - self._lost, self._counters.lost
        period_ns = self.controller.period_ns
        due_ns = self._patience_ns if silent else (1 + lost) * period_ns
        return gap_ns > due_ns + period_ns

    def _finish(self, now_ns: int) -> None:
        """After the command is out: report, prepare the next tick, serve requests."""
        self.supervision.answer(self.controller, now_ns, self.ticks.written, self.late_ticks)
        if self._plain is not None:
            self._plain.times[ASKED] = 0
        while self._requests:
            request, future = self._requests.popleft()
            if future.set_running_or_notify_cancel():
                future.set_result(request(now_ns))

    def _leave(self) -> None:
        """Damp if the wire is ours; a robot that somebody else commands is left to them."""
        controller, now = self.controller, self.controller.situation
        free = now.sport_released and not now.other_writers
        claimed = free or controller.mode is not Mode.PASSIVE
        controller.request(ModeEvent.DAMP, self.link.now_ns())
        for _ in range(LAST_DAMPING):
            if claimed:
                self.link.send(controller.damp())
            self.link.wait(controller.period_ns / 1e9)
            now_ns = self.link.now_ns()
            self.supervision.verdict(now_ns)
            self.supervision.leave(controller, now_ns, self.ticks.written, self.late_ticks)
