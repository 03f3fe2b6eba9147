"""Observes the wire itself: a stop counts only when it is seen there."""

import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.runtime.realtime import prefer_receivers, prefer_this_thread
from sim2real_deploy.safety.supervisor import is_damping
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.decoders import CommandDecoder, StateDecoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE

STACK = ("control", "safety")  # how the stack's writers call themselves
REMEMBERED = 30_000  # a minute at 500 Hz
LASTING_NS = 25_000_000  # of uninterrupted damping, for it to count


@dataclass(frozen=True, slots=True)
class SeenCommand:
    """One command on the wire."""

    ns: int  # monotonic, when it was taken
    damping: bool
    finite: bool


class WireWatch:
    """Reads both wire topics in its own thread; never writes."""

    def __init__(self, robot: RobotSpec, interface: str, domain: int) -> None:
        family = FAMILIES[robot.wire.family]
        self._participant = Participant(domain, interface, "fault campaign")
        self._commands = self._participant.reader(LOW_CMD, family.command)
        self._states = self._participant.reader(LOW_STATE, family.state)
        self._command_decoder, self._state_decoder = CommandDecoder(robot), StateDecoder(robot)
        self.commands: deque[SeenCommand] = deque(maxlen=REMEMBERED)
        self.states: deque[RobotState] = deque(maxlen=REMEMBERED // 4)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="wire watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._participant.close()

    def _watch(self) -> None:
        prefer_this_thread()
        prefer_receivers()  # or a crowd of callers would delay what is seen, not what is done
        while not self._stopping.is_set():
            self._commands.wait(0.02)
            for sample in self._commands.take():
                if self._participant.who(sample.writer).name not in STACK:
                    continue  # sport mode, or a rival: what they send is not our reaction
                command = self._command_decoder.decode(sample.data)
                values = (command.q, command.dq, command.torque, command.kp, command.kd)
                finite = bool(np.isfinite(values).all())
                self.commands.append(SeenCommand(sample.received_ns, is_damping(command), finite))
            for sample in self._states.take():
                if self._state_decoder.flaw(sample.data) is None:
                    self.states.append(self._state_decoder.decode(sample.data, sample.received_ns))

    def since(self, ns: int) -> list[SeenCommand]:
        return [seen for seen in tuple(self.commands) if seen.ns >= ns]

    def damped_at(self, since_ns: int, patience_s: float) -> int | None:
        """When lasting damping began; None if it did not within `patience_s`."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            seen = self.since(since_ns)
            driving = max((s.ns for s in seen if not s.damping), default=since_ns - 1)
            damped = [s.ns for s in seen if s.damping and s.ns > driving]
            if damped and damped[-1] - damped[0] > LASTING_NS:
                return damped[0]
            time.sleep(0.02)
        return None
