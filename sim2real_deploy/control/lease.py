"""Who commands the velocity: one source at a time, by priority.

A source holds the lease while its requests keep coming. A source of higher priority takes it at
once; a lower one waits until the holder's heartbeat has expired. So the remote always wins over a
program, and a program that hangs loses the robot instead of driving it on.
"""

from dataclasses import dataclass

HUMAN_HEARTBEAT_NS = 250_000_000  # hold to run
PROGRAM_HEARTBEAT_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    priority: int
    heartbeat_ns: int = HUMAN_HEARTBEAT_NS


REMOTE = Source("remote", 5)  # the robot's own
PAD = Source("pad", 4)  # a gamepad on `joy`
TELEOP = Source("teleop", 3)  # the keyboard, on `teleop/cmd_vel`
PAGE = Source("page", 2)  # the dashboard, on `dashboard/cmd_vel`
PLANNER = Source("planner", 1, PROGRAM_HEARTBEAT_NS)  # any program, on `cmd_vel`
SOURCES = (REMOTE, PAD, TELEOP, PAGE, PLANNER)


class Lease:
    def __init__(self) -> None:
        self._holder: Source | None = None
        self._heard_ns = 0

    def claim(self, source: Source, now_ns: int) -> bool:
        """A request from this source arrived; returns whether it holds the lease now."""
        holder = self.holder(now_ns)
        if holder is not None and holder.priority > source.priority:
            return False
        self._holder, self._heard_ns = source, now_ns
        return True

    def holder(self, now_ns: int) -> Source | None:
        """None when nobody commands: the robot then stands still."""
        holder = self._holder
        if holder is None or now_ns - self._heard_ns > holder.heartbeat_ns:
            return None
        return holder
