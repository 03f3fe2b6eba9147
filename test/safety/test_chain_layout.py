"""The chain's datagrams byte by byte, and its times: compiled loops read and write at fixed places,
and two programs must agree on both."""

import struct
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from sim2real_deploy.safety import chain
from sim2real_deploy.safety.chain import (
    CLEAR,
    UNHEARD,
    Answer,
    ControlSide,
    Heartbeat,
    Report,
    Stop,
    SupervisorSide,
    Verdict,
)

MS = 1_000_000
BEAT = Heartbeat(0, 0, 0, 0, 0, Stop.NONE, 0.0, False, "", "")
REPORT = Report("", "", 0, 0, False, False, 0, False, False, 0.0, 0.0)
ANSWER = Answer(0, 0, REPORT)
ALL_BITS = 2**64 - 1
(ALL_BYTES,) = struct.unpack("<f", b"\1\1\1\1")  # a number that fills its four bytes


def changed(before: bytes, after: bytes) -> set[int]:
    """Where two datagrams differ."""
    return {i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}


def places(at: int, size: int) -> set[int]:
    return set(range(at, at + size))


def test_compiled_loops_find_the_fields_of_a_heartbeat() -> None:
    before = BEAT.pack()
    assert len(before) == chain.HEARTBEAT_BYTES
    sequence = changed(before, replace(BEAT, sequence=ALL_BITS).pack())
    challenge = changed(before, replace(BEAT, challenge=ALL_BITS).pack())
    sent_ns = changed(before, replace(BEAT, sent_ns=ALL_BITS).pack())
    assert sequence == places(chain.SEQUENCE, 8)
    assert challenge == places(chain.CHALLENGE, 8)
    assert sent_ns == places(chain.SENT_NS, 8)
    assert set(chain.CHANGING) == sequence | challenge | sent_ns


def test_compiled_loops_find_the_fields_of_an_answer() -> None:
    def where(answer: Answer) -> set[int]:
        return changed(ANSWER.pack(), answer.pack())

    def told(**said: Any) -> set[int]:
        return where(replace(ANSWER, report=replace(REPORT, **said)))

    assert len(ANSWER.pack()) == chain.ANSWER_BYTES
    assert where(replace(ANSWER, sequence=ALL_BITS)) == places(chain.ANSWERS, 8)
    assert where(replace(ANSWER, response=ALL_BITS)) == places(chain.RESPONSE, 8)
    assert told(tick=ALL_BITS) == places(chain.TICK, 8)
    assert told(out_of_distribution=ALL_BYTES) == places(chain.SURPRISE, 4)
    assert told(command_age_s=ALL_BYTES) == places(chain.COMMAND_AGE, 4)
    assert told(adaptation_strain=ALL_BYTES) == places(chain.STRAIN, 4)


def test_each_field_has_bytes_of_its_own() -> None:
    beats = {
        name: changed(BEAT.pack(), replace(BEAT, **{name: value}).pack())
        for name, value in {
            **dict.fromkeys(("session", "sequence", "challenge", "resets", "sent_ns"), ALL_BITS),
            **dict.fromkeys(("may_start", "may_adapt"), True),
            **{"stop": Stop.ESTOP, "torque_fraction": ALL_BYTES},
            **{"reason": "r" * 160, "participant": "p" * 40},
        }.items()
    }
    sizes = {name: len(at) for name, at in beats.items()}
    assert sum(sizes.values()) == len(set().union(*beats.values())) == len(BEAT.pack()) - 4
    assert (sizes["torque_fraction"], sizes["reason"], sizes["participant"]) == (4, 160, 40)


def test_names_that_control_and_stages_use_arrive_whole() -> None:
    report = replace(REPORT, mode="m" * 16, stage="s" * 16, participant="p" * 40, pid=2**32 - 1)
    heard = Answer.unpack(replace(ANSWER, report=report).pack())
    assert heard is not None
    assert heard.report == report
    longer = replace(report, mode="m" * 17, stage="s" * 17, participant="p" * 41)
    assert replace(ANSWER, report=longer).pack() == replace(ANSWER, report=report).pack()


def test_before_the_first_heartbeat_there_is_none_to_repeat() -> None:
    assert ControlSide().datagram == b""


def test_both_messages_say_which_they_are_and_of_which_form() -> None:
    """A program of another version must not be understood by halves."""
    assert BEAT.pack()[:4] == b"HRT2"
    assert ANSWER.pack()[:4] == b"ANS3"


def test_a_heartbeat_may_be_one_period_ahead_and_80_ms_old() -> None:
    for age_ns, rejected in ((-10 * MS - 1, 1), (-10 * MS, 0), (80 * MS, 0), (80 * MS + 1, 1)):
        control = ControlSide()
        control.hear(replace(BEAT, sent_ns=1_000 * MS - age_ns).pack(), 1_000 * MS)
        assert control.rejected == rejected, age_ns


def test_a_supervisor_is_silent_after_80_ms() -> None:
    control = ControlSide()
    control.hear(replace(BEAT, sent_ns=MS).pack(), MS)
    assert control.verdict(81 * MS).healthy
    assert control.verdict(81 * MS + 1).stop is Stop.ESTOP


def test_a_look_counts_for_5_ms_at_most() -> None:
    supervisor = SupervisorSide(1, "s")
    supervisor.heartbeat(CLEAR, 0, 1, 0)
    supervisor.silence_s(0)
    assert supervisor.silence_s(1_000 * MS) == 0.005


def test_32_heartbeats_may_be_answered_and_the_one_before_may_not() -> None:
    for asked, rejected in ((32, 0), (33, 1)):
        supervisor, control = SupervisorSide(1, "s"), ControlSide()
        control.hear(supervisor.heartbeat(CLEAR, 0, 5, 0), 0)
        answer = control.answer(REPORT)
        assert answer is not None
        for _ in range(asked - 1):
            supervisor.heartbeat(CLEAR, 0, 6, 0)
        supervisor.hear(answer)
        assert supervisor.rejected == rejected, asked


def test_nothing_may_adapt_unless_it_is_said() -> None:
    assert not BEAT.may_adapt
    assert not UNHEARD.may_adapt
    assert (REPORT.adaptation_strain, REPORT.stage) == (0.0, "")
    assert Verdict(Stop.NONE, 1.0, True, True, "", may_adapt=True) == CLEAR


@pytest.mark.parametrize(
    ("message", "field"),
    [(CLEAR, "stop"), (BEAT, "stop"), (REPORT, "damping"), (ANSWER, "response")],
)
def test_what_was_said_stays_as_it_was(message: Any, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(message, field, None)
