"""The robot's modes, and the table of transitions between them.

A pure table: (mode, event) -> next mode, behind guards that each give the reason of a refusal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

from sim2real_deploy.safety.chain import UNHEARD, Verdict


class Mode(IntEnum):
    PASSIVE = 0  # nothing is sent: control has not claimed the wire yet
    DAMPING = 1
    STANDING_UP = 2
    STANDING = 3
    WALKING = 4
    SITTING_DOWN = 5
    SLOWING_DOWN = 6  # the policy brings the robot to rest; it sits down next, or stands
    RECOVERING = 7  # after a fall it rolls onto its belly; it stands up next
    EXCITING = 8  # hoisted; every joint is moved for identification

    @property
    def words(self) -> str:
        """Its spelling in topics, logs and reports: `standing_up`."""
        return self.name.lower()


class ModeEvent(Enum):
    """What can change the mode; the first seven are a person's requests."""

    STAND = "stand"
    WALK = "walk"
    SIT = "sit"
    DAMP = "damp"
    RECOVER = "recover"
    EXCITE = "excite"
    SWITCH = "switch"  # to another policy; the mode stays
    DONE = "done"  # the mode's movement has ended
    SLOWED = "slowed"  # it has come to rest, to stand
    STOP = "stop"  # the supervisor: sit, then damp
    ESTOP = "estop"  # the supervisor, or a fault in control: damp now
    RESTART = "restart"  # the robot, damped, was away: it is its own sport mode's again


@dataclass(frozen=True, slots=True)
class ModeRequest:
    """A person's request; SWITCH names a policy, or "" for the next one in the list."""

    event: ModeEvent
    policy: str = ""

    @property
    def words(self) -> str:
        return f"{self.event.value} {self.policy}".rstrip()


POLICY_MODES = (Mode.WALKING, Mode.SLOWING_DOWN)  # the policy moves the robot
IDLE_MODES = (Mode.PASSIVE, Mode.DAMPING)  # nothing moves it
REQUESTS = (
    *(ModeEvent.STAND, ModeEvent.WALK, ModeEvent.SIT, ModeEvent.DAMP),
    *(ModeEvent.RECOVER, ModeEvent.EXCITE, ModeEvent.SWITCH),
)


@dataclass(slots=True)
class Situation:
    """What the guards look at."""

    fresh: bool = False  # the robot's state is recent
    upright: bool = False
    verdict: Verdict = UNHEARD  # the supervisor's, for this tick
    fault: str = ""  # control's own, latched
    policy_checked: bool = False
    sport_released: bool = False
    other_writers: str = ""  # of rt/lowcmd, by name
    commanded: str = ""  # the velocity that is commanded now, and by whom
    can_get_up: bool = False  # its config has a `get_up` motion, and the stage allows it
    level: bool = False  # not tilted so far that it is about to fall
    limited: str = ""  # joints on which a limit acts in this tick
    switching: bool = False  # a hand-over to a policy is in progress


Guard = Callable[[Situation], str]  # "" if the transition is allowed, else why not


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
    return f"{now.commanded} already; let go of the command first" if now.commanded else ""


def is_level(now: Situation) -> str:
    return "" if now.level else "the robot tilts too far"


def no_limit_acts(now: Situation) -> str:
    return f"a limit acts on {now.limited}; try again" if now.limited else ""


def no_hand_over(now: Situation) -> str:
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
    no_hand_over,
    no_limit_acts,
)
OURS: tuple[Guard, ...] = (sport_mode_is_released, nobody_else_writes)
FREE: tuple[Guard, ...] = ()

TRANSITIONS: dict[tuple[Mode, ModeEvent], tuple[Mode, tuple[Guard, ...]]] = {
    (Mode.PASSIVE, ModeEvent.STAND): (Mode.STANDING_UP, START),
    (Mode.DAMPING, ModeEvent.STAND): (Mode.STANDING_UP, START),
    (Mode.SITTING_DOWN, ModeEvent.STAND): (Mode.STANDING_UP, START),
    (Mode.WALKING, ModeEvent.STAND): (Mode.SLOWING_DOWN, FREE),  # at speed it would fall
    (Mode.SLOWING_DOWN, ModeEvent.SLOWED): (Mode.STANDING_UP, MOVE),
    (Mode.SLOWING_DOWN, ModeEvent.SIT): (Mode.SLOWING_DOWN, FREE),
    (Mode.STANDING, ModeEvent.WALK): (Mode.WALKING, WALK),
    (Mode.STANDING, ModeEvent.EXCITE): (Mode.EXCITING, MOVE),
    (Mode.EXCITING, ModeEvent.SIT): (Mode.SITTING_DOWN, FREE),
    (Mode.EXCITING, ModeEvent.STOP): (Mode.SITTING_DOWN, FREE),
    (Mode.EXCITING, ModeEvent.DONE): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING_UP, ModeEvent.SIT): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING, ModeEvent.SIT): (Mode.SITTING_DOWN, FREE),
    (Mode.WALKING, ModeEvent.SIT): (Mode.SLOWING_DOWN, FREE),
    (Mode.STANDING_UP, ModeEvent.STOP): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING, ModeEvent.STOP): (Mode.SITTING_DOWN, FREE),
    (Mode.WALKING, ModeEvent.STOP): (Mode.SLOWING_DOWN, FREE),
    (Mode.SLOWING_DOWN, ModeEvent.DONE): (Mode.SITTING_DOWN, FREE),
    (Mode.STANDING_UP, ModeEvent.DONE): (Mode.STANDING, FREE),
    (Mode.DAMPING, ModeEvent.RECOVER): (Mode.RECOVERING, RECOVER),
    (Mode.RECOVERING, ModeEvent.DONE): (Mode.STANDING_UP, START),
    (Mode.RECOVERING, ModeEvent.STOP): (Mode.DAMPING, FREE),
    (Mode.SITTING_DOWN, ModeEvent.DONE): (Mode.DAMPING, FREE),
    (Mode.WALKING, ModeEvent.SWITCH): (Mode.WALKING, SWITCH),
    # No policy moves the robot: the choice applies from the next walk on.
    **{
        (mode, ModeEvent.SWITCH): (mode, (policy_is_checked,))
        for mode in (Mode.PASSIVE, Mode.DAMPING, Mode.STANDING_UP, Mode.STANDING)
    },
    **{(mode, ModeEvent.DAMP): (Mode.DAMPING, FREE) for mode in Mode},
    **{(mode, ModeEvent.ESTOP): (Mode.DAMPING, FREE) for mode in Mode},
    (Mode.DAMPING, ModeEvent.RESTART): (Mode.PASSIVE, FREE),
    # Damping sent while somebody else commands makes two writers, which is worse than none.
    (Mode.PASSIVE, ModeEvent.DAMP): (Mode.DAMPING, OURS),
    (Mode.PASSIVE, ModeEvent.ESTOP): (Mode.DAMPING, OURS),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of an event: the mode in force from now on; why, if it was refused."""

    accepted: bool
    mode: Mode
    words: str


def decide(mode: Mode, event: ModeEvent, now: Situation) -> Decision:
    row = TRANSITIONS.get((mode, event))
    if row is None:
        return Decision(False, mode, f"cannot {event.value} while {mode.words}")
    target, guards = row
    for guard in guards:
        if why_not := guard(now):
            return Decision(False, mode, f"cannot {event.value}: {why_not}")
    return Decision(True, target, target.words)
