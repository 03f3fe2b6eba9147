"""A run of the twin in a terminal, for a given time or until Ctrl-C, with status lines."""

import signal
import threading
import time
from collections.abc import Callable

from sim2real_deploy.twin import views
from sim2real_deploy.twin.boards import CommandCounters
from sim2real_deploy.twin.on_wire import TwinOnWire

REPORT_EVERY = 5.0  # s


class TwinSession:
    """Keeps poses for a video, and reports bad commands and lost time when they change."""

    def __init__(self, on_wire: TwinOnWire, duration: float, keep_poses: bool) -> None:
        self._on_wire = on_wire
        self._end = time.monotonic() + duration if duration else float("inf")
        self._keep_poses = keep_poses
        self._ended = threading.Event()
        self.poses: list[views.Pose] = []

    def run(self, say: Callable[[str], None], view: bool) -> None:
        """Ends cleanly on SIGINT and SIGTERM. Must be called in the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._ended.set())
        watcher = threading.Thread(target=self._watch, args=(say,), name="session")
        watcher.start()
        try:
            if view:
                views.watch(self._on_wire.twin.model, self._pose, self._wanted)
            else:
                while not self._ended.wait(0.2):
                    pass
        finally:
            self._ended.set()
            watcher.join()
        self._on_wire.check()

    def _watch(self, say: Callable[[str], None]) -> None:
        next_report, told = time.monotonic() + REPORT_EVERY, ""
        while not self._ended.wait(1 / views.FPS if self._keep_poses else 0.1):
            if self._on_wire.stopped or time.monotonic() >= self._end:
                self._ended.set()
                return
            if self._keep_poses:
                self.poses.append(self._pose())
            if time.monotonic() >= next_report:
                next_report += REPORT_EVERY
                report = describe(self._on_wire)
                if report != told:
                    say(report)
                    told = report

    def _wanted(self) -> bool:
        return not self._ended.is_set()

    def _pose(self) -> views.Pose:
        return self._on_wire.ask(lambda twin: twin.data.qpos.copy())


def describe(on_wire: TwinOnWire) -> str:
    """One line: mode, commands, timing and faults."""
    twin = on_wire.twin
    faults = ", ".join(f"{f.target} {f.word}" for f in twin.faults.active) or "none"
    return (
        f"sport mode {twin.sport.mode or 'released'}; commands: {_rejected(twin.boards.counters)}; "
        f"late periods {on_wire.timing.late}, skipped {on_wire.timing.skipped_s:.2f} s; "
        f"faults: {faults}"
    )


def _rejected(counters: CommandCounters) -> str:
    if not counters.rejected:
        return "coming" if counters.accepted else "none yet"
    return (
        f"{counters.rejected} rejected ({counters.bad_crc} CRC, {counters.bad_length} length, "
        f"{counters.not_finite} not finite, {counters.bad_gain} gain)"
    )
