"""The vendor's path and ours, side by side in one run: codec, one-way latency, CPU.

Two processes on loopback, LowState at 500 Hz. One-way latency is from before encoding to after
decoding. Where the comparison is uneven it favours the vendor: our figures include the checksum and
all checks, the vendor's do not.
"""

import multiprocessing
import struct
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection

import numpy as np

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.contestants import standing
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState, load_robot
from sim2real_deploy.wire import kernels, vendor
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.domains import free_domain
from sim2real_deploy.wire.encoders import CommandEncoder, StateEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_STATE, REMOTE_BYTES

RATE_HZ = 500.0
DISCOVERY_S = 1.0
START_S = 60.0  # for a process to start, even on a busy machine
END_S = 1.0  # of silence
_CPU_EVERY = 50  # samples between two readings of CPU time, a system call


@dataclass(frozen=True, slots=True)
class Codec:
    """Microseconds a message."""

    decode: float
    encode: float
    checksum: float


@dataclass(frozen=True, slots=True)
class OneWay:
    """What a receiver saw."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_percent: float  # of one core, in the receiving process, at the full rate
    sent: int
    lost: int


WAY_ROWS = (
    ("p50_ms", "one way, p50", "ms"),
    ("p99_ms", "one way, p99", "ms"),
    ("max_ms", "one way, max", "ms"),
    ("cpu_percent", "receiver's CPU", "% of a core"),
    ("sent", "samples sent", ""),
    ("lost", "samples lost", ""),
)


def judge(
    vendor_codec: Codec | None, codec: Codec, vendor_way: OneWay | None, way: OneWay
) -> BenchResult:
    """Without the vendor's SDK there is nothing to compare with: ours alone."""
    raw = {"our_codec": asdict(codec), "our_way": asdict(way)}
    lost = Check.at_most("samples lost", way.lost, 0)
    if vendor_codec is None or vendor_way is None:
        columns = ("", "ours (no vendor SDK)", "unit")
        return BenchResult("bench wire", [lost], raw, columns, [*_rows(codec, way)])
    raw |= {"vendor_codec": asdict(vendor_codec), "vendor_way": asdict(vendor_way)}
    checks = [
        Check.at_least("decode, times faster", vendor_codec.decode / codec.decode, 30),
        Check.at_least("encode, times faster", vendor_codec.encode / codec.encode, 30),
        Check.at_least("checksum, times faster", vendor_codec.checksum / codec.checksum, 30),
        Check.at_least("one way p50, times lower", vendor_way.p50_ms / way.p50_ms, 5),
        Check.at_least("receiver's CPU, times lower", vendor_way.cpu_percent / way.cpu_percent, 5),
        lost,
    ]
    beside = zip(_rows(vendor_codec, vendor_way), _rows(codec, way), strict=True)
    both = [(words, theirs, ours, unit) for (words, theirs, unit), (_, ours, _) in beside]
    return BenchResult("bench wire", checks, raw, ("", "vendor's", "ours", "unit"), both)


def _rows(codec: Codec, way: OneWay) -> Iterator[tuple[str, float, str]]:
    for name in ("decode", "encode", "checksum"):
        yield name, getattr(codec, name), "us"
    for name, words, unit in WAY_ROWS:
        yield words, getattr(way, name), unit


def run(robot: str, seconds: float, progress: Progress) -> BenchResult:
    """Codec first, then both paths alternating, so that a busy machine affects both."""
    progress("codec", 0.0)
    spec = load_robot(robot)
    theirs, ours = _codecs(spec)
    ways: dict[Callable[..., None], list[list[float]]] = {_ours: [], _vendors: []}
    turns = 2 * [_ours, _vendors] if theirs is not None else 2 * [_ours]
    for number, receive in enumerate(turns):
        done = (1 + number) / (1 + len(turns))
        progress("our path" if receive is _ours else "vendor's path", done)
        ways[receive].append(_one_way(receive, spec, seconds / 2))
    progress("done", 1.0)
    vendor_way = _summary(ways[_vendors]) if theirs is not None else None
    return judge(theirs, ours, vendor_way, _summary(ways[_ours]))


def _summary(turns: list[list[float]]) -> OneWay:
    """Each turn: samples sent, received, seconds of CPU, then the delays."""
    sent, received = (sum(int(turn[k]) for turn in turns) for k in (0, 1))
    cpu = sum(turn[2] for turn in turns) / received * RATE_HZ
    delays = np.concatenate([turn[3:] for turn in turns]) * 1e3
    p50, p99 = np.percentile(delays, (50, 99))
    return OneWay(float(p50), float(p99), float(delays.max()), cpu * 100, sent, sent - received)


def _codecs(robot: RobotSpec) -> tuple[Codec | None, Codec]:
    family = FAMILIES[robot.wire.family]
    row = np.linspace(-1, 1, robot.joint_count, dtype=np.float32)
    command = JointCommand.of_block(np.stack((row,) * 5))
    encoder, decoder = CommandEncoder(robot), StateDecoder(robot)
    state_sample = StateEncoder(robot).encode(standing(robot))
    command_sample = encoder.encode(command)
    octets = np.frombuffer(command_sample, np.uint8)
    jobs: dict[str, tuple[Callable[[], object], int]] = {
        "decode": (lambda: _read_all(decoder.decode(state_sample, 0)), 20),
        "encode": (lambda: encoder.encode(command), 20),
        "checksum": (lambda: kernels.checksum(octets, family.command.crc_gather), 20),
    }
    if vendor.installed():
        state_class = vendor.idl(family.state.type_name)
        theirs_command = vendor.idl(family.command.type_name).deserialize(command_sample)
        checksum = vendor.checksum()
        jobs |= {
            "their decode": (lambda: state_class.deserialize(state_sample), 2),
            "their encode": (theirs_command.serialize, 2),
            "their checksum": (lambda: checksum(theirs_command), 2),
        }
    # Alternating short bursts, and the best of each: the cost of the code, not of the machine.
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(400):
        for name, (job, times) in jobs.items():
            best[name] = min(best[name], timeit.timeit(job, number=times) / times * 1e6)
    ours, *theirs = (
        Codec(*(best[f"{whose}{what}"] for what in ("decode", "encode", "checksum")))
        for whose in ("", "their ")
        if f"{whose}decode" in best
    )
    return (theirs[0] if theirs else None), ours


def _one_way(receive: Callable[..., None], robot: RobotSpec, seconds: float) -> list[float]:
    """One sender and one receiver process."""
    context = multiprocessing.get_context("spawn")
    domain = free_domain()
    here, there = context.Pipe()
    receiver = context.Process(target=receive, args=(domain, robot, there), daemon=True)
    send = _send_ours if receive is _ours else _send_vendors
    receiver.start()
    try:
        _told(here)  # that it listens
        count = int(seconds * RATE_HZ)
        sender = context.Process(target=send, args=(domain, robot, count), daemon=True)
        sender.start()
        sender.join()
        return [count, *_told(here)]
    finally:
        receiver.kill()
        receiver.join()


def _told(pipe: Connection) -> list[float]:
    if pipe.poll(START_S):
        told: list[float] = pipe.recv()
        if told is not None:
            return told
    raise Refusal("no sample came through on lo: is the interface up, the machine not overrun?")


class _Log:
    """Delays, and the CPU this process used from the first sample on."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._cpu: list[tuple[int, float]] = []  # samples received so far, seconds so far

    def add(self, remote: bytes, received: int) -> None:
        """Add one sample; `received` counts those so far, since several may arrive together."""
        now = time.monotonic_ns()
        (sent_ns,) = struct.unpack_from("<q", remote)
        self.delays.append((now - sent_ns) * 1e-9)
        if len(self.delays) % _CPU_EVERY == 1:
            self._cpu.append((received, time.process_time()))

    def report(self, received: int) -> list[float] | None:
        """Samples received, seconds of CPU they took, and the delays."""
        if len(self._cpu) < 2:
            return None
        (first, start), (last, end) = self._cpu[0], self._cpu[-1]
        return [received, (end - start) / (last - first) * received, *self.delays]


def _stamp() -> bytes:
    """The time of sending, in a field that both paths carry."""
    return struct.pack("<q", time.monotonic_ns()).ljust(REMOTE_BYTES, b"\0")


def _paced(count: int, send: Callable[[int], None]) -> None:
    time.sleep(DISCOVERY_S)
    due = time.monotonic()
    for number in range(count):
        send(number)
        due += 1 / RATE_HZ
        time.sleep(max(0.0, due - time.monotonic()))


def _ours(domain: int, robot: RobotSpec, pipe: Connection) -> None:
    link, log = DdsLink(robot, "lo", domain), _Log()
    pipe.send([])
    timeout_s = START_S
    while (state := link.wait(timeout_s)) is not None:
        _read_all(state)
        log.add(state.whole().remote, link.counters.received)
        timeout_s = END_S
    pipe.send(log.report(link.counters.received))


def _read_all(state: RobotState) -> None:
    """Every field, as the vendor's codec does it."""
    state.whole()


def _send_ours(domain: int, robot: RobotSpec, count: int) -> None:
    layout = FAMILIES[robot.wire.family].state
    encoder, state = StateEncoder(robot), standing(robot)
    writer = Participant(domain, "lo").writer(LOW_STATE, layout)

    def send(number: int) -> None:
        state.tick, state.remote = 2 * (number + 1), _stamp()
        writer.write(encoder.encode(state))

    _paced(count, send)


def _vendors(domain: int, robot: RobotSpec, pipe: Connection) -> None:
    channel, log = vendor.module("core.channel"), _Log()
    type_name = FAMILIES[robot.wire.family].state.type_name
    channel.ChannelFactoryInitialize(domain, "lo")
    subscriber = channel.ChannelSubscriber(LOW_STATE, vendor.idl(type_name))
    # With a queue of ten, as in all of the vendor's low-level examples.
    subscriber.Init(
        lambda message: log.add(bytes(message.wireless_remote[:8]), len(log.delays) + 1), 10
    )
    pipe.send([])
    deadline = time.monotonic() + START_S
    seen = 0
    while time.monotonic() < deadline:
        time.sleep(0.1)
        if len(log.delays) != seen:
            seen, deadline = len(log.delays), time.monotonic() + END_S
    pipe.send(log.report(seen))


def _send_vendors(domain: int, robot: RobotSpec, count: int) -> None:
    channel = vendor.module("core.channel")
    channel.ChannelFactoryInitialize(domain, "lo")
    state_class = vendor.idl(FAMILIES[robot.wire.family].state.type_name)
    publisher = channel.ChannelPublisher(LOW_STATE, state_class)
    publisher.Init()
    message = state_class.deserialize(StateEncoder(robot).encode(standing(robot)))

    def send(number: int) -> None:
        message.tick, message.wireless_remote = 2 * (number + 1), list(_stamp())
        publisher.Write(message)

    _paced(count, send)
