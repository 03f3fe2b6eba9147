"""Commands on rt/lowcmd by writer: control's own, kept apart from everybody else's.

Announced endpoints prove nothing: the vendor's sport mode keeps its writer open after it released
the motors. So programs are judged by the samples they send.
"""

from collections.abc import Callable, Iterable

from sim2real_deploy.robots import JointCommand, RobotSpec
from sim2real_deploy.safety.supervisor import is_damping
from sim2real_deploy.wire.channels import Sample
from sim2real_deploy.wire.decoders import CommandDecoder, Flaw
from sim2real_deploy.wire.link import Writer

WRITES_NS = 100_000_000  # another program's sample counts as a conflict for this long
LINGERS_NS = 1_000_000_000  # and prevents standing up for this long


class CommandWatch:
    """The public fields describe control's own commands; empty until control is known. Several may
    come between two looks, and none of them goes unjudged."""

    def __init__(self, robot: RobotSpec, who: Callable[[int], Writer], own: str) -> None:
        self.command: JointCommand | None = None  # the newest valid one
        self.command_ns = 0
        self.drove: tuple[JointCommand, ...] = ()  # older ones of the last look that did not damp
        self.damping = False  # the last look saw nothing else
        self.not_finite = 0  # commands with NaN or infinity, by any writer
        self._decoder = CommandDecoder(robot)
        self._who, self._own, self._control = who, own, ""
        self._content, self._rests = b"", False  # of the newest: its bytes, and that it damps
        self._heard: dict[int, int] = {}  # writer -> time of its last sample

    def see(self, samples: Iterable[Sample[bytes]], control: str, now_ns: int) -> None:
        """Process new samples; `control` is its participant, or "" if unknown."""
        if control != self._control:
            self._control, self._content = control, b""
            self.command, self.command_ns, self._rests = None, 0, False
        drove: list[JointCommand] = []
        for sample in samples:
            self._heard[sample.writer] = now_ns
            if not control or self._who(sample.writer).participant != control:
                self._count_flaw(sample.data)
            elif sample.data == self._content:  # repeated until the policy's next step
                self.command_ns = now_ns
            elif not self._count_flaw(sample.data):
                if self.command is not None and self.command_ns == now_ns and not self._rests:
                    drove.append(self.command)
                self._content = sample.data
                self.command, self.command_ns = self._decoder.decode(sample.data), now_ns
                self._rests = is_damping(self.command)
        self.drove, self.damping = tuple(drove), self._rests and not drove

    def rivals(self, now_ns: int) -> tuple[str, ...]:
        """Other programs that write now."""
        return self._others(now_ns - WRITES_NS)

    def lingering(self, now_ns: int) -> tuple[str, ...]:
        """Other programs that wrote within the last second."""
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
