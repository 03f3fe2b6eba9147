"""The transition table: every row, every guard, and nothing that is not in it."""

from dataclasses import replace

import pytest

from sim2real_deploy.control.modes import (
    TRANSITIONS,
    Mode,
    ModeEvent,
    Situation,
    decide,
)
from sim2real_deploy.safety.chain import CLEAR, UNHEARD, Stop
from sim2real_deploy.safety.obedience import GOES_ON

GOOD = Situation(
    fresh=True,
    upright=True,
    verdict=CLEAR,
    policy_checked=True,
    sport_released=True,
    can_get_up=True,
    level=True,
)
BAD = {
    "fresh": ({"fresh": False}, "no state"),
    "upright": ({"upright": False}, "not upright"),
    "healthy": ({"verdict": UNHEARD}, "supervisor"),
    "unhealthy": ({"verdict": replace(CLEAR, healthy=False)}, "supervisor is not there"),
    "stopped": ({"verdict": replace(CLEAR, stop=Stop.STOP, reason="battery")}, "stopped: battery"),
    "estopped": ({"verdict": replace(CLEAR, stop=Stop.ESTOP, reason="button")}, "stopped: button"),
    "fault": ({"fault": "policy"}, "latched: policy"),
    "sport": ({"sport_released": False}, "sport mode"),
    "writer": ({"other_writers": "somebody"}, "rt/lowcmd: somebody"),
}
OURS = {name: BAD[name] for name in ("sport", "writer")}
MAY_START = {
    "may_start": ({"verdict": replace(CLEAR, may_start=False, reason="motor hot")}, "motor hot")
}
DRIVE = {name: BAD[name] for name in BAD if name != "upright"}
GET_UP = {"get_up": ({"can_get_up": False}, "may not get up by itself")}
POLICY = {"policy": ({"policy_checked": False}, "no policy")}
NEUTRAL = {"neutral": ({"commanded": "teleop commands (1, 0, 0)"}, "let go of the command first")}

LEVEL = {"level": ({"level": False}, "tilts too far")}
CALM = {
    "switching": ({"switching": True}, "still under way"),
    "limited": ({"limited": "FL_calf_joint"}, "a limit acts on FL_calf_joint"),
}
UNWATCHED = ("fresh", "healthy", "unhealthy", "stopped", "estopped", "fault")

# Written out again, by hand, from the requirements: the table must say the same.
EXPECTED = {
    (Mode.PASSIVE, ModeEvent.STAND): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.PASSIVE, ModeEvent.DAMP): (Mode.DAMPING, OURS),
    (Mode.PASSIVE, ModeEvent.ESTOP): (Mode.DAMPING, OURS),
    (Mode.DAMPING, ModeEvent.STAND): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.DAMPING, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.DAMPING, ModeEvent.ESTOP): (Mode.DAMPING, {}),
    (Mode.DAMPING, ModeEvent.RESTART): (Mode.PASSIVE, {}),
    (Mode.DAMPING, ModeEvent.RECOVER): (Mode.RECOVERING, DRIVE | MAY_START | GET_UP),
    (Mode.RECOVERING, ModeEvent.DONE): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.RECOVERING, ModeEvent.STOP): (Mode.DAMPING, {}),
    (Mode.RECOVERING, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.RECOVERING, ModeEvent.ESTOP): (Mode.DAMPING, {}),
    (Mode.STANDING_UP, ModeEvent.SIT): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING_UP, ModeEvent.STOP): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING_UP, ModeEvent.DONE): (Mode.STANDING, {}),
    (Mode.STANDING_UP, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.STANDING_UP, ModeEvent.ESTOP): (Mode.DAMPING, {}),
    (Mode.STANDING, ModeEvent.WALK): (Mode.WALKING, BAD | POLICY | NEUTRAL),
    (Mode.STANDING, ModeEvent.EXCITE): (Mode.EXCITING, BAD),
    (Mode.EXCITING, ModeEvent.SIT): (Mode.SITTING_DOWN, {}),
    (Mode.EXCITING, ModeEvent.STOP): (Mode.SITTING_DOWN, {}),
    (Mode.EXCITING, ModeEvent.DONE): (Mode.SITTING_DOWN, {}),
    (Mode.EXCITING, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.EXCITING, ModeEvent.ESTOP): (Mode.DAMPING, {}),
    (Mode.STANDING, ModeEvent.SIT): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING, ModeEvent.STOP): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.STANDING, ModeEvent.ESTOP): (Mode.DAMPING, {}),
    (Mode.WALKING, ModeEvent.STAND): (Mode.SLOWING_DOWN, {}),
    (Mode.SLOWING_DOWN, ModeEvent.SLOWED): (Mode.STANDING_UP, BAD),
    (Mode.SLOWING_DOWN, ModeEvent.SIT): (Mode.SLOWING_DOWN, {}),
    (Mode.WALKING, ModeEvent.SIT): (Mode.SLOWING_DOWN, {}),
    (Mode.WALKING, ModeEvent.STOP): (Mode.SLOWING_DOWN, {}),
    (Mode.SLOWING_DOWN, ModeEvent.DONE): (Mode.SITTING_DOWN, {}),
    (Mode.SLOWING_DOWN, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.SLOWING_DOWN, ModeEvent.ESTOP): (Mode.DAMPING, {}),
    (Mode.WALKING, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.WALKING, ModeEvent.ESTOP): (Mode.DAMPING, {}),
    (Mode.WALKING, ModeEvent.SWITCH): (
        Mode.WALKING,
        {name: BAD[name] for name in UNWATCHED} | LEVEL | CALM,
    ),
    (Mode.PASSIVE, ModeEvent.SWITCH): (Mode.PASSIVE, POLICY),
    (Mode.DAMPING, ModeEvent.SWITCH): (Mode.DAMPING, POLICY),
    (Mode.STANDING_UP, ModeEvent.SWITCH): (Mode.STANDING_UP, POLICY),
    (Mode.STANDING, ModeEvent.SWITCH): (Mode.STANDING, POLICY),
    (Mode.SITTING_DOWN, ModeEvent.STAND): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.SITTING_DOWN, ModeEvent.DONE): (Mode.DAMPING, {}),
    (Mode.SITTING_DOWN, ModeEvent.DAMP): (Mode.DAMPING, {}),
    (Mode.SITTING_DOWN, ModeEvent.ESTOP): (Mode.DAMPING, {}),
}


def test_the_table_has_these_rows_and_no_other():
    assert TRANSITIONS.keys() == EXPECTED.keys()


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: f"{row[0].name}-{row[1].name}")
def test_a_row_leads_where_it_should(row):
    assert decide(*row, GOOD).mode is EXPECTED[row][0]
    assert decide(*row, GOOD).accepted


@pytest.mark.parametrize(
    ("row", "guard"),
    [(row, guard) for row in EXPECTED for guard in EXPECTED[row][1]],
    ids=lambda part: part if isinstance(part, str) else f"{part[0].name}-{part[1].name}",
)
def test_each_guard_of_a_row_holds_it_and_says_why(row, guard):
    changes, words = EXPECTED[row][1][guard]
    decision = decide(*row, replace(GOOD, **changes))
    assert not decision.accepted
    assert decision.mode is row[0]
    assert words in decision.words


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: f"{row[0].name}-{row[1].name}")
def test_a_row_has_no_guard_but_those(row):
    """What ends motion must pass in the worst situation."""
    worst = Situation(
        verdict=replace(UNHEARD, stop=Stop.ESTOP), fault="all", other_writers="everybody"
    )
    assert decide(*row, worst).accepted is not bool(EXPECTED[row][1])


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("event", ModeEvent)
def test_what_is_not_in_the_table_is_refused(mode, event):
    if (mode, event) not in EXPECTED:
        decision = decide(mode, event, GOOD)
        assert (decision.accepted, decision.mode) == (False, mode)
        assert f"cannot {event.value} while {mode.words}" in decision.words


def test_safety_and_control_name_the_modes_alike():
    """The supervisor knows by their names which modes do not end in damping."""
    ends = {Mode.PASSIVE, Mode.DAMPING, Mode.SITTING_DOWN, Mode.SLOWING_DOWN}
    assert {mode.words for mode in set(Mode) - ends} == GOES_ON
