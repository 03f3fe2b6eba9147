"""Hours of walking in lockstep: do memory, descriptors, threads, disk or the time per tick grow?

Twin, control, the supervisor's logic, the ring of ticks and the recorder's writer are those of a
real walk; only DDS and ROS are missing. The robot walks, turns, sits down and stands up again, and
gets a fresh battery every half hour. Growth between the end of a warm-up and the end is judged.
"""

import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import psutil

from sim2real_deploy.bags.definitions import wire_topic
from sim2real_deploy.bags.recording import RunRecorder, Storage
from sim2real_deploy.bags.runs import size_of
from sim2real_deploy.bags.topic import Message
from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.ticks import TickRing
from sim2real_deploy.gate.drive import Drive
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.topics import LOW_CMD, LOW_STATE
from sim2real_deploy.twin.files import DEFAULT, load_imperfections
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire import messages

QUOTA_BYTES = 300 << 20
RUN_MINUTES = 10  # of simulated time in one bag
BATTERY_MINUTES = 30
MOST_WAITING = 10_000  # messages in the writer's queue
WARM_UP_SHARE = 0.2  # of the samples: caches and pools fill
COMMANDS = ((0.5, 0.0, 0.0), (0.3, 0.0, 0.5), (0.0, 0.0, 0.0), (0.4, 0.1, -0.3))


@dataclass(frozen=True, slots=True)
class SoakSample:
    """After one simulated minute."""

    minutes: float
    memory_mb: float
    descriptors: int
    threads: int
    disk_mb: float
    tick_p50_us: float  # twin and control together
    tick_p99_us: float
    ticks_dropped: int
    damped: int  # number of stops


def run(
    robot: str, policy: str, hours: float, picture: Path | None, progress: Progress
) -> BenchResult:
    """Ctrl-C ends it early; the part that ran is judged."""
    soak = _Soak(load_robot(robot), policy)
    samples: list[SoakSample] = []
    try:
        minutes = round(60 * hours)
        for minute in range(minutes):
            samples.append(soak.minute(minute))
            progress(f"{minute + 1} of {minutes} simulated minutes", (minute + 1) / minutes)
    except KeyboardInterrupt:
        if not samples:
            raise
    finally:
        soak.close()
    if picture is not None:
        draw(samples, picture)
    return judge(samples)


def judge(samples: list[SoakSample]) -> BenchResult:
    settled = samples[int(WARM_UP_SHARE * len(samples)) :]
    third = max(1, len(settled) // 3)
    first, last = settled[:third], settled[-third:]

    def median(part: list[SoakSample], name: str) -> float:
        return float(np.median([getattr(sample, name) for sample in part]))

    grown = {
        name: median(last, name) - median(first, name)
        for name in ("memory_mb", "descriptors", "threads")
    }
    slower = median(last, "tick_p50_us") / median(first, "tick_p50_us")
    checks = [
        Check.at_most("memory, growth", grown["memory_mb"], 10, "MB"),
        Check.at_most("descriptors, growth", grown["descriptors"], 0),
        Check.at_most("threads, growth", grown["threads"], 0),
        Check.at_most("disk, most", max(sample.disk_mb for sample in samples), 400, "MB"),
        Check.at_most("time of a tick, last to first third", slower, 1.2, "times"),
        Check.at_most("rows of ticks lost", samples[-1].ticks_dropped, 0),
        Check.at_most("stops", samples[-1].damped, 0),
    ]
    raw = {"minutes": len(samples), "samples": [asdict(sample) for sample in samples]}
    return BenchResult("bench soak", checks, raw)


class _Soak:
    def __init__(self, spec: RobotSpec, policy: str) -> None:
        self._robot = TwinRobot(spec, imperfections=load_imperfections(DEFAULT, spec.name))
        self._robot.reset(1)
        self._recording: RunRecorder | None = None
        bundle = load_bundle(policy, spec)
        self._drive = Drive(bundle, self._robot, "indoor", supervised=True, tap=self._record)
        self._ring = TickRing(self._drive.controller)
        self._folder = Path(tempfile.mkdtemp(prefix="soak"))
        self._commands = cycle(COMMANDS)
        self._times_ns: list[int] = []
        self._damped = 0
        self._process = psutil.Process(os.getpid())
        self._drive.stand_and_walk()

    def minute(self, number: int) -> SoakSample:
        if number % RUN_MINUTES == 0:
            self._start_bag()
        if number % BATTERY_MINUTES == 0:
            self._robot.battery.charge = 1.0
        if number % 7 == 3:
            self._sit_and_stand()
        self._times_ns.clear()
        for _ in range(4):
            velocity = next(self._commands)
            for _ in range(7500):
                self._drive.walk_at(velocity)
                self._tick()
            if self._drive.controller.mode is not Mode.WALKING:
                self._damped += 1
                self._recover()
        p50, p99 = np.percentile(self._times_ns, (50, 99)) / 1e3
        process = self._process
        return SoakSample(
            minutes=number + 1,
            memory_mb=process.memory_info().rss / 1e6,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            disk_mb=size_of(self._folder) / 1e6,
            tick_p50_us=float(p50),
            tick_p99_us=float(p99),
            ticks_dropped=self._ring.dropped,
            damped=self._damped,
        )

    def _tick(self) -> None:
        start = time.perf_counter_ns()
        self._drive.tick()
        self._times_ns.append(time.perf_counter_ns() - start)
        now_ns, period_ns = self._drive.link.now_ns(), self._drive.controller.period_ns
        self._ring.write(now_ns, 0, period_ns, 0, 0, False)
        if self._ring.written % 50 == 0:
            self._ring.drain()

    def _record(self, now_ns: int, topic: str, sample: bytes) -> None:
        if self._recording is None:
            return
        name = LOW_CMD if topic == messages.LOW_CMD else LOW_STATE
        self._recording.put(Message(now_ns, f"/{name}", now_ns, 0, sample))
        if self._ring.written % 2000 == 0:  # simulated time outruns the disk
            received = self._recording.received
            while sum(received.values()) - sum(self._recording.written.values()) > MOST_WAITING:
                time.sleep(0.01)

    def _sit_and_stand(self) -> None:
        controller, link = self._drive.controller, self._drive.link
        controller.request(ModeEvent.SIT, link.now_ns())
        while controller.mode not in (Mode.DAMPING, Mode.PASSIVE):
            self._tick()
        self._drive.stand_and_walk()

    def _recover(self) -> None:
        """After a stop: put the robot back on its feet, reset, continue."""
        self._robot.reset(self._damped)
        for _ in range(2000):
            self._tick()
        if self._drive.safety is not None:
            self._drive.safety.reset()
        self._drive.controller.situation.fault = ""
        self._drive.stand_and_walk()

    def _start_bag(self) -> None:
        if self._recording is not None:
            self._recording.close()
        storage = Storage(self._folder, QUOTA_BYTES)
        self._recording = RunRecorder(storage, "soak", {"robot": self._drive.spec.name})
        for name in (LOW_STATE, LOW_CMD):
            self._recording.add_topic(wire_topic(self._drive.spec, name))

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def draw(samples: list[SoakSample], path: Path) -> None:
    """Each figure over simulated time."""
    from matplotlib.figure import Figure

    names = ("memory_mb", "descriptors", "threads", "disk_mb", "tick_p50_us", "tick_p99_us")
    figure = Figure(figsize=(8, 10))
    axes = figure.subplots(len(names), 1, sharex=True)
    hours = [sample.minutes / 60 for sample in samples]
    for axis, name in zip(axes, names, strict=True):
        axis.plot(hours, [getattr(sample, name) for sample in samples], linewidth=1)
        axis.set_ylabel(name)
        axis.set_ylim(bottom=0)
    axes[-1].set_xlabel("simulated hours")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
