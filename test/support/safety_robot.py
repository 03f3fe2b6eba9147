"""A robot on the wire for the safety tests: states out at 500 Hz, and what it was told, when."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from sim2real_deploy.runtime.realtime import prefer_this_thread
from sim2real_deploy.safety.supervisor import is_damping
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.decoders import CommandDecoder
from sim2real_deploy.wire.encoders import StateEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE
from support.safety_world import GO2, healthy_state


@dataclass
class WireRobot:
    domain: int
    changes: dict[str, Any] = field(default_factory=dict)  # what is wrong with its state
    silent: bool = False
    commands: list[tuple[int, bool]] = field(default_factory=list)  # when, whether damping

    def __post_init__(self) -> None:
        family = FAMILIES["go"]
        self._participant = Participant(self.domain, "lo", "robot")
        self._states = self._participant.writer(LOW_STATE, family.state)
        self._commands = self._participant.reader(LOW_CMD, family.command)
        self._encoder, self._decoder = StateEncoder(GO2), CommandDecoder(GO2)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._speak, self._listen)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._participant.close()

    def _speak(self) -> None:
        prefer_this_thread()
        due = time.monotonic()
        while not self._stopping.is_set():
            due += 0.002
            time.sleep(max(0.0, due - time.monotonic()))
            if not self.silent:
                state = healthy_state(time.monotonic_ns(), **self.changes)
                self._states.write(self._encoder.encode(state))

    def _listen(self) -> None:
        prefer_this_thread()
        while not self._stopping.is_set():
            self._commands.wait(0.01)
            for sample in self._commands.take():
                damping = is_damping(self._decoder.decode(sample.data))
                self.commands.append((sample.received_ns, damping))

    def damped_after(self, since_ns: int, within_s: float) -> float:
        """Seconds from then to the first damping, with nothing but damping after it."""
        time.sleep(max(0.0, within_s - (time.monotonic_ns() - since_ns) / 1e9))
        after = [(when, damping) for when, damping in self.commands if when >= since_ns]
        driven = [when for when, damping in after if not damping]
        damped = [w for w, damping in after if damping and w > max(driven, default=since_ns)]
        assert damped, f"no damping within {within_s} s; {len(driven)} commands that drive"
        return (damped[0] - since_ns) / 1e9
