"""What is on rt/lowcmd, and who sent it: control's commands apart from everybody else's.

Endpoints prove nothing. The vendor's sport mode goes on announcing its writer after it let go of
the motors, and a second controller need not announce itself before its first sample. So programs
are judged by what they send.
"""

from collections.abc import Callable, Iterable

from sim2real_deploy.robots import JointCommand, RobotSpec
from sim2real_deploy.safety.supervisor import is_damping
from sim2real_deploy.wire.channels import Sample
from sim2real_deploy.wire.decoders import CommandDecoder, Flaw
from sim2real_deploy.wire.link import Writer

WRITES_NS = 100_000_000  # a rival's sample counts as a fight for the motors for this long
LINGERS_NS = 1_000_000_000  # and keeps a robot from standing up for this long


class CommandWatch:
    """`command` and what stands beside it are control's own; before control is known, nobody's."""

    def __init__(self, robot: RobotSpec, who: Callable[[int], Writer], own: str) -> None:
        self.command: JointCommand | None = None  # the newest one without a flaw
        self.command_ns = 0
        self.damping = False
        self.not_finite = 0  # of commands by anybody
        self._decoder = CommandDecoder(robot)
        self._who, self._own, self._control = who, own, ""
        self._content = b""
        self._heard: dict[int, int] = {}  # by writer: when it last sent something

    def see(self, samples: Iterable[Sample[bytes]], control: str, now_ns: int) -> None:
        """Take in what was sent since the last look; `control` is its participant, or ""."""
        if control != self._control:
            self._control, self._content = control, b""
            self.command, self.command_ns, self.damping = None, 0, False
        for sample in samples:
            self._heard[sample.writer] = now_ns
            if not control or self._who(sample.writer).participant != control:
                self._count_flaw(sample.data)
            elif sample.data == self._content:  # repeated until the policy's next step
                self.command_ns = now_ns
            elif not self._count_flaw(sample.data):
                self._content = sample.data
                self.command, self.command_ns = self._decoder.decode(sample.data), now_ns
                self.damping = is_damping(self.command)

    def rivals(self, now_ns: int) -> tuple[str, ...]:
        """Programs beside control and us that write now."""
        return self._others(now_ns - WRITES_NS)

    def lingering(self, now_ns: int) -> tuple[str, ...]:
        """Those, and who wrote a moment ago."""
        return self._others(now_ns - LINGERS_NS)

    def _others(self, since_ns: int) -> tuple[str, ...]:
        found = []
        for writer, heard_ns in self._heard.items():
            if heard_ns >= since_ns:
                program = self._who(writer)
                if program.participant not in (self._own, self._control):
                    found.append(str(program))
        return tuple(sorted(set(found)))

    def _count_flaw(self, data: bytes) -> bool:
        flaw = self._decoder.flaw(data)
        self.not_finite += flaw is Flaw.NOT_FINITE
        return flaw is not None
