"""The ticks between two policy steps, compiled: nine of ten while a robot walks.

A plain tick answers a good state that came in time, under the same orders as the tick before and
with the same targets. It does what `ControlLoop.tick` does then, and nothing else. In any other
case the compiled loop returns before it has sent anything, and Python continues with the samples
and datagrams that it took.
"""

from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import part, prepare, unlocked
from sim2real_deploy.control import limits, limits_reference, supervision, ticks
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.supervision import Orders, repeats_orders
from sim2real_deploy.control.ticks import COLUMNS, TickRing
from sim2real_deploy.runtime import world_clock
from sim2real_deploy.wire import channels, kernels, layout
from sim2real_deploy.wire import compiled_link as wire
from sim2real_deploy.wire.compiled_link import CompiledLink

Array = Any  # a numpy array
PATIENCE_PERIODS = 2.5  # without a state before the loop ticks without one
WRITTEN, LAST, DUE, STEP, PERIOD, PATIENCE, ASKED = range(7)  # places in `times`
_TICK, _NOW, _STATE_TICK, _STEPPED, _AGE, _GAP, _WORK, _OBSERVE, _INFER, _WRITE, _MISSED, _STILL = (
    COLUMNS.index(name)
    for name in (
        *("tick", "now_ns", "state_tick", "policy_stepped", "age_ns", "gap_ns", "work_ns"),
        *("observe_ns", "infer_ns", "write_ns", "missed", "stood_still_ns"),
    )
)


MODULES = wire, channels, kernels, layout, world_clock, limits, limits_reference, supervision, ticks


class Rows(NamedTuple):
    """The tick ring's columns, and the arrays that each tick copies into them."""

    figures: Array
    limits: Array
    asked: Array
    sent: Array
    asked_now: Array
    sent_now: Array
    acted_now: Array


@part
def decide(
    link: CompiledLink, rows: Rows, bounds: Array, taken: int, orders: Orders, fraction: float
) -> bool:
    """Encode the answer to the sample taken; False if it is not plain."""
    if not wire.accept(link, taken) or not repeats_orders(orders):
        return False
    motion = wire.motion(link, rows.acted_now.size)
    if not limits.limit(rows.asked_now, motion, fraction, bounds, rows.sent_now, rows.acted_now):
        return False
    return wire.fill(link, rows.sent_now)


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


@unlocked(*(module.__name__ for module in MODULES))
def run(link: CompiledLink, rows: Rows, bounds: Array, orders: Orders, times: Array) -> int:
    """Tick until something is not plain, or until Python has work to do before the next tick.
    Returns how many samples were taken and not used."""
    period_ns = times[PERIOD]
    while True:
        still_ns = max(0, wire.stood_still_ns(link))
        taken = wire.take(link, times[DUE] - (wire.monotonic_ns(link) - still_ns))
        start_ns, still_ns = wire.monotonic_ns(link), wire.stood_still_ns(link)
        now_ns = start_ns - still_ns
        gap_ns = now_ns - times[LAST]
        in_time = still_ns >= 0 and gap_ns <= 2 * period_ns and now_ns <= orders.until_ns
        if not in_time or now_ns + period_ns // 2 >= times[STEP]:
            return taken
        if not decide(link, rows, bounds, taken, orders, orders.fraction):
            return taken
        decided_ns = wire.monotonic_ns(link)
        wire.use(link, now_ns)
        written = wire.write(link)
        done_ns = wire.monotonic_ns(link)
        figures = write_row(rows, times[WRITTEN])
        figures[_TICK], figures[_NOW] = times[WRITTEN], now_ns
        figures[_STATE_TICK], figures[_STILL] = link.memo[wire.TICK], still_ns
        figures[_STEPPED] = figures[_OBSERVE] = figures[_INFER] = figures[_MISSED] = 0
        figures[_AGE] = figures[_WORK] = done_ns - start_ns
        figures[_GAP], figures[_WRITE] = gap_ns, done_ns - decided_ns
        times[WRITTEN] += 1
        times[LAST], times[DUE] = now_ns, now_ns + times[PATIENCE]
        rehearsed = now_ns + 1.5 * period_ns >= times[STEP]
        if rehearsed or orders.sizes[0] or times[ASKED] or not written:
            return 0


class PlainTicks:
    """Runs plain ticks for a loop. `times` is what they share with it."""

    def __init__(
        self, link: CompiledLink, controller: Controller, ring: TickRing, orders: Orders
    ) -> None:
        limiter = controller.limiter
        self._link, self._bounds = link, limiter.bounds
        self._rows = Rows(
            *(ring.figures, ring.limits, ring.asked, ring.sent),
            *(controller.asked_block, limiter.sent_block, limiter.acted_bits),
        )
        self._times = np.zeros(ASKED + 1, np.int64)
        self.times = self._times.data  # a view that is quicker to use from Python
        self.times[PERIOD] = controller.period_ns
        self.times[PATIENCE] = round(PATIENCE_PERIODS * controller.period_ns)
        # Compiles now, before the loop runs.
        prepare(run, link, self._rows, self._bounds, orders, self._times)

    def run(self, orders: Orders) -> int:
        """Returns how many samples were taken and left."""
        return int(run(self._link, self._rows, self._bounds, orders, self._times))
