"""What the rqt plugin shows, decided without Qt or ROS. Time is an argument, in seconds."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sim2real_deploy.robots.spec import Temperature

SILENT_S = 3.0  # control and supervisor both report once a second
NO_ANSWER_S = 1.0  # a stop is answered within milliseconds
SHOWN_S = 15.0  # how long an outcome is shown: an older one could be taken for current
REMOTE = "Use the robot's remote or its switch"
ALIVE_EVERY_S = 0.3  # how often STOP's program reports that it runs
HUNG_S = 2.0  # of silence, after which the panel shows its own button


class Tone(Enum):
    """How a line is coloured."""

    PLAIN = "plain"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(slots=True)
class Heard:
    """The stack's newest reports; "" or None before the first."""

    mode: str = ""
    safety: str = ""
    stopped: bool = False
    safety_facts: Mapping[str, str] = field(default_factory=dict)
    lease: str = ""
    temperatures: Mapping[str, float] = field(default_factory=dict)
    statistics: Mapping[str, str] = field(default_factory=dict)
    recording: str = ""
    control_s: float | None = None  # when control last reported
    supervisor_s: float | None = None  # when the safety supervisor last reported


def banner(heard: Heard, offered: bool, service: str, now_s: float) -> Line:
    """Whether there is a stack, and whether it may move."""
    if heard.supervisor_s is None and not offered:
        return Line(f"no stack: nobody offers {service}", Tone.BAD)
    if not offered:
        return Line(f"the stack is gone: nobody offers {service}. {REMOTE}", Tone.BAD)
    for name, last_s in (("safety supervisor", heard.supervisor_s), ("control", heard.control_s)):
        if last_s is None:
            return Line(f"waiting for the first report of {name}", Tone.WARN)
        if now_s - last_s > SILENT_S:
            return Line(f"{name} has been silent for {now_s - last_s:.0f} s. {REMOTE}", Tone.BAD)
    if heard.stopped:
        return Line(f"stopped and latched until reset: {heard.safety}", Tone.BAD)
    return Line(f"{heard.mode}: {heard.safety}", Tone.GOOD)


def lines(heard: Heard) -> dict[str, Line]:
    """Every named line of the panel."""
    facts, statistics = heard.safety_facts, heard.statistics
    latch = facts.get("stop", "")
    safety_tone = Tone.BAD if heard.stopped else Tone.GOOD if heard.safety else Tone.PLAIN
    may_start = facts.get("may_start") == "true"
    if not heard.stopped and heard.safety and not may_start:
        safety_tone = Tone.WARN
    return {
        "mode": Line(heard.mode),
        "stage": Line(facts.get("stage", "")),
        "safety": Line(heard.safety, safety_tone),
        "latch": Line(
            {"": "", "none": "not latched"}.get(latch, f"{latch}, until reset"),
            Tone.BAD if latch not in ("", "none") else Tone.PLAIN,
        ),
        "commands": Line(heard.lease or ("nobody" if heard.mode else "")),
        "torque": _torque(facts.get("torque_fraction", "")),
        "loop": Line(
            ", ".join(filter(None, (statistics.get("rate"), statistics.get("policy rate"))))
        ),
        "latency": Line(statistics.get("state to command p50/p99/max", "")),
        "missed": _count(statistics, ("late ticks", "states lost", "states rejected")),
        "recording": Line(heard.recording.rpartition("/")[2]),
    }


def _torque(fraction: str) -> Line:
    if not fraction:
        return Line("")
    reduced = float(fraction) < 1.0
    return Line(f"{float(fraction):.0%} of the limit", Tone.WARN if reduced else Tone.PLAIN)


def _count(statistics: Mapping[str, str], names: Sequence[str]) -> Line:
    found = {name: statistics[name] for name in names if name in statistics}
    bad = any(value != "0" for value in found.values())
    text = ", ".join(f"{value} {name}" for name, value in found.items())
    return Line(text, Tone.WARN if bad else Tone.PLAIN)


def hottest(temperatures: Mapping[str, float], tiers: Temperature) -> Line:
    if not temperatures:
        return Line("")
    name, value = max(temperatures.items(), key=lambda item: item[1])
    return Line(f"{value:.0f} °C, {name}", heat_tone(value, tiers))


def heat_tone(value: float, tiers: Temperature) -> Tone:
    return Tone.BAD if value >= tiers.stop else Tone.WARN if value >= tiers.warn else Tone.GOOD


class Requests:
    """The last request and its outcome: an answer, or none in time."""

    def __init__(self) -> None:
        self._name = ""
        self._since_s = 0.0
        self._pending = False
        self._line = Line("")

    def asked(self, name: str, now_s: float) -> None:
        self._name, self._since_s, self._pending = name, now_s, True
        self._line = Line(f"{name}: asked")

    def cannot(self, name: str, service: str, now_s: float) -> None:
        """Nobody offers the service, so nothing was called."""
        self._name, self._since_s, self._pending = name, now_s, False
        self._line = Line(f"{name}: no stack: nobody offers {service}. {REMOTE}", Tone.BAD)

    def answered(self, name: str, done: bool, words: str, now_s: float) -> None:
        if name == self._name:
            self._since_s, self._pending = now_s, False
            outcome = "done" if done else "refused"
            self._line = Line(f"{name}: {outcome}: {words}", Tone.GOOD if done else Tone.BAD)

    def line(self, now_s: float) -> Line:
        waited_s = now_s - self._since_s
        if self._pending and waited_s > NO_ANSWER_S:
            return Line(f"{self._name}: no answer for {waited_s:.0f} s. {REMOTE}", Tone.BAD)
        return Line("") if waited_s > SHOWN_S else self._line


class Word(Enum):
    """What STOP's program reports: the first word of a line."""

    WINDOW = "window"  # its number, to be embedded
    ALIVE = "alive"
    ASKED = "asked"
    CANNOT = "cannot"  # nobody offers the service: nothing was called
    DONE = "done"
    REFUSED = "refused"


class StopWindow:
    """Whether STOP's program works."""

    def __init__(self) -> None:
        self._heard_s: float | None = None

    def heard(self, line: str, now_s: float) -> tuple[Word | None, str]:
        """A line from it, as word and text; None for an unknown word."""
        word, _, text = line.strip().partition(" ")
        try:
            known = Word(word)
        except ValueError:
            return None, line.strip()
        self._heard_s = now_s
        return known, text

    def lives(self, now_s: float) -> bool:
        return self._heard_s is not None and now_s - self._heard_s < HUNG_S


class History:
    """The last seconds of some named curves, oldest first. Samples closer together than `step_s`
    are left out, because every point drawn delays the button that stops the robot."""

    def __init__(self, names: Sequence[str], span_s: float, step_s: float = 0.0) -> None:
        self.names = tuple(names)
        self.span_s = span_s
        self._step_s = step_s
        self._rows: deque[tuple[float, tuple[float, ...]]] = deque()

    def add(self, now_s: float, values: Sequence[float]) -> None:
        last_s = self._rows[-1][0] if self._rows else -math.inf
        if len(values) == len(self.names) and now_s - last_s >= self._step_s:
            self._rows.append((now_s, tuple(values)))
        while self._rows and self._rows[0][0] < now_s - self.span_s:
            self._rows.popleft()

    def range(self, least: float) -> tuple[float, float]:
        """Symmetric about zero and never narrower than `least`, so that noise looks like noise."""
        values = (v for _, row in self._rows for v in row if math.isfinite(v))
        most = max((abs(v) for v in values), default=0.0)
        return -max(most, least), max(most, least)

    def curve(
        self, index: int, now_s: float, bounds: tuple[float, float], size: tuple[float, float]
    ) -> list[tuple[float, float]]:
        """Points of one curve on a canvas: x to the right, y down; the newest at the right."""
        low, high = bounds
        width, height = size
        return [
            (width * (1.0 - (now_s - t) / self.span_s), height * (high - row[index]) / (high - low))
            for t, row in self._rows
            if math.isfinite(row[index])
        ]
