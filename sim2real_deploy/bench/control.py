"""LowState to LowCmd with the same policy: ours, C, the usual loop on the vendor's SDK, an echo.

A source sends LowState at the wire's rate and notes when it first hears a command that is based on
each state: every contestant copies the state's tick into a spare field of the command.

Figures are taken per second; the median counts, over seconds without a stall of the machine itself,
which on shared hosts may last longer than any contestant takes. Idle cores are not kept awake as on
a robot: that would change the machine for all contestants.
"""

import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path

import numpy as np

from sim2real_deploy.bench import c_responder
from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.contestants import INTERFACE, Contestant, contestants, standing
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.control.adaptation import Adapts, allowed
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.runtime.stalls import STILL_MS, StallWitness
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.domains import free_domain
from sim2real_deploy.wire.encoders import StateEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE

READY_S = 60.0
SETTLE_S = 1.0  # of states before measuring
TURNS = 5  # of each contestant, alternating, so that a busy machine affects all alike
MOST_TURNS = 9  # if stalls leave too few seconds
FEWEST_SECONDS = 8


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """How one contestant answered, in its median second; `max_ms` of all seconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    rate_error_percent: float
    cpu_percent: float  # of one core, in the contestant's process
    cpu_ms_per_command: float
    seconds: int  # without a stall of the machine: these count
    states: int
    unanswered: int  # states without an answer


# Against whom: at least so many times better, or at most so many times as much (p50, p99, CPU).
BETTER_THAN = {"vendor": (12.0, 8.0, 6.0)}
NO_MORE_THAN = {"c": (1.15, 1.3, 1.3), "echo": (1.5, 1.7, np.inf)}
FIGURES = {"p50_ms": "latency p50", "p99_ms": "latency p99", "cpu_percent": "CPU"}
NAMES = {"vendor": "the vendor's Python", "c": "C on arrival", "echo": "a bare echo"}


def judge(found: dict[str, AnswerTimes], note: str = "") -> BenchResult:
    """`found` by contestant; those that could not run are missing, and `note` says why."""
    ours, checks = found["ours"], []
    for name, other in found.items():
        for (field, words), least, most in zip(
            FIGURES.items(),
            BETTER_THAN.get(name, (0.0,) * 3),
            NO_MORE_THAN.get(name, (np.inf,) * 3),
            strict=True,
        ):
            ratio = getattr(ours, field) / getattr(other, field)
            if least > 0:
                title = f"{words}, lower than {NAMES[name]}"
                checks.append(Check.at_least(title, 1 / ratio, least, "times"))
            if np.isfinite(most):
                title = f"{words}, of {NAMES[name]}"
                checks.append(Check.at_most(title, ratio, most, "times"))
    checks += [
        Check.at_most("rate error", ours.rate_error_percent, 0.1, "%"),
        Check.at_most("states never answered", ours.unanswered, 0),
    ]
    rows: list[tuple[object, ...]] = [
        (field.name, *(getattr(figures, field.name) for figures in found.values()))
        for field in fields(AnswerTimes)
    ]
    if note:
        rows.append((note, *("" for _ in found)))
    raw = {name: asdict(figures) for name, figures in found.items()} | {"note": note}
    return BenchResult("bench control", checks, raw, ("LowState to LowCmd", *found), rows)


def run(
    robot: str, policy: str, seconds: float, adaptation: str, progress: Progress
) -> BenchResult:
    """Each contestant runs for `seconds` in all."""
    spec = load_robot(robot)
    load_bundle(policy, spec)  # refuses here and not in a child process
    allowed(adaptation, Adapts.ALL)
    with tempfile.TemporaryDirectory() as folder:
        built, note = None, ""
        try:
            built = c_responder.build(Path(folder))
        except Refusal as why:
            note = f"the C responder could not be built: {why}"
        turns = _alternate(contestants(built, adaptation), spec, policy, seconds, progress)
    progress("done", 1.0)
    return judge(turns, note)


def _alternate(
    entered: dict[str, Contestant],
    spec: RobotSpec,
    policy: str,
    seconds: float,
    progress: Progress,
) -> dict[str, AnswerTimes]:
    turns: dict[str, list[_Turn]] = {name: [] for name in entered}
    witness = StallWitness()
    try:
        for turn in range(MOST_TURNS):
            for place, (name, contestant) in enumerate(entered.items()):
                number = turn * len(entered) + place
                progress(name, min(0.95, number / (TURNS * len(entered))))
                turns[name].append(_take_turn(name, contestant, spec, policy, seconds / TURNS))
            counted = min(len(_undisturbed(taken, spec, witness)) for taken in turns.values())
            if turn + 1 >= TURNS and counted >= FEWEST_SECONDS:
                break
        return {name: _sum_up(taken, spec, witness) for name, taken in turns.items()}
    finally:
        witness.close()


# Stall in ms; p50, p99, rate error; share of a core; CPU time per command.
Second = tuple[float, ...]


@dataclass(slots=True)
class _Turn:
    latency_s: list[float]  # by state; infinite without an answer
    sent_ns: list[int]
    heard_ns: list[int]  # by command
    cpu_ns: list[int]  # at the start and after every second

    def seconds(self, rate_hz: float, witness: StallWitness) -> list[Second]:
        latency, sent, heard = (np.array(x) for x in (self.latency_s, self.sent_ns, self.heard_ns))
        sent = np.append(sent, sent[-1] + round(1e9 / rate_hz))  # the end of the last second
        ends = np.arange(0, len(sent), round(rate_hz))
        figures: list[Second] = []
        for (first, last), cpu in zip(pairwise(ends), np.diff(self.cpu_ns), strict=False):
            p50, p99 = np.percentile(latency[first:last], (50, 99)).tolist()
            still_ms = witness.stalled_ms(sent[first], sent[last])
            came = heard[(heard >= sent[first]) & (heard < sent[last])]
            rate_error = 1.0
            if len(came) > 1:
                period_ns = np.polyfit(np.arange(len(came)), came - came[0], 1)[0]
                rate_error = abs(1e9 / rate_hz / period_ns - 1)
            share = cpu / (sent[last] - sent[first])
            figures.append((still_ms, p50, p99, rate_error, share, cpu / max(1, len(came))))
        return figures


def _undisturbed(turns: list[_Turn], spec: RobotSpec, witness: StallWitness) -> list[Second]:
    seconds = _seconds(turns, spec, witness)
    return [second for second in seconds if second[0] < STILL_MS]


def _seconds(turns: list[_Turn], spec: RobotSpec, witness: StallWitness) -> list[Second]:
    return [second for turn in turns for second in turn.seconds(spec.wire.rate_hz, witness)]


def _sum_up(turns: list[_Turn], spec: RobotSpec, witness: StallWitness) -> AnswerTimes:
    undisturbed = _undisturbed(turns, spec, witness)
    counted = undisturbed or _seconds(turns, spec, witness)  # a machine that stalls all the time
    _, p50, p99, rate_error, cpu, cpu_each = np.median(counted, axis=0).tolist()
    latency = np.concatenate([turn.latency_s for turn in turns])
    answered = latency[np.isfinite(latency)]
    return AnswerTimes(
        p50_ms=1e3 * p50,
        p99_ms=1e3 * p99,
        max_ms=1e3 * float(answered.max()),
        rate_error_percent=100 * rate_error,
        cpu_percent=100 * cpu,
        cpu_ms_per_command=1e-6 * cpu_each,
        seconds=len(undisturbed),
        states=len(latency),
        unanswered=len(latency) - len(answered),
    )


def _take_turn(
    name: str, contestant: Contestant, spec: RobotSpec, policy: str, seconds: float
) -> _Turn:
    context = multiprocessing.get_context("spawn")
    domain = free_domain()
    here, there = context.Pipe()
    child = context.Process(target=contestant, args=(domain, spec, policy, there), daemon=True)
    child.start()
    source = _Source(spec, domain)
    try:
        patience = time.monotonic() + READY_S
        while not here.poll():
            if not child.is_alive() or time.monotonic() > patience:
                raise Refusal(f"bench control: '{name}' did not come up; is the machine busy?")
            source.send_for(0.2)
        source.send_for(SETTLE_S)
        source.begin()
        cpu_ns = [_cpu_ns(child.pid)]
        for _ in range(round(seconds)):
            source.send_for(1.0)
            cpu_ns.append(_cpu_ns(child.pid))
        return source.turn(cpu_ns)
    finally:
        child.kill()
        child.join()
        source.close()


def _cpu_ns(process: int | None) -> int:
    """CPU time of all threads of a process, in ns (psutil has 10 ms)."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads)


class _Source:
    """Sends states at absolute deadlines and listens in between, in one thread."""

    def __init__(self, spec: RobotSpec, domain: int) -> None:
        family = FAMILIES[spec.wire.family]
        self._participant = Participant(domain, INTERFACE, "source")
        self._states = self._participant.writer(LOW_STATE, family.state)
        self._commands = self._participant.reader(LOW_CMD, family.command)
        self._mark = family.command.span("reserve")
        self._encoder = StateEncoder(spec)
        self._state = standing(spec)
        self._period_s = 1.0 / spec.wire.rate_hz
        self._due = time.monotonic()
        self.begin()

    def begin(self) -> None:
        """Start measuring."""
        self._sent_ns: dict[int, int] = {}
        self._heard: list[tuple[int, int]] = []  # tick, when

    def send_for(self, seconds: float) -> None:
        for _ in range(round(seconds / self._period_s)):
            self._listen()
            state = self._state
            state.tick += 2
            sample = self._encoder.encode(state)
            self._sent_ns[state.tick] = time.monotonic_ns()
            self._states.write(sample)
            self._due = max(self._due + self._period_s, time.monotonic() - 0.1)

    def _listen(self) -> None:
        while (left := self._due - time.monotonic()) > 0:
            if self._commands.wait(left):
                now = time.monotonic_ns()
                for sample in self._commands.take():
                    tick = int.from_bytes(sample.data[self._mark][:4], "little")
                    self._heard.append((tick, now))

    def turn(self, cpu_ns: list[int]) -> _Turn:
        """For each state, the time until a command based on it or on a newer one."""
        self._due += 0.05
        self._listen()
        heard = [entry for entry in self._heard if entry[0] in self._sent_ns]
        best = np.maximum.accumulate([tick for tick, _ in heard]) if heard else np.zeros(0)
        latency = []
        for tick, sent_ns in self._sent_ns.items():
            place = int(np.searchsorted(best, tick))
            answered = place < len(heard)
            latency.append((heard[place][1] - sent_ns) * 1e-9 if answered else np.inf)
        when = [when for _, when in heard]
        return _Turn(latency, list(self._sent_ns.values()), when, cpu_ns)

    def close(self) -> None:
        self._participant.close()
