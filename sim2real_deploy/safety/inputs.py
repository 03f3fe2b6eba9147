"""Inputs and outputs of the safety monitors in one cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, NamedTuple, Protocol

from sim2real_deploy.robots.state import JointCommand, RobotState
from sim2real_deploy.safety.chain import Report
from sim2real_deploy.wire.link import LinkCounters

CURRENT_S = 0.1  # a command on the wire counts as current for this long


class Reading(NamedTuple):
    """One measurement; `where` names the joint or program it concerns."""

    value: float
    where: str = ""


Readings = dict[str, Reading | None]  # None: there is nothing to measure yet


@dataclass(slots=True)
class Inputs:
    """Everything the supervisor observes in one cycle.

    Commands are attributed to their writer: `command` is control's own.
    """

    state: RobotState | None = None  # the newest one, None when none came since the last cycle
    counters: LinkCounters = field(default_factory=LinkCounters)
    report: Report | None = None  # control's last answer; None when there is no control
    control_silence_s: float = 0.0
    command: JointCommand | None = None  # the newest on the wire; None before the first
    command_damping: bool = False  # it only damps, and so did all others since the last cycle
    commands_between: tuple[JointCommand, ...] = ()  # older ones since then that did not damp
    command_age_s: float = inf
    command_not_finite: int = 0  # commands on the wire with NaN or infinity, since the start
    rivals: tuple[str, ...] = ()  # programs other than control and us that write rt/lowcmd now
    lingering: tuple[str, ...] = ()  # the same, within the last second
    sport_mode: bool = False  # the vendor's sport mode came on while control drives
    vendor_mode: bool = False  # sport mode is on: the writer on rt/lowcmd is the vendor's
    mode_silence_s: float | None = None  # since the motion switcher last answered; None: not asked
    recorder_silence_s: float | None = None  # None: no recording is required
    disk_free_gb: float | None = None
    foreign_simulator: bool = False  # it has no battery and no remote: their zeros say nothing
    unfit: str = ""  # why this computer is not fit for a real robot
    wall_ns: int = 0
    pressed: frozenset[str] = frozenset()  # "estop", "stop": called since the last cycle
    reset_asked: bool = False

    @property
    def driving(self) -> bool:
        """Control moves the robot, according to its report or to the wire."""
        if self.report is None:
            return False
        return not self.report.damping or (
            self.command_age_s < CURRENT_S and not self.command_damping
        )

    @property
    def leaves(self) -> bool:
        """Control shuts down, and the wire shows that its last command lets the robot rest."""
        if self.report is None or not self.report.leaving:
            return False
        return self.command is None or self.command_damping


class Monitor(Protocol):
    """Measures one part of the system; `MEASURES` names every reading it can give."""

    MEASURES: ClassVar[frozenset[str]]

    def measure(self, inputs: Inputs, now_ns: int) -> Mapping[str, Reading | None]:
        """The readings of this cycle; a missing or None reading is not judged."""


class Rate:
    """How much a counter grew within the last second."""

    WINDOW_NS = 1_000_000_000
    STEP_NS = 50_000_000  # resolution of the window's ends

    def __init__(self) -> None:
        self._marks: list[tuple[int, int]] = []

    def __call__(self, total: int, now_ns: int) -> float:
        marks = self._marks
        if not marks or now_ns - marks[-1][0] >= self.STEP_NS:
            marks.append((now_ns, total))
        while len(marks) > 1 and now_ns - marks[1][0] >= self.WINDOW_NS:
            del marks[0]
        return float(max(0, total - marks[0][1]))

    @property
    def since_ns(self) -> int:
        """When the window begins: the first call, or a second ago."""
        return self._marks[0][0]
