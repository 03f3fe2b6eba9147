"""The fault campaign: injects every fault repeatedly and times the reaction on the wire."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim2real_deploy.checks import Check
from sim2real_deploy.errors import Refusal
from sim2real_deploy.faults.cases import Case
from sim2real_deploy.faults.stack import Stack
from sim2real_deploy.runtime.stalls import StallWitness

Judgement = tuple[float, str]  # milliseconds, and what was wrong

SLOW_SPEED = 0.12  # m/s, averaged over a gait; below it the robot stands
GAIT_S = 0.5  # one period of a walk: shorter averages show the sway within a step
ALERT_S = 8.0
UNDISTURBED_S = 1.0  # of watching, at least
BEFORE_NS = 50_000_000  # a stall this long before the fault counts as well
STILL_MS = 3.0  # of stall, and a failed trial is repeated
WALKED_NS = 1_000_000_000  # at least, before a fault


@dataclass
class CaseResult:
    """All trials of one case: times and problems."""

    case: Case
    times_ms: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    taken_again_ms: list[float] = field(default_factory=list)  # stalls that had a trial repeated

    @property
    def worst_ms(self) -> float:
        return max(self.times_ms, default=float("inf"))

    def checks(self) -> Sequence[Check]:
        name, bound = self.case.name, self.case.bound_ms
        timing = Check.at_most(name, round(self.worst_ms, 1), bound, "ms")
        if not self.problems:
            return (timing,)
        problem = self.problems[0].splitlines()[0][:100]
        return (timing, Check.at_most(f"{name}: {problem}", len(self.problems), 0))


def run_campaign(
    stack: Stack, cases: Sequence[Case], repeat: int, tell: Callable[[Case, int], None]
) -> Iterator[CaseResult]:
    """Yields case by case, so that an interruption loses nothing measured before."""
    witness = StallWitness()
    try:
        for case in cases:
            yield _run_case(stack, case, repeat, witness, tell)
    finally:
        witness.close()


def _run_case(
    stack: Stack,
    case: Case,
    repeat: int,
    witness: StallWitness,
    tell: Callable[[Case, int], None],
) -> CaseResult:
    """A trial that fails during a stall of the machine is repeated, and counted."""
    result = CaseResult(case)
    while len(result.times_ms) < repeat:
        tell(case, len(result.times_ms))
        try:
            stack.recover()
        except Refusal as refusal:
            result.problems.append(f"no way back to walking: {refusal}")
            break
        took_ms, problem, since_ns = _try(stack, case)
        if problem or took_ms > case.bound_ms:
            still_ms = witness.stalled_ms(since_ns, time.monotonic_ns())
            if still_ms > STILL_MS and len(result.taken_again_ms) < repeat:
                result.taken_again_ms.append(still_ms)
                continue
        result.times_ms.append(took_ms)
        if problem:
            result.problems.append(problem)
    return result


def _try(stack: Stack, case: Case) -> tuple[float, str, int]:
    """The judgement, and from when on a stall may have influenced it."""
    if stopped := stack.stopped_by():
        problem = f"it had stopped by itself before: {stopped}"
        return float("inf"), problem, time.monotonic_ns() - WALKED_NS
    start_ns = case.inject(stack)
    return *JUDGES[case.outcome](stack, case, start_ns), start_ns - BEFORE_NS


def judge_damping(stack: Stack, case: Case, start_ns: int) -> Judgement:
    return _damped(stack, case, start_ns, max(2.0, case.bound_ms / 500))


def judge_sitting(stack: Stack, case: Case, start_ns: int) -> Judgement:
    took_ms, problem = _damped(stack, case, start_ns, case.bound_ms / 1000 + 2.0)
    return took_ms, problem if took_ms > 300 else "it was dropped, not sat down"


def _damped(stack: Stack, case: Case, start_ns: int, patience_s: float) -> Judgement:
    damped_ns = stack.watch.damped_at(start_ns, patience_s)
    if damped_ns is None:
        return float("inf"), "it was not damped"
    took_ms = (damped_ns - start_ns) / 1e6
    return took_ms, _not_finite(stack, start_ns) or _unanswered(stack, case, start_ns)


def judge_walking(stack: Stack, case: Case, start_ns: int) -> Judgement:
    """Control continues undisturbed, and the alert must come."""
    deadline = time.monotonic() + ALERT_S
    while _unanswered(stack, case, start_ns) and time.monotonic() < deadline:
        time.sleep(0.02)
    took_ms = (time.monotonic_ns() - start_ns) / 1e6
    time.sleep(max(0.0, UNDISTURBED_S - took_ms / 1e3))
    return took_ms, _disturbed(stack, start_ns) or _unanswered(stack, case, start_ns)


def judge_standing(stack: Stack, case: Case, start_ns: int) -> Judgement:
    """The robot comes to rest on its feet, still under control."""
    standing_ns = _standing_at(stack, start_ns, case.bound_ms / 1000 + 1.0)
    if standing_ns is None:
        return float("inf"), "it walks on"
    took_ms = (standing_ns - start_ns) / 1e6
    return took_ms, _disturbed(stack, start_ns) or _unanswered(stack, case, start_ns)


def _disturbed(stack: Stack, start_ns: int) -> str:
    damped = any(seen.damping for seen in stack.watch.since(start_ns))
    return "control was disturbed" if damped or stack.mode != "walking" else ""


def _standing_at(stack: Stack, start_ns: int, patience_s: float) -> int | None:
    """The first moment from which the trunk keeps its place for a gait period; None: it never did.

    Looking ahead of each moment, and not back, adds no delay of its own.
    """
    path: list[tuple[int, float, float]] = []
    deadline = time.monotonic() + patience_s + GAIT_S
    while time.monotonic() < deadline:
        x, y = stack.twin.ask(lambda twin: twin.base_truth.position)[:2]
        path.append((time.monotonic_ns(), float(x), float(y)))
        if (standing_ns := first_at_rest(path)) is not None:
            return max(start_ns, standing_ns)
        time.sleep(0.02)
    return None


def first_at_rest(path: Sequence[tuple[int, float, float]]) -> int | None:
    """The time (ns) of the first (time, x, y) from which the next gait period is slow."""
    ahead = 0
    for then_ns, x, y in path:
        while ahead < len(path) and path[ahead][0] < then_ns + GAIT_S * 1e9:
            ahead += 1
        if ahead == len(path):
            return None
        later_ns, later_x, later_y = path[ahead]
        if np.hypot(later_x - x, later_y - y) / ((later_ns - then_ns) / 1e9) < SLOW_SPEED:
            return then_ns
    return None


def _not_finite(stack: Stack, start_ns: int) -> str:
    wild = any(not seen.finite for seen in stack.watch.since(start_ns))
    return "a command that is not finite was sent" if wild else ""


def _unanswered(stack: Stack, case: Case, start_ns: int) -> str:
    """The right event must be reported; it may come a moment after the damping."""
    if not case.events:
        return ""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        events = stack.events
        told_ns = [seen_ns for name, seen_ns in events.items() if name in case.events]
        if told_ns:
            late_ms = (min(told_ns) - start_ns) / 1e6
            within = late_ms <= case.told_ms
            return "" if within else f"told after {late_ms:.0f} ms, not {case.told_ms:g}"
        time.sleep(0.05)
    return f"told {', '.join(events) or 'nothing'} and not {' or '.join(case.events)}"


JUDGES: dict[str, Callable[[Stack, Case, int], Judgement]] = {
    "damping": judge_damping,
    "sits": judge_sitting,
    "walks": judge_walking,
    "stands": judge_standing,
}
