"""The heartbeat chain: both ends driven by hand, time as an argument."""

import math
from copy import copy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.safety.chain import (
    CLEAR,
    HEARTBEAT_PERIOD_NS,
    HEARTBEAT_TIMEOUT_NS,
    LONGEST_LOOK_NS,
    OUTSTANDING,
    Answer,
    ControlSide,
    Heartbeat,
    Report,
    Stop,
    SupervisorSide,
    Verdict,
    response_to,
)

MS = 1_000_000
REPORT = Report("walk", "c" * 36, 42, 7, False, False, 3, False, True, 1.5, 0.25)
ESTOP = Verdict(Stop.ESTOP, 0.5, False, True, "fell over")
SIT = Verdict(Stop.STOP, 1.0, False, True, "motor hot")
u64 = st.integers(0, 2**64 - 1)


def pair() -> tuple[ControlSide, SupervisorSide]:
    return ControlSide(), SupervisorSide(session=9, participant="s" * 36)


@settings(deadline=None)
@given(u64, u64, u64, u64, u64, st.sampled_from(Stop), st.floats(0, 1, width=32), st.booleans())
def test_a_heartbeat_survives_the_socket(
    session: int,
    sequence: int,
    challenge: int,
    resets: int,
    sent_ns: int,
    stop: Stop,
    fraction: float,
    may_start: bool,
) -> None:
    beat = Heartbeat(
        session, sequence, challenge, resets, sent_ns, stop, fraction, may_start, "why", "s" * 36
    )
    assert Heartbeat.unpack(beat.pack()) == beat


@settings(deadline=None)
@given(u64, u64, u64, st.floats(0, 1e6, width=32), st.booleans(), st.booleans(), st.booleans())
def test_an_answer_survives_the_socket(
    sequence: int, response: int, tick: int, age: float, damping: bool, leaving: bool, bad: bool
) -> None:
    report = Report("stand", "c" * 36, 123, tick, damping, leaving, 5, bad, not bad, age, math.inf)
    assert Answer.unpack(Answer(sequence, response, report).pack()) == Answer(
        sequence, response, report
    )


@pytest.mark.parametrize("allowed", [True, False])
def test_leave_to_adapt_and_the_strain_of_it_cross_the_chain(allowed: bool) -> None:
    supervisor, control = SupervisorSide(1, "s"), ControlSide()
    verdict = replace(CLEAR, may_adapt=allowed)
    control.hear(supervisor.heartbeat(verdict, 0, 7, 1000), 1000)
    assert control.verdict(1000).may_adapt is allowed
    report = Report("walking", "c", 1, 2, False, False, 0, False, False, 1.0, 0.0, 1.5, "tether")
    datagram = control.answer(report)
    assert datagram is not None
    supervisor.hear(datagram)
    assert supervisor.report == report
    silent = control.verdict(10_000_000_000)
    assert not silent.may_adapt


def test_long_words_are_cut_between_characters() -> None:
    beat = Heartbeat(1, 1, 1, 1, 1, Stop.NONE, 1.0, True, "ä" * 200, "")
    assert Heartbeat.unpack(beat.pack()) == replace(beat, reason="ä" * 80)
    for start in ("", "x"):  # whichever byte the end falls on
        words = start + "ä" * 200
        heard = Heartbeat.unpack(replace(beat, reason=words, participant=words).pack())
        answer = Answer.unpack(Answer(1, 1, replace(REPORT, mode=words, participant=words)).pack())
        assert heard is not None
        assert answer is not None
        cut = (heard.reason, heard.participant, answer.report.mode, answer.report.participant)
        assert all(text and words.startswith(text) for text in cut), cut


def test_words_arrive_to_the_letter_and_what_is_no_text_does_no_harm() -> None:
    beat = Heartbeat(1, 1, 1, 1, 1, Stop.NONE, 1.0, True, "MAX", "X")
    assert Heartbeat.unpack(beat.pack()) == beat
    heard = Heartbeat.unpack(beat.pack().replace(b"MAX", b"M\xffX"))
    assert heard is not None
    assert heard.reason == "M\ufffdX"


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_noise_is_no_message(noise: bytes) -> None:
    assert Heartbeat.unpack(noise) is None
    assert Answer.unpack(noise) is None


@pytest.mark.parametrize(("stop", "fraction"), [(3, 1.0), (0, 1.01), (0, -0.01), (0, math.nan)])
def test_an_insane_heartbeat_is_refused(stop: int, fraction: float) -> None:
    beat = Heartbeat(1, 1, 1, 1, 1, stop, fraction, True, "", "")  # type: ignore[arg-type]
    assert Heartbeat.unpack(beat.pack()) is None


def test_a_message_of_the_wrong_kind_or_length_is_refused() -> None:
    beat = Heartbeat(1, 1, 1, 1, 1, Stop.NONE, 1.0, True, "", "").pack()
    answer = Answer(1, 1, REPORT).pack()
    assert Heartbeat.unpack(b"XXXX" + beat[4:]) is None
    assert Heartbeat.unpack(beat + b"\0") is None
    assert Answer.unpack(b"XXXX" + answer[4:]) is None
    assert Answer.unpack(answer[:-1]) is None


def test_before_the_first_heartbeat_nothing_may_start_and_nothing_is_latched() -> None:
    control, supervisor = pair()
    first = control.verdict(0)
    assert (first.stop, first.may_start, first.healthy) == (Stop.NONE, False, False)
    assert first.reason == "no heartbeat from the supervisor yet"
    assert first.torque_fraction == 1.0
    assert control.answer(REPORT) is None
    assert control.supervisor == ""
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    assert control.verdict(0) == CLEAR
    assert control.supervisor == "s" * 36


def test_control_stops_itself_when_the_heartbeat_is_gone() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    control.answer(REPORT)
    assert control.verdict(HEARTBEAT_TIMEOUT_NS) == CLEAR
    gone = control.verdict(HEARTBEAT_TIMEOUT_NS + 1)
    assert (gone.stop, gone.may_start, gone.healthy) == (Stop.ESTOP, False, False)
    assert gone.reason == "supervisor silent for over 80 ms"
    assert HEARTBEAT_TIMEOUT_NS <= 90 * MS


@pytest.mark.parametrize("moving", [True, False])
def test_a_gap_is_latched_when_the_robot_moved_in_it(moving: bool) -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    control.answer(replace(REPORT, damping=not moving))
    assert control.verdict(100 * MS) == Verdict(
        Stop.ESTOP, 1.0, False, False, "supervisor silent for over 80 ms"
    )
    control.hear(supervisor.heartbeat(CLEAR, 0, 6, 200 * MS), 200 * MS)
    back = control.verdict(200 * MS)
    assert (back.stop, back.healthy) == (Stop.ESTOP if moving else Stop.NONE, True)
    assert back.may_start is not moving


def test_a_gap_that_was_latched_stays_so_whatever_the_clock_says() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    control.answer(replace(REPORT, damping=False))
    assert control.verdict(100 * MS).stop is Stop.ESTOP
    assert control.verdict(50 * MS).stop is Stop.ESTOP


def test_a_gap_counts_even_when_it_was_not_looked_at() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    control.answer(REPORT)
    control.hear(supervisor.heartbeat(CLEAR, 0, 6, 200 * MS), 200 * MS)
    assert control.verdict(200 * MS).stop is Stop.ESTOP


def test_silence_before_anything_was_reported_is_an_estop_too() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    assert control.verdict(200 * MS).stop is Stop.ESTOP
    control.hear(supervisor.heartbeat(CLEAR, 0, 6, 200 * MS), 200 * MS)
    assert control.verdict(200 * MS) == CLEAR, "nothing has moved: nothing is latched"


def test_what_was_left_in_the_socket_is_no_heartbeat() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), HEARTBEAT_TIMEOUT_NS + 1)
    assert control.verdict(HEARTBEAT_TIMEOUT_NS + 1).stop is Stop.NONE
    assert control.rejected == 1
    control.hear(supervisor.heartbeat(CLEAR, 0, 6, 0), HEARTBEAT_TIMEOUT_NS)
    assert control.verdict(HEARTBEAT_TIMEOUT_NS) == CLEAR


def test_orders_outlive_a_gap_in_which_nothing_moved() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(SIT, 0, 5, 0), 0)
    control.answer(replace(REPORT, damping=True))
    gone = control.verdict(200 * MS)
    assert (gone.stop, gone.reason) == (Stop.ESTOP, "supervisor silent for over 80 ms")
    control.hear(supervisor.heartbeat(CLEAR, 0, 6, 200 * MS), 200 * MS)
    assert control.verdict(200 * MS).reason == "motor hot"
    control.hear(supervisor.heartbeat(ESTOP, 0, 7, 210 * MS), 210 * MS)
    assert control.verdict(400 * MS).reason == "fell over"


def test_only_a_reset_in_the_same_session_clears_the_latch() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(ESTOP, 0, 5, 0), 0)
    control.hear(supervisor.heartbeat(CLEAR, 0, 6, MS), MS)
    assert control.verdict(MS) == Verdict(Stop.ESTOP, 1.0, False, True, "fell over")
    other = SupervisorSide(session=10, participant="t" * 36)  # a supervisor that was started anew
    control.hear(other.heartbeat(CLEAR, 4, 7, 2 * MS), 2 * MS)
    assert control.verdict(2 * MS).stop is Stop.ESTOP
    control.hear(other.heartbeat(CLEAR, 5, 8, 3 * MS), 3 * MS)
    assert control.verdict(3 * MS) == CLEAR


def test_a_reset_does_not_clear_what_is_still_ordered() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(ESTOP, 0, 5, 0), 0)
    control.hear(supervisor.heartbeat(SIT, 1, 6, MS), MS)
    assert control.verdict(MS).stop is Stop.STOP
    assert control.verdict(MS).reason == "motor hot"


def test_the_most_severe_stop_wins_and_keeps_its_reason() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(SIT, 0, 5, 0), 0)
    control.hear(supervisor.heartbeat(ESTOP, 0, 6, MS), MS)
    control.hear(supervisor.heartbeat(replace(ESTOP, reason="later"), 0, 7, 2 * MS), 2 * MS)
    control.hear(supervisor.heartbeat(SIT, 0, 8, 2 * MS), 2 * MS)
    assert control.verdict(2 * MS).stop is Stop.ESTOP
    assert control.verdict(2 * MS).reason == "fell over"
    assert control.verdict(2 * MS).torque_fraction == 1.0


def test_orders_reach_control_as_given() -> None:
    control, supervisor = pair()
    derated = Verdict(Stop.NONE, 0.75, False, True, "motor warm")
    control.hear(supervisor.heartbeat(derated, 0, 5, 0), 0)
    assert control.verdict(0) == derated


def test_old_and_future_heartbeats_are_counted_and_ignored() -> None:
    control, supervisor = pair()
    first = supervisor.heartbeat(ESTOP, 0, 5, 0)
    second = supervisor.heartbeat(CLEAR, 0, 6, MS)
    control.hear(second, MS)
    control.hear(first, MS)
    control.hear(second, MS)
    control.hear(b"noise", MS)
    assert control.verdict(MS) == CLEAR
    ahead = supervisor.heartbeat(ESTOP, 0, 7, MS + HEARTBEAT_PERIOD_NS + 1)
    control.hear(ahead, MS)
    assert control.verdict(MS) == CLEAR
    assert control.rejected == 4
    control.hear(supervisor.heartbeat(ESTOP, 0, 8, MS + HEARTBEAT_PERIOD_NS), MS)
    assert control.verdict(MS).stop is Stop.ESTOP
    assert control.rejected == 4


def test_each_heartbeat_is_answered_once() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    answer = control.answer(REPORT)
    assert answer is not None
    assert control.answer(REPORT) is None
    supervisor.hear(answer)
    assert supervisor.report == REPORT
    assert supervisor.rejected == 0


def test_a_farewell_is_heard_without_a_new_heartbeat_and_refreshes_nothing() -> None:
    control, supervisor = pair()
    leaving = replace(REPORT, leaving=True)
    assert control.answer(leaving) is None
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    answer = control.answer(REPORT)
    farewell = control.answer(leaving)
    assert answer is not None
    assert farewell is not None
    supervisor.hear(answer)
    supervisor.heartbeat(CLEAR, 0, 6, 10 * MS)
    supervisor.hear(farewell)
    assert supervisor.report == leaving
    assert supervisor.rejected == 0
    supervisor.forget()
    supervisor.hear(farewell)
    assert supervisor.report is None
    assert supervisor.rejected == 1


def test_a_farewell_to_a_heartbeat_that_was_not_answered_yet_counts() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    farewell = control.answer(replace(REPORT, leaving=True))
    assert farewell is not None
    supervisor.hear(farewell)
    assert supervisor.report is not None
    assert supervisor.silence_s(0) == 0


def watched(supervisor: SupervisorSide, start_ms: int, end_ms: int, step_ms: int = 2) -> float:
    """The silence at the end of cycles of so many milliseconds each."""
    return [supervisor.silence_s(t * MS) for t in range(start_ms, end_ms + 1, step_ms)][-1]


def test_silence_counts_while_an_answer_is_due_and_ends_with_it() -> None:
    control, supervisor = pair()
    assert watched(supervisor, 0, 10) == 0  # nothing was asked yet
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 10 * MS), 10 * MS)
    assert watched(supervisor, 10, 30) == pytest.approx(0.02)
    supervisor.heartbeat(CLEAR, 0, 6, 30 * MS)
    assert watched(supervisor, 30, 40) == pytest.approx(0.03)
    answer = control.answer(REPORT)
    assert answer is not None
    supervisor.hear(answer)
    assert supervisor.silence_s(40 * MS) == 0
    assert watched(supervisor, 40, 44) == pytest.approx(0.004)  # the second one is still due


def test_a_supervisor_that_was_held_up_itself_does_not_blame_control() -> None:
    _, supervisor = pair()
    supervisor.heartbeat(CLEAR, 0, 5, 0)
    supervisor.silence_s(0)
    assert supervisor.silence_s(200 * MS) == LONGEST_LOOK_NS / 1e9


def test_a_wedged_loop_cannot_be_kept_alive_by_repeating_answers() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    answer = control.answer(REPORT)
    assert answer is not None
    supervisor.hear(answer)
    supervisor.heartbeat(CLEAR, 0, 6, 10 * MS)
    watched(supervisor, 10, 20)
    supervisor.hear(answer)
    supervisor.hear(b"noise")
    guess = Answer(2, response_to(7), REPORT).pack()
    supervisor.hear(guess)
    assert supervisor.rejected == 3
    assert supervisor.silence_s(20 * MS) == pytest.approx(0.01)


def test_an_older_answer_after_a_newer_one_does_not_count() -> None:
    _, supervisor = pair()
    for sequence in range(2):
        supervisor.heartbeat(CLEAR, 0, sequence, sequence * MS)
    supervisor.hear(Answer(2, response_to(1), REPORT).pack())
    supervisor.hear(Answer(1, response_to(0), replace(REPORT, mode="sit")).pack())
    assert supervisor.report == REPORT
    assert supervisor.rejected == 1


def test_challenges_expire() -> None:
    _, supervisor = pair()
    for sequence in range(OUTSTANDING + 1):
        supervisor.heartbeat(CLEAR, 0, sequence, 0)
    supervisor.hear(Answer(1, response_to(0), REPORT).pack())
    assert supervisor.rejected == 1
    supervisor.hear(Answer(2, response_to(1), REPORT).pack())
    assert supervisor.rejected == 1


def test_a_forgotten_control_starts_with_a_clean_page() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
    answer = control.answer(REPORT)
    assert answer is not None
    supervisor.hear(answer)
    late = supervisor.heartbeat(CLEAR, 0, 6, 0)
    control.hear(late, 0)
    watched(supervisor, 0, 10)
    supervisor.forget()
    assert supervisor.report is None
    assert supervisor.silence_s(20 * MS) == 0
    answer = control.answer(REPORT)
    assert answer is not None
    supervisor.hear(answer)
    assert supervisor.report is None


def test_the_response_needs_the_whole_challenge() -> None:
    assert response_to(0) == 2**64 - 1
    assert response_to(0x0F) == 0xFFFF_FFFF_FFFF_FFF0


def test_a_verdict_holds_until_its_heartbeat_times_out_and_no_other_does() -> None:
    """What compiled ticks go by: 0 sends every tick to Python."""
    control, supervisor = pair()
    assert control.until_ns(control.verdict(0)) == 0, "nothing was heard"
    first = supervisor.heartbeat(CLEAR, 0, 1, 5 * MS)
    control.hear(first, 6 * MS)
    orders = control.verdict(6 * MS)
    assert control.until_ns(orders) == 5 * MS + HEARTBEAT_TIMEOUT_NS
    assert control.datagram == first
    assert control.until_ns(CLEAR) == 0, "not the supervisor's word"
    control.hear(b"noise", 7 * MS)
    assert control.datagram == first, "only a heartbeat that counts can be repeated"
    control.hear(supervisor.heartbeat(CLEAR, 0, 2, 8 * MS), 8 * MS)
    assert control.until_ns(orders) == 0, "others are in force"
    late = control.verdict(9 * MS + HEARTBEAT_TIMEOUT_NS)
    assert late.stop is Stop.ESTOP
    assert control.until_ns(late) == 0


@pytest.mark.parametrize("moving", [True, False])
def test_what_a_compiled_loop_answered_counts_as_heard(moving: bool) -> None:
    """From then on silence counts from its last heartbeat, which is answered already, and control
    moved the robot, or did not, as it last said."""
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 1, 0), 0)
    orders = control.verdict(0)
    first = supervisor.heartbeat(CLEAR, 0, 2, 20 * MS)
    last = supervisor.heartbeat(CLEAR, 0, 3, 30 * MS)
    control.hear(first, 20 * MS)
    control.catch_up(last, replace(REPORT, damping=not moving))
    assert control.datagram == last
    assert copy(control).answer(REPORT) is None, "a copy: an answer tells whether it moves, too"
    control.hear(first, 30 * MS)
    control.hear(last, 30 * MS)
    assert control.rejected == 2, "neither is news"
    assert control.verdict(30 * MS + HEARTBEAT_TIMEOUT_NS) == orders
    assert control.verdict(30 * MS + HEARTBEAT_TIMEOUT_NS + 1).stop is Stop.ESTOP
    control.hear(supervisor.heartbeat(CLEAR, 0, 4, 200 * MS), 200 * MS)
    assert (control.verdict(200 * MS).stop is Stop.ESTOP) is moving


def test_noise_that_a_compiled_loop_took_for_a_heartbeat_prolongs_nothing() -> None:
    control, supervisor = pair()
    control.hear(supervisor.heartbeat(CLEAR, 0, 1, 0), 0)
    control.catch_up(b"noise", REPORT)
    assert control.verdict(HEARTBEAT_TIMEOUT_NS + 1).stop is Stop.ESTOP
