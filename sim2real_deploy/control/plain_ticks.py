"""The ticks of a robot that walks, compiled: between two policy steps, and most of the steps.

A plain tick answers a good state that came in time, under the same orders as the tick before. It
does what `ControlLoop.tick` does then, and nothing else. In any other case the compiled loop
returns before it has sent anything, and Python continues with the samples and datagrams that it
took.
"""

from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import part, prepare, table, unlocked
from sim2real_deploy.control import (
    limits,
    limits_reference,
    supervision,
    ticks,
    velocity_command,
)
from sim2real_deploy.control.adaptation import Own, adaptation
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.supervision import (
    UNTIL_NS,
    Orders,
    answer,
    note_strain,
    note_surprise,
    repeats_orders,
)
from sim2real_deploy.control.ticks import COLUMNS, StepColumns, TickRing
from sim2real_deploy.control.velocity_command import Shaping, age_s, shape
from sim2real_deploy.policy import compiled_network, compiled_step
from sim2real_deploy.policy.compiled_step import CompiledStep
from sim2real_deploy.robots import geometry
from sim2real_deploy.runtime import world_clock
from sim2real_deploy.safety import chain
from sim2real_deploy.wire import channels, kernels, layout
from sim2real_deploy.wire import compiled_link as wire
from sim2real_deploy.wire.compiled_link import CompiledLink

Array = Any  # a numpy array
PATIENCE_PERIODS = 2.5  # without a state before the loop ticks without one
AWAY_NS = 100_000_000  # the longest that compiled ticks keep Python from what else it does
# Places in `times`. STEP_PERIOD is 0 if Python makes the policy's steps; STEPPED is when the last
# compiled one was made, 0 for none; ADAPTS: adaptation may correct.
LAST, DUE, STEP, STEP_PERIOD, STEPPED, BACK, PERIOD, PATIENCE, ASKED, ADAPTS = range(10)
_TICK, _NOW, _STATE_TICK, _STEPPED, _AGE, _GAP, _WORK, _OBSERVE, _INFER, _WRITE, _MISSED, _STILL = (
    COLUMNS.index(name)
    for name in (
        *("tick", "now_ns", "state_tick", "policy_stepped", "age_ns", "gap_ns", "work_ns"),
        *("observe_ns", "infer_ns", "write_ns", "missed", "stood_still_ns"),
    )
)
_VELOCITY, _TRIM = COLUMNS.index("vx"), COLUMNS.index("trim_vx")
SURPRISE = COLUMNS.index("surprise")


MODULES = (
    *(wire, channels, kernels, layout, world_clock, geometry),
    *(compiled_step, compiled_network, velocity_command),
    *(limits, limits_reference, supervision, ticks, chain),
    *(adaptation, *adaptation.MODULES),
)


class Rows(NamedTuple):
    """The tick ring's columns, and the arrays that each tick copies into them."""

    count: Array  # one number: rows written
    figures: Array
    limits: Array
    asked: Array
    sent: Array
    asked_now: Array
    sent_now: Array
    acted_now: Array


@part
def decide(link: CompiledLink, rows: Rows, bounds: Array, fraction: float) -> bool:
    """Limit and encode the answer to the sample accepted; False if it is not plain."""
    motion = wire.motion(link, rows.acted_now.size)
    if not limits.limit(rows.asked_now, motion, fraction, bounds, rows.sent_now, rows.acted_now):
        return False
    return wire.fill(link, rows.sent_now)


@part
def make_step(
    link: CompiledLink, rows: Rows, shaping: Shaping, step: CompiledStep, now_ns: int
) -> tuple[int, int]:
    """Step the policy: its targets in `asked`. Returns how long it observed and inferred, ns; -1
    if the step is not plain."""
    start_ns = wire.monotonic_ns(link)
    shape(shaping, now_ns, True)  # a policy that may be blind is not compiled
    if not compiled_step.observe(step, wire.numbers(link), shaping.given):
        return 0, -1
    seen_ns = wire.monotonic_ns(link)
    if not compiled_step.infer(step):
        return 0, -1
    for j in range(step.target.size):
        rows.asked_now[0, j] = step.target[j]
        if step.to_sdk[j, 1]:
            rows.asked_now[1, j] = step.speed[j]
    return seen_ns - start_ns, wire.monotonic_ns(link) - seen_ns


@part
def write_row(rows: Rows, written: int) -> Any:
    """Copy the tick's arrays into the ring; its figures are those of the tick before."""
    last, row = (written - 1) % len(rows.figures), written % len(rows.figures)
    for i in range(rows.figures.shape[1]):
        rows.figures[row, i] = rows.figures[last, i]
    for j in range(rows.acted_now.size):
        rows.limits[row, j] = rows.acted_now[j]
        for k in range(rows.asked_now.shape[0]):
            rows.asked[row, k, j] = rows.asked_now[k, j]
            rows.sent[row, k, j] = rows.sent_now[k, j]
    return rows.figures[row]


@part
def write_step(columns: StepColumns, row: int, step: CompiledStep) -> None:
    for i in range(step.observation.size):
        columns.observations[row, i] = step.observation[i]
    for i in range(step.action.size):
        columns.actions[row, i] = step.action[i]
    for i in range(step.estimates.size):
        columns.estimates[row, i] = step.estimates[i]


class Loop(NamedTuple):
    """All that plain ticks work on."""

    link: CompiledLink
    rows: Rows
    bounds: Array
    orders: Orders
    times: Array
    shaping: Shaping
    step: CompiledStep
    columns: StepColumns
    own: Own


@unlocked(*(module.__name__ for module in MODULES))
def run(loop: Any, adapting: Any) -> int:
    """Tick until something is not plain, or until Python has work to do before the next tick.
    `loop` is a Loop as a table, `adapting` adaptation's or None. Returns how many samples were
    taken and not used."""
    link, rows, bounds, orders, times, shaping, step, columns, own = loop.rows
    period_ns = times[PERIOD]
    while True:
        still_ns = max(0, wire.stood_still_ns(link))
        taken = wire.take(link, times[DUE] - (wire.monotonic_ns(link) - still_ns))
        start_ns, still_ns = wire.monotonic_ns(link), wire.stood_still_ns(link)
        now_ns = start_ns - still_ns
        gap_ns = now_ns - times[LAST]
        in_time = still_ns >= 0 and gap_ns <= 2 * period_ns and now_ns <= orders.memo[UNTIL_NS]
        stepping = now_ns + period_ns // 2 >= times[STEP]
        if stepping and (not times[STEP_PERIOD] or now_ns - times[STEP] > times[STEP_PERIOD]):
            return taken
        if not in_time:
            return taken
        if not wire.accept(link, taken) or not repeats_orders(orders, now_ns):
            return taken
        observe_ns, infer_ns = 0, 0
        if stepping:
            observe_ns, infer_ns = make_step(link, rows, shaping, step, now_ns)
        if infer_ns < 0:
            compiled_step.undo(step)
            return taken
        if adapting is not None:
            numbers, counter, asked = wire.numbers(link), wire.counter(link), rows.asked_now
            adaptation.correct(adapting, numbers, counter, own.kp, own.kd, asked)
        if not decide(link, rows, bounds, orders.fraction[0]):
            if stepping:
                compiled_step.undo(step)
            return taken
        decided_ns = wire.monotonic_ns(link)
        wire.use(link, now_ns)
        sent = wire.write(link)
        done_ns = wire.monotonic_ns(link)
        written = rows.count[0]
        figures = write_row(rows, written)
        figures[_TICK], figures[_NOW] = written, now_ns
        figures[_STATE_TICK], figures[_STILL] = link.memo[wire.TICK], still_ns
        figures[_STEPPED], figures[_OBSERVE], figures[_INFER] = 0, observe_ns, infer_ns
        figures[_MISSED] = 0
        figures[_AGE] = figures[_WORK] = done_ns - start_ns
        figures[_GAP], figures[_WRITE] = gap_ns, done_ns - decided_ns
        if stepping:
            compiled_step.conclude(step)
            write_step(columns, written % len(rows.figures), step)
            figures[_STEPPED] = columns.bit[0]
            for axis in range(shaping.shaped.size):
                figures[_VELOCITY + axis] = shaping.shaped[axis]
                figures[_TRIM + axis] = shaping.trim[axis]
            known = step.observation, step.statistics, step.judged
            figures[SURPRISE] = compiled_step.surprise(*known)
            note_surprise(orders, figures[SURPRISE])
            times[STEP] += times[STEP_PERIOD]
            times[STEPPED] = start_ns
        if adapting is not None:
            if stepping:
                adaptation.note_step(adapting.rows, own, shaping.shaped, shaping.given)
            counter, sent_now, acted_now = link.memo[wire.TICK], rows.sent_now, rows.acted_now
            may = times[ADAPTS] != 0
            strain = adaptation.learn(adapting, numbers, counter, sent_now, acted_now, True, may)
            note_strain(orders, strain)
        rows.count[0] = written + 1
        times[LAST], times[DUE] = now_ns, now_ns + times[PATIENCE]
        heard = answer(orders, written + 1, age_s(shaping, now_ns))
        if not heard or times[ASKED] or not sent or now_ns >= times[BACK]:
            return 0
        if not times[STEP_PERIOD] and now_ns + 1.5 * period_ns >= times[STEP]:
            return 0  # the next tick steps


class PlainTicks:
    """Runs plain ticks for a loop. `times` is what they share with it."""

    def __init__(
        self, link: CompiledLink, controller: Controller, ring: TickRing, orders: Orders
    ) -> None:
        limiter, policies = controller.limiter, controller.repertoire.policies
        rows = Rows(
            *(ring.count, ring.figures, ring.limits, ring.asked, ring.sent),
            *(controller.asked_block, limiter.sent_block, limiter.acted_bits),
        )
        times = np.zeros(ADAPTS + 1, np.int64)
        self.times = times.data  # a view that is quicker to use from Python
        self.times[PERIOD] = controller.period_ns
        self.times[PATIENCE] = round(PATIENCE_PERIODS * controller.period_ns)
        shared = link, rows, limiter.bounds, orders, times, controller.velocity.shaping
        nothing = compiled_step.nothing(), StepColumns.nothing()
        self._idle = [table(Loop(*shared, *nothing, own)) for own in controller.walking.own]
        self._stepping = self._idle.copy()
        for k, policy in enumerate(policies):
            if (step := policy.compile()) is not None:
                own = controller.walking.own[k]
                self._stepping[k] = table(Loop(*shared, step, ring.step_columns[k], own))
        adapts = controller.adaptation
        self._adapting = None if adapts is None else adapts.adapting
        if self._idle:  # compiles now, before the loop runs
            self._run = prepare(run, self._idle[0], self._adapting)

    def run(self, policy: int, steps: bool) -> int:
        """`policy` is its number in the repertoire; Python makes its steps, or it `steps` here.
        Returns how many samples were taken and left."""
        loop = (self._stepping if steps else self._idle)[policy]
        return int(self._run(loop, self._adapting))
