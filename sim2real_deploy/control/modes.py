"""What the robot is doing, and the table of what it may do next.

A pure table: (mode, event) -> next mode, behind guards that each say in words why not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

from sim2real_deploy.safety.chain import UNHEARD, Verdict


class Mode(IntEnum):
    PASSIVE = 0  # nothing is sent: the wire was never ours
    DAMPING = 1
    STANDING_UP = 2
    STANDING = 3
    WALKING = 4
    SITTING_DOWN = 5
    SLOWING_DOWN = 6  # the policy brings the robot to rest; sitting down comes next
    RECOVERING = 7  # fallen, it rolls onto its belly; then it stands up
    EXCITING = 8  # hung up, every joint moved for identification

    @property
    def words(self) -> str:
        """The one spelling in topics, logs and reports: `standing_up`."""
        return self.name.lower()


class Event(Enum):
    """The first seven are what a person may ask for."""

    STAND = "stand"
    WALK = "walk"
    SIT = "sit"
    DAMP = "damp"
    RECOVER = "recover"
    EXCITE = "excite"
    SWITCH = "switch"  # to another policy; the mode stays
    DONE = "done"  # the movement of this mode has ended
    STOP = "stop"  # safety: sit, then damp
    ESTOP = "estop"  # safety, or a fault of our own: damp now


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asks for; SWITCH names a policy, or "" for the next one in the list."""

    event: Event
    policy: str = ""

    @property
    def words(self) -> str:
        return f"{self.event.value} {self.policy}".rstrip()


POLICY_MODES = (Mode.WALKING, Mode.SLOWING_DOWN)  # the policy moves the robot
IDLE_MODES = (Mode.PASSIVE, Mode.DAMPING)  # nothing does
REQUESTS = (
    *(Event.STAND, Event.WALK, Event.SIT, Event.DAMP),
    *(Event.RECOVER, Event.EXCITE, Event.SWITCH),
)


@dataclass(slots=True)
class Situation:
    """All that a guard may look at."""

    fresh: bool = False  # a state came lately
    upright: bool = False
    verdict: Verdict = UNHEARD  # the supervisor's, of this tick
    fault: str = ""  # our own, latched
    policy_checked: bool = False
    sport_released: bool = False
    other_writers: str = ""  # who, in words
    wished: str = ""  # a velocity that somebody commands already, and who
    can_get_up: bool = False  # it is known how this robot rolls over, and the stage allows it
    level: bool = False  # tilted so little that it is not about to fall
    limited: str = ""  # joints that a limit holds in this tick
    switching: bool = False  # control is passing from one policy to another


Guard = Callable[[Situation], str]  # "" when it may pass, else why not


def state_is_fresh(now: Situation) -> str:
    return "" if now.fresh else "no state from the robot"


def is_upright(now: Situation) -> str:
    return "" if now.upright else "the robot is not upright"


def supervisor_is_healthy(now: Situation) -> str:
    verdict = now.verdict
    return "" if verdict.healthy else verdict.reason or "the safety supervisor is not there"


def may_start(now: Situation) -> str:
    verdict = now.verdict
    return "" if verdict.may_start else verdict.reason or "the safety supervisor does not allow it"


def nothing_stops(now: Situation) -> str:
    if now.fault:
        return f"latched: {now.fault}"
    return f"stopped: {now.verdict.reason}" if now.verdict.stop else ""


def can_get_up(now: Situation) -> str:
    return "" if now.can_get_up else "this robot may not get up by itself at this stage"


def policy_is_checked(now: Situation) -> str:
    return "" if now.policy_checked else "no policy is loaded"


def sport_mode_is_released(now: Situation) -> str:
    return "" if now.sport_released else "the robot's own sport mode is not released"


def nobody_else_writes(now: Situation) -> str:
    return f"somebody else writes rt/lowcmd: {now.other_writers}" if now.other_writers else ""


def sticks_are_neutral(now: Situation) -> str:
    return f"{now.wished} already; let go of the command first" if now.wished else ""


def is_level(now: Situation) -> str:
    return "" if now.level else "the robot tilts too far"


def no_limit_acts(now: Situation) -> str:
    return f"a limit acts on {now.limited}; try again" if now.limited else ""


def nothing_passes_over(now: Situation) -> str:
    return "the last change of policy is still under way" if now.switching else ""


DRIVE: tuple[Guard, ...] = (
    nothing_stops,
    supervisor_is_healthy,
    state_is_fresh,
    sport_mode_is_released,
    nobody_else_writes,
)
MOVE: tuple[Guard, ...] = (*DRIVE, is_upright)
START: tuple[Guard, ...] = (*MOVE, may_start)
RECOVER: tuple[Guard, ...] = (*DRIVE, may_start, can_get_up)
WALK: tuple[Guard, ...] = (*MOVE, policy_is_checked, sticks_are_neutral)
SWITCH: tuple[Guard, ...] = (
    nothing_stops,
    supervisor_is_healthy,
    state_is_fresh,
    is_level,
    nothing_passes_over,
    no_limit_acts,
)
OURS: tuple[Guard, ...] = (sport_mode_is_released, nobody_else_writes)
FREE: tuple[Guard, ...] = ()

TRANSITIONS: dict[tuple[Mode, Event], tuple[Mode, tuple[Guard, ...]]] = {
    (Mode.PASSIVE, Event.STAND): (Mode.STANDING_UP, START),
    (Mode.DAMPING, Event.STAND): (Mode.STANDING_UP, START),
    (Mode.SITTING_DOWN, Event.STAND): (Mode.STANDING_UP, START),
    (Mode.WALKING, Event.STAND): (Mode.STANDING_UP, FREE),
    (Mode.STANDING, Event.WALK): (Mode.WALKING, WALK),
    (Mode.STANDING, Event.EXCITE): (Mode.EXCITING, MOVE),
    (Mode.EXCITING, Event.SIT): (Mode.SITTING_DOWN, FREE),
    (Mode.EXCITING, Event.STOP): (Mode.SITTING_DOWN, FREE),
    (Mode.EXCITING, Event.DONE): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING_UP, Event.SIT): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING, Event.SIT): (Mode.SITTING_DOWN, FREE),
    (Mode.WALKING, Event.SIT): (Mode.SLOWING_DOWN, FREE),
    (Mode.STANDING_UP, Event.STOP): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING, Event.STOP): (Mode.SITTING_DOWN, FREE),
    (Mode.WALKING, Event.STOP): (Mode.SLOWING_DOWN, FREE),
    (Mode.SLOWING_DOWN, Event.DONE): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING_UP, Event.DONE): (Mode.STANDING, FREE),
    (Mode.DAMPING, Event.RECOVER): (Mode.RECOVERING, RECOVER),
    (Mode.RECOVERING, Event.DONE): (Mode.STANDING_UP, START),
    (Mode.RECOVERING, Event.STOP): (Mode.DAMPING, FREE),
    (Mode.SITTING_DOWN, Event.DONE): (Mode.DAMPING, FREE),
    (Mode.WALKING, Event.SWITCH): (Mode.WALKING, SWITCH),
    # No policy moves the robot: the choice counts from the next walk on.
    **{
        (mode, Event.SWITCH): (mode, (policy_is_checked,))
        for mode in (Mode.PASSIVE, Mode.DAMPING, Mode.STANDING_UP, Mode.STANDING)
    },
    **{(mode, Event.DAMP): (Mode.DAMPING, FREE) for mode in Mode},
    **{(mode, Event.ESTOP): (Mode.DAMPING, FREE) for mode in Mode},
    # Damping sent into a wire that is somebody else's makes two writers: worse than none.
    (Mode.PASSIVE, Event.DAMP): (Mode.DAMPING, OURS),
    (Mode.PASSIVE, Event.ESTOP): (Mode.DAMPING, OURS),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of an event: the mode in force from now on, and why if it was refused."""

    accepted: bool
    mode: Mode
    words: str


def decide(mode: Mode, event: Event, now: Situation) -> Decision:
    row = TRANSITIONS.get((mode, event))
    if row is None:
        return Decision(False, mode, f"cannot {event.value} while {mode.words}")
    target, guards = row
    for guard in guards:
        if why_not := guard(now):
            return Decision(False, mode, f"cannot {event.value}: {why_not}")
    return Decision(True, target, target.words)
