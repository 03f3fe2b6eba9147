"""What the rqt plugin says, decided without Qt or ROS."""

import math

import pytest

from sim2real_deploy.nodes.rqt_sim2real.model import (
    HUNG_S,
    NO_ANSWER_S,
    SHOWN_S,
    SILENT_S,
    Heard,
    History,
    Requests,
    StopWindow,
    Tone,
    Word,
    banner,
    hottest,
    lines,
)
from sim2real_deploy.robots.spec import Temperature

ESTOP = "/safety/estop"


def walking() -> Heard:
    return Heard(
        mode="walking",
        safety="all is well",
        safety_facts={"stop": "none", "may_start": "true", "stage": "indoor"},
        control_s=10.0,
        supervisor_s=10.0,
    )


def test_before_the_stack_is_up_it_says_so() -> None:
    said = banner(Heard(), False, ESTOP, 0.0)
    assert said.tone is Tone.BAD
    assert said.text == f"no stack: nobody offers {ESTOP}"


def test_a_stack_that_is_well() -> None:
    assert banner(walking(), True, ESTOP, 10.5).tone is Tone.GOOD


def test_what_was_well_a_moment_ago_is_not_well_now() -> None:
    heard = walking()
    late = 10.0 + SILENT_S + 0.1
    assert "silent" in banner(heard, True, ESTOP, late).text
    assert "gone" in banner(heard, False, ESTOP, 10.1).text
    heard.supervisor_s = late  # control alone is silent
    said = banner(heard, True, ESTOP, late)
    assert said.text.startswith("control")
    assert said.tone is Tone.BAD


def test_a_latched_stop_shows_in_banner_and_lines() -> None:
    heard = walking()
    heard.stopped, heard.safety = True, "estop: emergency stop was called"
    heard.safety_facts = {"stop": "estop", "may_start": "false", "stage": "indoor"}
    assert "latched until reset" in banner(heard, True, ESTOP, 10.0).text
    shown = lines(heard)
    assert shown["latch"].text == "estop, until reset"
    assert shown["latch"].tone is shown["safety"].tone is Tone.BAD
    assert shown["stage"].text == "indoor"


def test_nobody_commands_until_somebody_does() -> None:
    heard = walking()
    assert lines(heard)["commands"].text == "nobody"
    heard.lease = "teleop"
    assert lines(heard)["commands"].text == "teleop"
    assert lines(Heard())["commands"].text == ""


def test_reduced_torque_and_lost_states_are_warnings() -> None:
    heard = walking()
    heard.safety_facts = {**heard.safety_facts, "torque_fraction": "0.60"}
    heard.statistics = {"late ticks": "0", "states lost": "3"}
    shown = lines(heard)
    assert (shown["torque"].text, shown["torque"].tone) == ("60% of the limit", Tone.WARN)
    assert (shown["missed"].text, shown["missed"].tone) == (
        "0 late ticks, 3 states lost",
        Tone.WARN,
    )


def test_the_hottest_motor_by_this_robots_own_tiers() -> None:
    tiers = Temperature(warn=65.0, derate=75.0, sit=80.0, stop=90.0)
    assert hottest({}, tiers).text == ""
    assert hottest({"a": 30.0, "b": 66.0}, tiers).tone is Tone.WARN
    assert hottest({"a": 95.0, "b": 66.0}, tiers).text == "95 °C, a"


def test_a_request_that_cannot_be_made_names_the_service() -> None:
    requests = Requests()
    requests.cannot("estop", ESTOP, 0.0)
    said = requests.line(0.0)
    assert said.tone is Tone.BAD
    assert ESTOP in said.text
    assert "remote" in said.text


def test_an_answer_that_does_not_come_is_said() -> None:
    requests = Requests()
    requests.asked("estop", 5.0)
    assert requests.line(5.0 + NO_ANSWER_S).text == "estop: asked"
    assert "no answer" in requests.line(5.1 + NO_ANSWER_S).text
    assert "no answer" in requests.line(5.1 + 10 * SHOWN_S).text, "it never passes for old news"
    requests.answered("estop", True, "estop: emergency stop was called", 8.0)
    assert requests.line(8.0).tone is Tone.GOOD
    assert requests.line(8.1 + SHOWN_S).text == ""


def test_a_late_answer_to_something_else_does_not_count() -> None:
    requests = Requests()
    requests.asked("reset", 0.0)
    requests.asked("estop", 1.0)
    requests.answered("reset", True, "reset", 1.1)
    assert requests.line(1.2).text == "estop: asked"


def test_a_curve_keeps_its_span_and_its_place() -> None:
    history = History(("a", "b"), span_s=10.0)
    history.add(0.0, (1.0, -1.0))
    history.add(5.0, (0.5, math.nan))
    history.add(5.0, (0.5,))  # of another robot: not taken
    bounds = history.range(0.5)
    assert bounds == (-1.0, 1.0)
    assert history.curve(0, 10.0, bounds, (100.0, 40.0)) == [(0.0, 0.0), (50.0, 10.0)]
    assert len(history.curve(1, 10.0, bounds, (100.0, 40.0))) == 1, "not a number is not drawn"
    history.add(10.5, (0.0, 0.0))
    assert len(history.curve(0, 10.5, bounds, (100.0, 40.0))) == 2


def test_samples_that_come_too_fast_are_left_out() -> None:
    history = History(("a",), span_s=10.0, step_s=0.035)
    for i in range(100):
        history.add(i * 0.01, (1.0,))
    assert len(history.curve(0, 1.0, (0.0, 1.0), (1.0, 1.0))) == 25


@pytest.mark.parametrize("least", [0.5, 5.0])
def test_noise_is_not_blown_up(least: float) -> None:
    history = History(("a",), 10.0)
    history.add(0.0, (0.001,))
    assert history.range(least) == (-least, least)


def test_stops_own_program_is_relied_on_while_it_speaks() -> None:
    window = StopWindow()
    assert not window.lives(0.0)
    assert window.heard("window 4194310\n", 1.0) == (Word.WINDOW, "4194310")
    assert window.lives(1.0 + HUNG_S - 0.1)
    assert not window.lives(1.0 + HUNG_S)
    assert window.heard("alive \n", 9.0) == (Word.ALIVE, "")
    assert window.lives(9.5)


def test_a_line_that_it_never_says_is_no_sign_of_life() -> None:
    window = StopWindow()
    assert window.heard("Traceback (most recent call last):", 1.0)[0] is None
    assert not window.lives(1.0)
    done = window.heard("done all is damped now\n", 2.0)
    assert done == (Word.DONE, "all is damped now")
