"""LowState to LowCmd with the same policy: the usual loop on the vendor's SDK, ours, a bare echo.

A source sends LowState at the wire's rate and notes when it first hears a command that is based on
each state: every contestant copies the state's tick into a spare field of the command.

Figures are taken per second; the median counts, over seconds without a stall of the machine itself,
which on shared hosts may last longer than any contestant takes. Idle cores are not kept awake as on
a robot: that would change the machine for all contestants.
"""

import multiprocessing
import struct
import threading
import time
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.bench.conduct import BenchResult, Progress
from sim2real_deploy.checks import Check
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.modes import Event, Mode
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.supervision import Unsupervised
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState, load_robot
from sim2real_deploy.runtime import realtime
from sim2real_deploy.runtime.stalls import STILL_MS, StallWitness
from sim2real_deploy.wire import vendor
from sim2real_deploy.wire.channels import Participant, RawWriter
from sim2real_deploy.wire.dds_link import LOW_CMD, LOW_STATE, DdsLink
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.domains import free_domain
from sim2real_deploy.wire.encoders import CommandEncoder, StateEncoder
from sim2real_deploy.wire.intake import Intake
from sim2real_deploy.wire.messages import FAMILIES, Family

INTERFACE = "lo"
READY_S = 60.0
SETTLE_S = 1.0  # of states before measuring
TURNS = 3  # of each contestant, alternating, so that a busy machine affects all alike
MOST_TURNS = 9  # if stalls leave too few seconds
FEWEST_SECONDS = 8
_TICK = struct.Struct("<I")
CONTESTANTS = ("echo", "ours", "vendor")


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


def judge(echo: AnswerTimes, ours: AnswerTimes, vendor: AnswerTimes | None = None) -> BenchResult:
    """Without the vendor's SDK, against a bare echo alone."""
    compared = (
        []
        if vendor is None
        else [
            Check.at_least("latency p50, times lower", vendor.p50_ms / ours.p50_ms, 4),
            Check.at_least("latency p99, times lower", vendor.p99_ms / ours.p99_ms, 4),
            Check.at_least("CPU, times lower", vendor.cpu_percent / ours.cpu_percent, 4),
        ]
    )
    checks = [
        *compared,
        Check.at_most("rate error", ours.rate_error_percent, 0.1, "%"),
        Check.at_most("latency p50, of a bare echo", ours.p50_ms / echo.p50_ms, 2, "times"),
        Check.at_most("latency p99, of a bare echo", ours.p99_ms / echo.p99_ms, 2, "times"),
        Check.at_most("states never answered", ours.unanswered, 0),
    ]
    found = {"echo": echo, "ours": ours} | ({"vendor": vendor} if vendor is not None else {})
    rows = [
        (field.name, *(getattr(figures, field.name) for figures in found.values()))
        for field in fields(AnswerTimes)
    ]
    raw = {name: asdict(figures) for name, figures in found.items()}
    columns = ("LowState to LowCmd", *found)
    return BenchResult("bench control", checks, raw, columns, rows)


def run(robot: str, policy: str, seconds: float, progress: Progress) -> BenchResult:
    """Each contestant runs for `seconds` in all."""
    spec = load_robot(robot)
    load_bundle(policy, spec)  # refuses here and not in a child process
    contestants = CONTESTANTS if vendor.installed() else ("echo", "ours")
    turns: dict[str, list[_Turn]] = {name: [] for name in contestants}
    witness = StallWitness()
    try:
        for turn in range(MOST_TURNS):
            for place, name in enumerate(contestants):
                number = turn * len(contestants) + place
                progress(name, min(0.95, number / (TURNS * len(contestants))))
                turns[name].append(_take_turn(name, spec, policy, seconds / TURNS))
            counted = min(len(_undisturbed(taken, spec, witness)) for taken in turns.values())
            if turn + 1 >= TURNS and counted >= FEWEST_SECONDS:
                break
    finally:
        witness.close()
    progress("done", 1.0)
    return judge(**{name: _sum_up(taken, spec, witness) for name, taken in turns.items()})


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


def _take_turn(name: str, spec: RobotSpec, policy: str, seconds: float) -> _Turn:
    context = multiprocessing.get_context("spawn")
    domain = free_domain()
    here, there = context.Pipe()
    contestant = {"echo": _echo, "ours": _ours, "vendor": _vendors}[name]
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
        self._state = _standing(spec)
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


def _echo(domain: int, spec: RobotSpec, policy: str, pipe: Connection) -> None:
    """The least work between a state and a command on this link."""
    family = FAMILIES[spec.wire.family]
    participant = Participant(domain, INTERFACE, "echo")
    reader = participant.reader(LOW_STATE, family.state)
    writer = participant.writer(LOW_CMD, family.command)
    tick, mark = family.state.span("tick"), family.command.span("reserve")
    damping = JointCommand.damping(spec.joint_count, 1.0)
    command = bytearray(CommandEncoder(spec).encode(damping))
    _prefer(domain)
    pipe.send("ready")
    while True:
        if reader.wait(1.0):
            for sample in reader.take():
                command[mark.start : mark.start + 4] = sample.data[tick]
                writer.write(bytes(command))


class _MarkingWriter:
    """Our link's writer, plus the mark of the measurement: the state's tick in a spare field."""

    def __init__(self, intake: Intake, writer: RawWriter[bytes], spec: RobotSpec) -> None:
        self._intake, self._write = intake, writer.write
        self._mark = FAMILIES[spec.wire.family].command.span("reserve").start
        self._sample, self._marked = b"", bytearray()

    def write(self, sample: bytes) -> None:
        if sample is not self._sample:
            self._sample, self._marked = sample, bytearray(sample)
        state = self._intake.latest
        assert state is not None  # the loop answers states
        _TICK.pack_into(self._marked, self._mark, state.tick)
        self._write(bytes(self._marked))


class _MarkedLink(DdsLink):
    def __init__(self, spec: RobotSpec, domain: int) -> None:
        super().__init__(spec, INTERFACE, domain, name="ours")
        self._writer: Any = _MarkingWriter(self._intake, self._writer, spec)


def _ours(domain: int, spec: RobotSpec, policy: str, pipe: Connection) -> None:
    link = _MarkedLink(spec, domain)
    controller = Controller(spec, load_stage(), load_bundle(policy, spec).open())
    controller.situation.sport_released = True
    loop = ControlLoop(link, controller, Unsupervised())

    def operate() -> None:
        """Start walking, and again if a stall of the machine stopped it."""
        ready = False
        while True:
            if controller.mode is not Mode.WALKING:
                controller.situation.fault = ""
                loop.request(Event.STAND)
                loop.request(Event.WALK)
            elif not ready:
                pipe.send("ready")
                ready = True
            time.sleep(0.1)

    threading.Thread(target=operate, daemon=True).start()
    realtime.calm_interpreter()
    _prefer(domain)
    loop.run(threading.Event())


def _vendors(domain: int, spec: RobotSpec, policy: str, pipe: Connection) -> None:
    """The usual deployment on the vendor's SDK: a callback keeps the newest state, a loop computes,
    writes and sleeps. Observation and network are ours, so that only the rest differs."""
    family: Family = FAMILIES[spec.wire.family]
    runner = load_bundle(policy, spec).open()
    channel, checksum = vendor.module("core.channel"), vendor.checksum()
    command_class = vendor.idl(family.command.type_name)
    channel.ChannelFactoryInitialize(domain, INTERFACE)
    newest: list[Any] = [None]
    subscriber = channel.ChannelSubscriber(LOW_STATE, vendor.idl(family.state.type_name))
    subscriber.Init(lambda message: newest.__setitem__(0, message), 10)
    publisher = channel.ChannelPublisher(LOW_CMD, command_class)
    publisher.Init()
    command = command_class.deserialize(
        CommandEncoder(spec).encode(JointCommand.damping(spec.joint_count, 1.0))
    )
    template, still = _standing(spec), (0.0, 0.0, 0.0)
    joints, every = range(spec.joint_count), round(spec.wire.rate_hz / runner.contract.rate_hz)
    while newest[0] is None:
        time.sleep(0.01)
    pipe.send("ready")
    count = 0
    while True:
        state = newest[0]
        if count % every == 0:
            motors = state.motor_state
            seen = replace(
                template,
                quaternion=np.array(state.imu_state.quaternion, np.float32),
                gyroscope=np.array(state.imu_state.gyroscope, np.float32),
                q=np.array([motors[i].q for i in joints], np.float32),
                dq=np.array([motors[i].dq for i in joints], np.float32),
            )
            runner.observe(seen, still)
            runner.infer()
        for i in joints:
            motor = command.motor_cmd[i]
            motor.mode, motor.q, motor.dq, motor.tau = 1, float(runner.target[i]), 0.0, 0.0
            motor.kp, motor.kd = float(runner.kp[i]), float(runner.kd[i])
        command.reserve = state.tick
        command.crc = checksum(command)
        publisher.Write(command)
        count += 1
        time.sleep(1.0 / spec.wire.rate_hz)


def _prefer(domain: int) -> None:
    realtime.prefer_this_thread()
    realtime.prefer_receivers()
    realtime.stay_together(domain)
    realtime.lock_memory()


def _standing(spec: RobotSpec) -> RobotState:
    family = FAMILIES[spec.wire.family]
    blank = b"\x00\x01".ljust(family.state.size, b"\0")
    state = StateDecoder(spec).decode(blank, 0)
    upright = np.array([1, 0, 0, 0], np.float32)
    return replace(state, q=spec.stand_pose, quaternion=upright)
