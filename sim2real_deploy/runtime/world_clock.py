"""The clock of the robot's world. A robot's never stops; a twin's may wait for its computer.

The host of a virtual machine may take cores away for tens of milliseconds. A real robot's world
goes on meanwhile, and stopping it is right. A twin runs on that same computer, so its world can
wait: twin, control and supervisor read one clock, which the twin keeps in shared memory
(`core_beats.py`). All bounds then count in world time, in code that does not know which of the two
clocks it was given.
"""

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sim2real_deploy.errors import Refusal
from sim2real_deploy.runtime.local_channel import run_directory

BEAT_NS = 5_000_000  # period of each core's heartbeat
GRACE_NS = 10_000_000  # after its last beat a core counts as stalled
LONGEST_NS = 250_000_000  # the most the world waits: longer, and the twin has failed
MOST_CORES = 8  # with more, the heartbeats cost more than they save
_READ_AGAIN = 3  # retries while a writer is active
_VERSION = struct.Struct("=Q")


class WorldClock:
    """A robot's clock: the monotonic clock itself, since a loop reads it several times a tick."""

    may_wait = False

    def __init__(self) -> None:
        self.now_ns: Callable[[], int] = time.monotonic_ns
        self.page = memoryview(b"")  # of a twin's clock, for compiled loops

    @property
    def stood_still_ns(self) -> int:
        """How far it has fallen behind the monotonic clock."""
        return 0


class TwinClock(WorldClock):
    """A twin's clock: the monotonic clock minus the time in which a core was stalled."""

    may_wait = True

    def __init__(self, page: "ClockPage") -> None:
        self._page = page
        self.now_ns = self._now_ns
        self.page = page.memory

    def _now_ns(self) -> int:
        now_ns, behind_ns = self._look()
        return now_ns - behind_ns

    @property
    def stood_still_ns(self) -> int:
        return self._look()[1]

    def _look(self) -> tuple[int, int]:
        """The monotonic time and the world's lag, consistent even if this thread is preempted
        between the two reads."""
        page = self._page
        for _ in range(_READ_AGAIN):
            version, lost_ns, settled_ns, *beats_ns = page.read()
            now_ns = time.monotonic_ns()
            if page.version == version:
                break
        return now_ns, lost_ns + standing_ns(now_ns, settled_ns, beats_ns)


def standing_ns(now_ns: int, settled_ns: int, beats_ns: Sequence[int]) -> int:
    """How long a core has been stalled by now, apart from time already settled.

    A core that never beat (0) is not watched.
    """
    longest_ns = 0
    for beat_ns in beats_ns:
        since_ns = beat_ns + GRACE_NS
        if beat_ns and now_ns > since_ns:
            until_ns = min(now_ns, since_ns + LONGEST_NS)
            longest_ns = max(longest_ns, until_ns - max(since_ns, settled_ns))
    return longest_ns


class ClockPage:
    """A seqlock in shared memory: time lost, until when it is settled, each core's last beat (ns).

    Any process that knows the path may create it. One process writes, from a thread per core. The
    version stands before and behind the values: a writer updates the front first and the back
    last, a reader checks in the opposite order, so equal versions mean an unbroken read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        cores = os.sysconf("SC_NPROCESSORS_CONF")
        self._form = struct.Struct(f"={2 + cores}q")
        size = _VERSION.size + self._form.size + _VERSION.size
        try:
            self._memory = _shared_memory(path, size)
        except OSError as error:
            words = f"the twin's clock cannot be kept there: {error.strerror}"
            raise Refusal(f"{path}: {words}; make room, or set XDG_RUNTIME_DIR") from None
        self._end = size - _VERSION.size
        self._values = [0] * (3 + cores)
        self._beating = threading.Lock()

    @property
    def memory(self) -> memoryview:
        """64-bit words: version, time lost, until when, each core's beat, version again."""
        return memoryview(self._memory)

    @property
    def version(self) -> int:
        """Of the last write, or of one in progress."""
        (version,) = _VERSION.unpack_from(self._memory)
        return int(version)

    def read(self) -> list[int]:
        """A consistent version and values; those of the last read while a write is in progress."""
        for _ in range(_READ_AGAIN):
            (written,) = _VERSION.unpack_from(self._memory, self._end)
            values = self._form.unpack_from(self._memory, _VERSION.size)
            if self.version == written and written >= self._values[0]:
                self._values = [written, *values]
                break
        return self._values

    def beat(self, core: int) -> None:
        """This core runs; time lost up to now is settled."""
        with self._beating:
            now_ns = time.monotonic_ns()
            _, lost_ns, settled_ns, *beats_ns = self.read()
            stood_ns = standing_ns(now_ns, settled_ns, beats_ns)
            if stood_ns:
                lost_ns, settled_ns = lost_ns + stood_ns, now_ns
            beats_ns[core] = now_ns
            self._write(lost_ns, settled_ns, *beats_ns)

    def _write(self, *values: int) -> None:
        version = _VERSION.pack(self.version + 1)
        self._memory[: _VERSION.size] = version
        self._memory[_VERSION.size : self._end] = self._form.pack(*values)
        self._memory[self._end :] = version

    def close(self) -> None:
        """No more beats: from now on no core is watched."""
        with self._beating:
            _, lost_ns, settled_ns, *beats_ns = self.read()
            self._write(lost_ns, settled_ns, *[0] * len(beats_ns))
        self.path.unlink(missing_ok=True)


def _shared_memory(path: Path, size: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(
            handle, 0, size
        )  # writing to a page without disk space would raise SIGBUS
        return mmap.mmap(handle, size)
    finally:
        os.close(handle)


def open_clock(namespace: str, domain: int, name: str) -> WorldClock:
    """The clock of this name; '' is a robot's."""
    return TwinClock(open_page(namespace, domain, name)) if name else WorldClock()


def open_page(namespace: str, domain: int, name: str) -> ClockPage:
    if not name.isalnum():
        raise Refusal(f"clock '{name}': a name of letters and digits was expected")
    return ClockPage(run_directory(namespace, domain) / f"clock-{name}")


def world_may_wait() -> bool:
    """Whether a twin's world on this computer waits for stalled cores."""
    return cores_may_vanish() and os.sysconf("SC_NPROCESSORS_CONF") <= MOST_CORES


def cores_may_vanish() -> bool:
    """Whether this is a virtual machine, whose host may take cores away."""
    try:
        return " hypervisor " in f"{Path('/proc/cpuinfo').read_text()} ".replace("\n", " ")
    except OSError:
        return False
