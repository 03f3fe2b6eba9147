"""The interface to a robot, with two implementations.

`DdsLink` talks to a robot or a twin over DDS; `InProcessLink` steps a twin in lockstep, in
simulated time. Code written against `Link` cannot tell them apart.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sim2real_deploy.robots.state import JointCommand, RobotState

if TYPE_CHECKING:
    from sim2real_deploy.wire.compiled_link import CompiledLink


@dataclass(slots=True)
class LinkCounters:
    """How many samples of rt/lowstate had each outcome since the link opened."""

    received: int = 0  # good and new
    lost: int = 0  # missing between two ticks
    bad_crc: int = 0
    bad_length: int = 0
    not_finite: int = 0
    duplicate: int = 0  # same tick again
    leaps: int = 0  # its counter jumped, or its writer changed: it restarted, or is another robot
    foreign: int = 0  # from another writer than the robot's
    sent: int = 0


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a topic; "" and 0 where discovery does not tell."""

    participant: str  # its DDS key
    host: str
    name: str = ""  # of its participant, otherwise of its program
    pid: int = 0  # on its host

    def __str__(self) -> str:
        return f"{self.name or self.participant or 'unnamed'} on {self.host or 'an unknown host'}"


class Link(Protocol):
    """States in, commands out. One thread waits; any thread may call `send` and `latest`."""

    @property
    def counters(self) -> LinkCounters:
        """The same object every time."""

    may_wait: bool  # a twin's: the world clock stands still while the machine is stalled

    def now_ns(self) -> int:
        """The world clock: monotonic on a robot, simulated in process."""

    @property
    def stood_still_ns(self) -> int:
        """For how long the world clock has stood still in all, if it `may_wait`."""

    def wait(self, timeout_s: float) -> RobotState | None:
        """Block until a new state arrives; None after the timeout."""

    @property
    def latest(self) -> RobotState | None:
        """The newest good state, without waiting."""

    def send(self, command: JointCommand) -> bytes:
        """Put a command on the wire and return the bytes sent."""

    def compiled(self) -> "CompiledLink | None":
        """The link for compiled loops, which continue from the newest state; None without any."""

    def catch_up(self, left: int) -> None:
        """After a compiled loop: count what it did. `wait` continues with the samples that it took
        and `left`."""

    def other_writers(self) -> tuple[Writer, ...]:
        """Everyone else who can write rt/lowcmd now."""

    def close(self) -> None:
        """Leave the wire. Sends nothing: whoever moves the robot damps it first."""
