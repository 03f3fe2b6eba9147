"""The clock of the robot's world. A robot's never stops; a twin's may wait for its computer.

The host of a virtual machine takes cores away for tens of milliseconds, and whatever ran there
stands still. A robot's world goes on meanwhile, and a stop is right. A twin lives on that same
computer, so its world can wait, for all who live in it: twin, control and supervisor read one
clock, which the twin keeps in a page of memory they share (`twin/core_beats.py`). Every bound then
holds in the world's time, by code that does not know which of the two clocks it was given.
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

BEAT_NS = 5_000_000  # every core says this often that it is there
GRACE_NS = 10_000_000  # since its last beat; after that it stands still
LONGEST_NS = 250_000_000  # no core is away for longer: then the twin is, and the world goes on
MOST_CORES = 8  # of more, all these beats would cost what they are to save
_READ_AGAIN = 3  # times, when somebody is writing
_VERSION = struct.Struct("=Q")


class WorldClock:
    """A robot's: this computer's monotonic clock, as it is: a loop asks it several times a tick."""

    may_wait = False

    def __init__(self) -> None:
        self.now_ns: Callable[[], int] = time.monotonic_ns

    @property
    def stood_still_ns(self) -> int:
        """How far it is behind the monotonic clock by now."""
        return 0


class TwinClock(WorldClock):
    """A twin's: the same, less the time in which a core of this computer stood still."""

    may_wait = True

    def __init__(self, page: "ClockPage") -> None:
        self._page = page
        self.now_ns = self._now_ns

    def _now_ns(self) -> int:
        now_ns, behind_ns = self._look()
        return now_ns - behind_ns

    @property
    def stood_still_ns(self) -> int:
        return self._look()[1]

    def _look(self) -> tuple[int, int]:
        """The monotonic time, and how far the world is behind it: of one moment, also when this
        thread stands still between the one and the other."""
        page = self._page
        for _ in range(_READ_AGAIN):
            version, lost_ns, settled_ns, *beats_ns = page.read()
            now_ns = time.monotonic_ns()
            if page.version == version:
                break
        return now_ns, lost_ns + standing_ns(now_ns, settled_ns, beats_ns)


def standing_ns(now_ns: int, settled_ns: int, beats_ns: Sequence[int]) -> int:
    """For how long a core has been standing still now, of the time that is not settled yet.

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
    """A version, then in ns: time lost, until when that is settled, and each core's last beat.

    Any process that knows the path may open it first. One process beats, in a thread per core.
    Whoever writes puts the version before the values first and behind them last, whoever reads
    looks the other way round: where both are the same, nothing was written in between.
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
    def version(self) -> int:
        """Of what was written last, or is being written now."""
        (version,) = _VERSION.unpack_from(self._memory)
        return int(version)

    def read(self) -> list[int]:
        """Version and values as of one moment; those of the last reading while somebody writes."""
        for _ in range(_READ_AGAIN):
            (written,) = _VERSION.unpack_from(self._memory, self._end)
            values = self._form.unpack_from(self._memory, _VERSION.size)
            if self.version == written and written >= self._values[0]:
                self._values = [written, *values]
                break
        return self._values

    def beat(self, core: int) -> None:
        """A core is there now; what was lost until now is settled."""
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
        """Nobody beats any more: from now on no core is watched."""
        with self._beating:
            _, lost_ns, settled_ns, *beats_ns = self.read()
            self._write(lost_ns, settled_ns, *[0] * len(beats_ns))
        self.path.unlink(missing_ok=True)


def _shared_memory(path: Path, size: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)  # to write where there is no room ends a process
        return mmap.mmap(handle, size)
    finally:
        os.close(handle)


def open_clock(namespace: str, domain: int, name: str) -> WorldClock:
    """The clock by its name: '' is a robot's."""
    return TwinClock(open_page(namespace, domain, name)) if name else WorldClock()


def open_page(namespace: str, domain: int, name: str) -> ClockPage:
    if not name.isalnum():
        raise Refusal(f"clock '{name}': a name of letters and digits was expected")
    return ClockPage(run_directory(namespace, domain) / f"clock-{name}")


def world_may_wait() -> bool:
    """Whether a twin's world on this computer is to wait for cores that are away."""
    return cores_may_vanish() and os.sysconf("SC_NPROCESSORS_CONF") <= MOST_CORES


def cores_may_vanish() -> bool:
    """Whether this is a virtual machine, so that a host could take its cores away."""
    try:
        return " hypervisor " in f"{Path('/proc/cpuinfo').read_text()} ".replace("\n", " ")
    except OSError:
        return False
