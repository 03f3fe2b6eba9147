"""The transition table: every row, every guard, and nothing that is not in it."""

from dataclasses import replace

import pytest

from sim2real_deploy.control.modes import (
    TRANSITIONS,
    Event,
    Mode,
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
NEUTRAL = {"neutral": ({"wished": "teleop commands (1, 0, 0)"}, "let go of the command first")}

LEVEL = {"level": ({"level": False}, "tilts too far")}
CALM = {
    "switching": ({"switching": True}, "still under way"),
    "limited": ({"limited": "FL_calf_joint"}, "a limit acts on FL_calf_joint"),
}
UNWATCHED = ("fresh", "healthy", "unhealthy", "stopped", "estopped", "fault")

# Written out again, by hand, from the requirements: the table must say the same.
EXPECTED = {
    (Mode.PASSIVE, Event.STAND): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.PASSIVE, Event.DAMP): (Mode.DAMPING, OURS),
    (Mode.PASSIVE, Event.ESTOP): (Mode.DAMPING, OURS),
    (Mode.DAMPING, Event.STAND): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.DAMPING, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.DAMPING, Event.ESTOP): (Mode.DAMPING, {}),
    (Mode.DAMPING, Event.RECOVER): (Mode.RECOVERING, DRIVE | MAY_START | GET_UP),
    (Mode.RECOVERING, Event.DONE): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.RECOVERING, Event.STOP): (Mode.DAMPING, {}),
    (Mode.RECOVERING, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.RECOVERING, Event.ESTOP): (Mode.DAMPING, {}),
    (Mode.STANDING_UP, Event.SIT): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING_UP, Event.STOP): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING_UP, Event.DONE): (Mode.STANDING, {}),
    (Mode.STANDING_UP, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.STANDING_UP, Event.ESTOP): (Mode.DAMPING, {}),
    (Mode.STANDING, Event.WALK): (Mode.WALKING, BAD | POLICY | NEUTRAL),
    (Mode.STANDING, Event.EXCITE): (Mode.EXCITING, BAD),
    (Mode.EXCITING, Event.SIT): (Mode.SITTING_DOWN, {}),
    (Mode.EXCITING, Event.STOP): (Mode.SITTING_DOWN, {}),
    (Mode.EXCITING, Event.DONE): (Mode.SITTING_DOWN, {}),
    (Mode.EXCITING, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.EXCITING, Event.ESTOP): (Mode.DAMPING, {}),
    (Mode.STANDING, Event.SIT): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING, Event.STOP): (Mode.SITTING_DOWN, {}),
    (Mode.STANDING, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.STANDING, Event.ESTOP): (Mode.DAMPING, {}),
    (Mode.WALKING, Event.STAND): (Mode.STANDING_UP, {}),
    (Mode.WALKING, Event.SIT): (Mode.SLOWING_DOWN, {}),
    (Mode.WALKING, Event.STOP): (Mode.SLOWING_DOWN, {}),
    (Mode.SLOWING_DOWN, Event.DONE): (Mode.SITTING_DOWN, {}),
    (Mode.SLOWING_DOWN, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.SLOWING_DOWN, Event.ESTOP): (Mode.DAMPING, {}),
    (Mode.WALKING, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.WALKING, Event.ESTOP): (Mode.DAMPING, {}),
    (Mode.WALKING, Event.SWITCH): (
        Mode.WALKING,
        {name: BAD[name] for name in UNWATCHED} | LEVEL | CALM,
    ),
    (Mode.PASSIVE, Event.SWITCH): (Mode.PASSIVE, POLICY),
    (Mode.DAMPING, Event.SWITCH): (Mode.DAMPING, POLICY),
    (Mode.STANDING_UP, Event.SWITCH): (Mode.STANDING_UP, POLICY),
    (Mode.STANDING, Event.SWITCH): (Mode.STANDING, POLICY),
    (Mode.SITTING_DOWN, Event.STAND): (Mode.STANDING_UP, BAD | MAY_START),
    (Mode.SITTING_DOWN, Event.DONE): (Mode.DAMPING, {}),
    (Mode.SITTING_DOWN, Event.DAMP): (Mode.DAMPING, {}),
    (Mode.SITTING_DOWN, Event.ESTOP): (Mode.DAMPING, {}),
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
@pytest.mark.parametrize("event", Event)
def test_what_is_not_in_the_table_is_refused(mode, event):
    if (mode, event) not in EXPECTED:
        decision = decide(mode, event, GOOD)
        assert (decision.accepted, decision.mode) == (False, mode)
        assert f"cannot {event.value} while {mode.words}" in decision.words


def test_safety_and_control_name_the_modes_alike():
    """The supervisor knows by their names which modes do not end in damping."""
    ends = {Mode.PASSIVE, Mode.DAMPING, Mode.SITTING_DOWN, Mode.SLOWING_DOWN}
    assert {mode.words for mode in set(Mode) - ends} == GOES_ON
