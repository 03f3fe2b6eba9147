"""How time and memory grow with the length of a bag: report, replay, identify, export.

A real bag is repeated with its times and counters shifted, so that it reads as one long run. Each
job runs in its own process; its peak memory is the kernel's figure.
"""

import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from sim2real_deploy.bags import Bag, Message
from sim2real_deploy.bags.cdr import HEADER
from sim2real_deploy.bags.recorded import robot_of
from sim2real_deploy.bags.writer import BagWriter
from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.topics import LOW_STATE, TICKS
from sim2real_deploy.wire import kernels
from sim2real_deploy.wire.layout import Layout
from sim2real_deploy.wire.messages import FAMILIES

MEMORY_MB = 1500
LINEAR = 1.2  # time per minute of the longest bag, by that of the one before it
SHIFTED = {"tick": 0, "now_ns": 1, "state_tick": 2}  # columns of control/ticks that count up


@dataclass(frozen=True, slots=True)
class Cost:
    job: str
    minutes: float
    seconds: float
    memory_mb: float


def run(bag: Path, minutes: list[float], progress: Progress) -> BenchResult:
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory() as folder:
        for place, length in enumerate(sorted(minutes)):
            long = Path(folder) / f"{length:g}_minutes"
            progress(f"making {length:g} minutes", place / len(minutes))
            repeat(bag, long, length)
            for name, job in JOBS.items():
                progress(f"{name}, {length:g} minutes", place / len(minutes))
                costs.append(Cost(name, length, *_measure(job, long)))
    progress("done", 1.0)
    return judge(costs)


def judge(costs: list[Cost]) -> BenchResult:
    checks = []
    for name in JOBS:
        mine = [cost for cost in costs if cost.job == name]
        most = max(cost.memory_mb for cost in mine)
        checks.append(Check.at_most(f"{name}, memory", most, MEMORY_MB, "MB"))
        if len(mine) > 1:
            rates = [cost.seconds / cost.minutes for cost in mine[-2:]]
            checks.append(Check.at_most(f"{name}, time per minute", rates[1] / rates[0], LINEAR))
    rows = [(c.job, c.minutes, c.seconds, c.memory_mb) for c in costs]
    columns = ("job", "minutes of bag", "seconds", "peak MB")
    raw = {"costs": [asdict(cost) for cost in costs]}
    return BenchResult("bench scale", checks, raw, columns, rows)


def repeat(source: Path, target: Path, minutes: float) -> None:
    """Write a bag of this many minutes by repeating a shorter one."""
    bag = Bag(source)
    layout = FAMILIES[robot_of(bag).wire.family].state
    states, ticks = bag.require(LOW_STATE).name, bag.require(TICKS).name
    messages = sorted(bag.messages(), key=lambda message: message.log_ns)
    # Whole and even milliseconds, in which the robot's counter advances.
    length_ms = (messages[-1].log_ns - messages[0].log_ns) // 2_000_000 * 2 + 2
    rows = _rows_in(messages, ticks)
    writer = BagWriter(target, bag.information, bag.attachments)
    for topic in bag.topics.values():
        writer.add_topic(topic)
    for turn in range(max(1, round(minutes * 60_000 / length_ms))):
        moved_ms, shifted = turn * length_ms, []
        for message in messages:
            data = message.data
            if message.topic == states and len(data) == layout.size:
                data = _later_state(data, layout, moved_ms)
            elif message.topic == ticks:
                data = _later_ticks(data, turn * rows, moved_ms)
            ns = moved_ms * 1_000_000
            later = message._replace(log_ns=message.log_ns + ns, publish_ns=message.publish_ns + ns)
            shifted.append(later._replace(data=data))
        writer.write(shifted)
    writer.close()


def _rows_in(messages: list[Message], topic: str) -> int:
    """The number of loop rows in one repetition, by the loop's own counter."""
    first, last = ([m for m in messages if m.topic == topic][place].data for place in (0, -1))
    return int(_table(bytearray(last))[-1, 0] - _table(bytearray(first))[0, 0]) + 1


def _table(data: bytearray) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """A writable view of the rows in a control/ticks message: they are at its end."""
    text = bytes(data)
    start = text.index(b"tick,now_ns,")
    columns = text[start : text.index(b"\0", start)].count(b",") + 1
    rows = (len(data) - HEADER) // 8 // columns
    while rows and not _is_length(data, rows * columns):
        rows -= 1
    values = np.frombuffer(data, np.uint8)[len(data) - 8 * rows * columns :].view(np.float64)
    return values.reshape(rows, columns)


def _is_length(data: bytearray, values: int) -> bool:
    """Whether the sequence at the end has this many values; padding may precede them."""
    at = len(data) - 8 * values
    words = (data[at - 4 : at], data[at - 8 : at - 4])
    return any(int.from_bytes(word, "little") == values for word in words)


def _later_state(data: bytes, layout: Layout, moved_ms: int) -> bytes:
    sample = np.frombuffer(bytearray(data), np.uint8)
    sample.view(layout.dtype)["tick"] += moved_ms
    sample.view(np.uint32)[-1] = kernels.checksum(sample, layout.crc_gather)
    return sample.tobytes()


def _later_ticks(data: bytes, rows: int, moved_ms: int) -> bytes:
    changed = bytearray(data)
    table = _table(changed)
    table[:, SHIFTED["tick"]] += rows
    table[:, SHIFTED["now_ns"]] += moved_ms * 1e6
    table[:, SHIFTED["state_tick"]] += moved_ms
    return bytes(changed)


def _report(bag: Path) -> None:
    from sim2real_deploy.analysis.report import write_report

    write_report(Bag(bag), bag / "report.html")


def _replay(bag: Path) -> None:
    from sim2real_deploy.analysis.policy_replay import replay_policy
    from sim2real_deploy.bags.recorded import Recorded

    replay = replay_policy(Recorded.open(bag))
    if replay.values_different or not replay.steps:
        raise Refusal(f"{bag}: the replay differs: {replay.first}")


def _load_for_identify(bag: Path) -> None:
    from sim2real_deploy.bags.recorded import Recorded
    from sim2real_deploy.identify.recording import from_bag

    from_bag(Recorded.open(bag))


def _export(bag: Path) -> None:
    from sim2real_deploy.analysis.export import export

    export(Bag(bag), bag / "export", "parquet")


JOBS: dict[str, Callable[[Path], None]] = {
    "report": _report,
    "replay": _replay,
    "identify (reading)": _load_for_identify,
    "export": _export,
}


def _measure(job: Callable[[Path], None], bag: Path) -> tuple[float, float]:
    """Seconds and peak megabytes."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(job, bag, there))
    child.start()
    there.close()
    try:
        seconds, memory_mb = here.recv()
    except EOFError:
        raise Refusal(f"bench scale: a job failed on {bag.name}; see above") from None
    child.join()
    return seconds, memory_mb


def _in_child(job: Callable[[Path], None], bag: Path, pipe: Connection) -> None:
    start = time.process_time()
    job(bag)
    seconds = time.process_time() - start
    # Not getrusage's: that begins with the memory of the process that started this one.
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    pipe.send((seconds, int(peak) / 1024))
