"""What control, safety and the twin's users see of a robot: one interface, two faces.

`DdsLink` talks to a robot (or the twin) over DDS; the in-process face steps a twin in lockstep,
with simulated time. Code written against `Link` cannot tell them apart.
"""

from dataclasses import dataclass
from typing import Protocol

from sim2real_deploy.robots.state import JointCommand, RobotState


@dataclass(slots=True)
class LinkCounters:
    """What became of every sample on rt/lowstate since the link opened."""

    received: int = 0  # good and new: handed on
    lost: int = 0  # missing between two ticks
    bad_crc: int = 0
    bad_length: int = 0
    not_finite: int = 0
    duplicate: int = 0  # same tick again
    leaps: int = 0  # the robot's counter jumped: it restarted, or two robots are interleaved
    foreign: int = 0  # from another writer than the one that was heard first
    sent: int = 0


@dataclass(frozen=True, slots=True)
class Writer:
    """Somebody who writes a topic; "" and 0 where discovery does not tell."""

    participant: str  # its key on the domain
    host: str
    name: str = ""  # its participant name, else its program's
    pid: int = 0  # on its host

    def __str__(self) -> str:
        return f"{self.name or self.participant or 'unnamed'} on {self.host or 'an unknown host'}"


class Link(Protocol):
    """State in, commands out. One thread waits; `send` and `latest` may be called from any."""

    @property
    def counters(self) -> LinkCounters:
        """What has come and gone so far; the same object every time."""

    may_wait: bool  # the world's clock stands still where this computer does: a twin's

    def now_ns(self) -> int:
        """The world's clock: monotonic on a robot, simulated in process."""

    @property
    def stood_still_ns(self) -> int:
        """How far that is behind this computer's clock, where it may wait."""

    def wait(self, timeout_s: float) -> RobotState | None:
        """Block until a state newer than the last one returned, or None after the timeout."""

    @property
    def latest(self) -> RobotState | None:
        """The newest good state, without waiting."""

    def send(self, command: JointCommand) -> bytes:
        """Put a command on the wire and return the bytes that went out."""

    def other_writers(self) -> tuple[Writer, ...]:
        """Everyone but us who can write rt/lowcmd now."""

    def close(self) -> None:
        """Leave the wire. Sends nothing: whoever owns the motion damps first."""
