"""Heartbeats in compiled loops against Python's end of the chain: the same ones are taken as new,
and the same answer is given."""

import socket
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.compiled import AVAILABLE, unlocked
from sim2real_deploy.control import supervision
from sim2real_deploy.control.supervision import (
    ANSWERED,
    SOCKET,
    UNTIL_NS,
    Orders,
    answer,
    note_surprise,
    repeats_orders,
)
from sim2real_deploy.safety import chain
from sim2real_deploy.safety.chain import (
    HEARTBEAT_TIMEOUT_NS,
    Answer,
    ControlSide,
    Heartbeat,
    Report,
    Stop,
)

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="numba is not installed")
NOW_NS = 10**12
FIRST = Heartbeat(
    7, 100, 1, 3, NOW_NS - 5_000_000, Stop.NONE, 1.0, True, "all is well", "supervisor", True
)
REPORT = Report("walking", "control", 42, 0, False, False, 3, False, False, 0.5, 0.1, 0.0, "indoor")
anew = unlocked(supervision.__name__, chain.__name__)  # compiled again when one of them changes
hear = anew(lambda orders, now_ns: repeats_orders(orders, now_ns))
reply = anew(lambda orders, tick, age_s: answer(orders, tick, age_s))
surprised = anew(lambda orders, surprise: note_surprise(orders, surprise))

later = st.builds(
    lambda step, challenge, age_ns: replace(
        FIRST, sequence=100 + step, challenge=challenge, sent_ns=NOW_NS - age_ns
    ),
    st.integers(-2, 4),
    st.integers(0, 2**64 - 1),
    st.sampled_from([-(10**10), -9_000_000, 0, 10**6, 79_000_000, 81_000_000, 10**10]),
)
other = st.sampled_from(
    [
        {},
        {},
        {},
        {"stop": Stop.ESTOP},
        {"torque_fraction": 0.5},
        {"session": 8},
        {"resets": 4},
        {"may_adapt": False},
        {"reason": "hot"},
    ]
)
beats = st.lists(st.builds(lambda beat, change: replace(beat, **change), later, other), max_size=4)


def ends():
    """Orders after the first heartbeat, the supervisor's socket, and Python's side of the chain."""
    supervisor, control = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    for end in (supervisor, control):
        end.bind("")  # a name of the kernel's choice
        end.setblocking(False)
    name = supervisor.getsockname()
    orders = Orders.nobodys(np.uint16(socket.AF_UNIX).tobytes() + name)
    orders.memo[SOCKET] = control.fileno()
    orders.repeated.data[:] = FIRST.pack()
    orders.answer.data[:] = Answer(0, 0, REPORT).pack()
    side = ControlSide()
    side.hear(FIRST.pack(), NOW_NS)
    side.answer(REPORT)
    return orders, supervisor, control, side


@settings(max_examples=300, deadline=None)
@given(beats)
def test_orders_are_repeated_only_if_pythons_side_takes_every_heartbeat_and_orders_the_same(sent):
    orders, supervisor, control, side = ends()
    before = side.verdict(NOW_NS)
    with supervisor, control:
        for beat in sent:
            supervisor.sendto(beat.pack(), control.getsockname())
        plain = hear(orders, NOW_NS)
        for beat in sent:
            side.hear(beat.pack(), NOW_NS)
        assert [size > 0 for size in orders.sizes[: len(sent)]] == [True] * len(sent)
        if not plain:
            return
        assert side.rejected == 0
        assert side.verdict(NOW_NS) == before
        surprised(orders, 1.25)
        assert reply(orders, 77, 0.2)
        expected = side.answer(
            replace(REPORT, tick=77, out_of_distribution=1.25, command_age_s=0.2)
        )
        try:
            answered = supervisor.recv(4096)
        except BlockingIOError:
            answered = None
        assert answered == expected
        assert bool(orders.memo[ANSWERED]) == bool(sent)
        newest = [FIRST, *sent][-1]
        assert orders.repeated.tobytes() == newest.pack()
        assert not orders.sizes.any()
        if sent:
            assert orders.memo[UNTIL_NS] == newest.sent_ns + HEARTBEAT_TIMEOUT_NS


def test_a_fresh_heartbeat_with_the_same_orders_is_plain():
    orders, supervisor, control, _ = ends()
    with supervisor, control:
        beat = replace(FIRST, sequence=101, sent_ns=NOW_NS - 1000, challenge=2**64 - 1)
        supervisor.sendto(beat.pack(), control.getsockname())
        assert hear(orders, NOW_NS)


@pytest.mark.parametrize("datagram", [b"", b"HRT2", FIRST.pack() + b"\0", bytes(4096)])
def test_other_datagrams_are_left_to_python(datagram):
    orders, supervisor, control, _ = ends()
    with supervisor, control:
        supervisor.sendto(datagram, control.getsockname())
        assert not hear(orders, NOW_NS)


def test_what_cannot_be_sent_is_left_to_python():
    orders, supervisor, control, _ = ends()
    with control:
        beat = replace(FIRST, sequence=101, sent_ns=NOW_NS)
        supervisor.sendto(beat.pack(), control.getsockname())
        assert hear(orders, NOW_NS)
        supervisor.close()
        assert not reply(orders, 77, 0.2)
        assert orders.sizes[0]
        assert not orders.memo[ANSWERED]
        assert orders.repeated.tobytes() == FIRST.pack()


def test_python_goes_on_from_what_was_answered():
    side, beat = ControlSide(), replace(FIRST, sequence=105, sent_ns=NOW_NS)
    side.hear(FIRST.pack(), NOW_NS)
    orders = side.verdict(NOW_NS)
    side.catch_up(beat.pack(), REPORT)
    assert side.answer(REPORT) is None
    assert side.verdict(NOW_NS + HEARTBEAT_TIMEOUT_NS) is orders
    side.hear(replace(beat, sequence=104).pack(), NOW_NS)
    assert side.rejected == 1
    stopped = side.verdict(NOW_NS + HEARTBEAT_TIMEOUT_NS + 1)
    assert stopped.stop is Stop.ESTOP
    side.hear(replace(beat, sequence=106, sent_ns=NOW_NS + 10**9).pack(), NOW_NS + 10**9)
    assert side.verdict(NOW_NS + 10**9).stop is Stop.ESTOP, "it was walking: latched"
