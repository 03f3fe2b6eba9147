"""Plain values between node and page: what it shows and what it may ask for."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sim2real_deploy.robots.state import Floats

Velocity = tuple[float, float, float]  # forward m/s, left m/s, turning left rad/s
Answered = Callable[[bool, str], None]  # success, message
EVENTS_KEPT = 50


@dataclass(slots=True)
class Snapshot:
    """The newest values received; None or "" before the first."""

    q: Floats | None = None
    effort: Floats | None = None
    temperature: Floats | None = None  # degrees C
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)  # w, x, y, z
    measured: Velocity = (0.0, 0.0, 0.0)
    asked: Velocity = (0.0, 0.0, 0.0)
    mode: str = ""
    policy: str = ""  # the active one
    holder: str = ""  # who commands the velocity now
    safety: str = ""
    stopped: bool = False
    silent_s: float = 0.0  # since the last joint state
    statistics: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)  # diagnostics that are not ok, by name
    battery: str = ""
    recording: str = ""
    events: deque[str] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))


class Operator(Protocol):
    """What the page may ask of the stack."""

    def estop(self, answered: Answered) -> None:
        """Emergency stop; does not block."""

    def ask(self, service: str, answered: Answered) -> None:
        """One of REQUESTS, or the request for a policy."""

    def drive(self, velocity: Velocity) -> None:
        """Walk like this for a moment; repeated while a person holds a button, ended by zero."""


REQUESTS = ("stand", "walk", "sit", "damp", "recover", "reset")
