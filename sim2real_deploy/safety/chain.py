"""The chain between the supervisor and control: heartbeats with a challenge, and answers.

Two watchers that do not trust each other. The supervisor sends a `Heartbeat` with a fresh random
challenge and its orders; control's own loop must answer it, so a wedged loop cannot stay alive
through some other thread. Control stops itself when the heartbeat is gone; the supervisor takes
the wire over when the answers are. Both sides are pure: datagrams and the time are arguments.

Control, once per tick:
    for datagram in channel.receive(): side.hear(datagram, now_ns)
    verdict = side.verdict(now_ns)
    ...
    if (datagram := side.answer(report)) is not None: channel.send(datagram)
"""

import struct
from collections import OrderedDict
from dataclasses import dataclass
from enum import IntEnum

HEARTBEAT_PERIOD_NS = 10_000_000
HEARTBEAT_TIMEOUT_NS = 80_000_000  # control damps on the wire within 100 ms of the last one
OUTSTANDING = 32  # challenges that may still be answered
LONGEST_LOOK_NS = 5_000_000  # a supervisor that was held up itself does not blame control for it
MASK = (1 << 64) - 1
REASON_BYTES = 160
MODE_BYTES = 16
STAGE_BYTES = 16
PARTICIPANT_BYTES = 40
WALKING = "walking"  # the mode, in control's own words, in which the policy moves the robot
RECOVERING = "recovering"  # and the one in which it gets up after a fall

_HEARTBEAT = struct.Struct(f"<4sQQQQQBf??{REASON_BYTES}s{PARTICIPANT_BYTES}s")
_ANSWER = struct.Struct(f"<4sQQ{MODE_BYTES}s{PARTICIPANT_BYTES}sIQ??Q??fff{STAGE_BYTES}s")
_HEARTBEAT_MAGIC = b"HRT2"
_ANSWER_MAGIC = b"ANS3"


class Stop(IntEnum):
    """How the robot is to stop; the larger one wins."""

    NONE = 0
    STOP = 1  # sit down, then damp
    ESTOP = 2  # damp at once


@dataclass(frozen=True, slots=True)
class Verdict:
    """What safety lets control do in this tick."""

    stop: Stop
    torque_fraction: float  # of the joints' torque limits, 0..1
    may_start: bool  # may go from damping to standing
    healthy: bool  # the supervisor is there
    reason: str  # for a person; "" when there is nothing to say
    may_adapt: bool = False  # corrections of adaptation may act


CLEAR = Verdict(Stop.NONE, 1.0, True, True, "", may_adapt=True)
UNHEARD = Verdict(Stop.NONE, 1.0, False, False, "no heartbeat from the supervisor yet")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The supervisor's orders. `session` and `resets` tell a reset from a supervisor's restart."""

    session: int
    sequence: int
    challenge: int
    resets: int
    sent_ns: int
    stop: Stop
    torque_fraction: float
    may_start: bool
    reason: str
    participant: str  # of the supervisor on the wire: control does not take it for a stranger
    may_adapt: bool = False

    def pack(self) -> bytes:
        return _HEARTBEAT.pack(
            _HEARTBEAT_MAGIC,
            self.session,
            self.sequence,
            self.challenge,
            self.resets,
            self.sent_ns,
            self.stop,
            self.torque_fraction,
            self.may_start,
            self.may_adapt,
            _text(self.reason, REASON_BYTES),
            _text(self.participant, PARTICIPANT_BYTES),
        )

    @classmethod
    def unpack(cls, datagram: bytes) -> "Heartbeat | None":
        """None for anything that is not a whole, sane heartbeat."""
        if len(datagram) != _HEARTBEAT.size or not datagram.startswith(_HEARTBEAT_MAGIC):
            return None
        fields = _HEARTBEAT.unpack(datagram)
        _, session, sequence, challenge, resets, sent_ns, stop, fraction, *rest = fields
        may_start, may_adapt, *words = rest
        if stop > Stop.ESTOP or not 0.0 <= fraction <= 1.0:
            return None
        reason, participant = map(_words, words)
        return cls(
            session,
            sequence,
            challenge,
            resets,
            sent_ns,
            Stop(stop),
            fraction,
            may_start,
            reason,
            participant,
            may_adapt,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What control says of itself with every answer."""

    mode: str  # in words
    participant: str  # of control on the wire
    pid: int
    tick: int  # control cycles since its start
    damping: bool  # what it sends now is damping
    leaving: bool  # it is ending in good order, after damping
    deadline_misses: int  # since its start
    failed: bool  # it has stopped the robot by itself, until a reset
    policy_not_finite: bool  # and this is why: the policy gave NaN or infinity, or an error
    out_of_distribution: float  # spread of the observation, in training standard deviations
    command_age_s: float  # of the newest velocity command; infinite when there was none
    adaptation_strain: float = 0.0  # corrections that are wanted, by what their bounds allow
    stage: str = ""  # whose limits it keeps


@dataclass(frozen=True, slots=True)
class Answer:
    sequence: int
    response: int
    report: Report

    def pack(self) -> bytes:
        report = self.report
        return _ANSWER.pack(
            _ANSWER_MAGIC,
            self.sequence,
            self.response,
            _text(report.mode, MODE_BYTES),
            _text(report.participant, PARTICIPANT_BYTES),
            report.pid,
            report.tick,
            report.damping,
            report.leaving,
            report.deadline_misses,
            report.failed,
            report.policy_not_finite,
            report.out_of_distribution,
            report.command_age_s,
            report.adaptation_strain,
            _text(report.stage, STAGE_BYTES),
        )

    @classmethod
    def unpack(cls, datagram: bytes) -> "Answer | None":
        """None for anything that is not a whole answer."""
        if len(datagram) != _ANSWER.size or not datagram.startswith(_ANSWER_MAGIC):
            return None
        _, sequence, response, mode, participant, *rest, stage = _ANSWER.unpack(datagram)
        said = [_words(mode), _words(participant), *rest, _words(stage)]
        return cls(sequence, response, Report(*said))


def response_to(challenge: int) -> int:
    """What only somebody who read the challenge can say."""
    return ~challenge & MASK


class ControlSide:
    """Control's end: the verdict of each tick, latched until the supervisor is reset."""

    def __init__(self, timeout_ns: int = HEARTBEAT_TIMEOUT_NS) -> None:
        self._timeout_ns = timeout_ns
        self._last: Heartbeat | None = None
        self._answered = True
        self._driving = False  # by control's last report
        self._latched = Stop.NONE
        self._reason = ""
        self._orders = UNHEARD  # for as long as the last heartbeat counts
        self.rejected = 0  # datagrams that were no valid heartbeat

    def hear(self, datagram: bytes, now_ns: int) -> None:
        """Take one datagram in; what is malformed, old or from the future is only counted."""
        heartbeat = Heartbeat.unpack(datagram)
        if heartbeat is None or self._is_old(heartbeat) or not self._is_fresh(heartbeat, now_ns):
            self.rejected += 1
            return
        last = self._last
        self.verdict(now_ns)  # a gap that ends just now still counts
        if last and last.session == heartbeat.session and heartbeat.resets > last.resets:
            self._latched, self._reason = Stop.NONE, ""
        self._latch(heartbeat.stop, heartbeat.reason)
        self._last = heartbeat
        self._orders = self._ordered_by(heartbeat)
        self._answered = False

    def verdict(self, now_ns: int) -> Verdict:
        """What control may do now."""
        last = self._last
        if last is None:
            return UNHEARD
        if now_ns - last.sent_ns > self._timeout_ns:
            reason = f"supervisor silent for over {self._timeout_ns // 1_000_000} ms"
            if self._driving:  # else nothing moved: a reset is not needed, but nothing may move
                self._latch(Stop.ESTOP, reason)
                self._orders = self._ordered_by(last)
            reason = self._reason if self._latched is Stop.ESTOP else reason
            return Verdict(Stop.ESTOP, last.torque_fraction, False, False, reason)
        return self._orders

    def _ordered_by(self, last: Heartbeat) -> Verdict:
        if self._latched:
            return Verdict(self._latched, last.torque_fraction, False, True, self._reason)
        return Verdict(
            Stop.NONE, last.torque_fraction, last.may_start, True, last.reason, last.may_adapt
        )

    @property
    def supervisor(self) -> str:
        """The supervisor's participant on the wire, "" before its first heartbeat."""
        return self._last.participant if self._last else ""

    def answer(self, report: Report) -> bytes | None:
        """The datagram that answers the newest heartbeat, once; a farewell may come any time."""
        self._driving = not report.damping
        if self._last is None or (self._answered and not report.leaving):
            return None
        self._answered = True
        return Answer(self._last.sequence, response_to(self._last.challenge), report).pack()

    def _is_old(self, heartbeat: Heartbeat) -> bool:
        last = self._last
        return (
            last is not None
            and last.session == heartbeat.session
            and heartbeat.sequence <= last.sequence
        )

    def _is_fresh(self, heartbeat: Heartbeat, now_ns: int) -> bool:
        """Neither left over in the socket from before, nor from the future."""
        ahead_ns = HEARTBEAT_PERIOD_NS  # the tick may have read its clock before it was sent
        return now_ns - self._timeout_ns <= heartbeat.sent_ns <= now_ns + ahead_ns

    def _latch(self, stop: Stop, reason: str) -> None:
        if stop > self._latched:
            self._latched, self._reason = stop, reason


class SupervisorSide:
    """The supervisor's end: fresh challenges out, and for how long control has owed an answer.

    Only time in which the supervisor was looking counts: on a computer that stops for a moment,
    who wakes up first must not take the other for dead.
    """

    def __init__(self, session: int, participant: str) -> None:
        self._session = session
        self._participant = participant
        self._sequence = 0
        self._outstanding: OrderedDict[int, int] = OrderedDict()  # sequence, challenge
        self._answered: tuple[int, int] | None = None  # the newest: its sequence, response
        self._looked_ns: int | None = None
        self._silence_ns = 0
        self.report: Report | None = None  # of the last good answer
        self.rejected = 0  # datagrams that answered no challenge of ours

    def heartbeat(self, verdict: Verdict, resets: int, challenge: int, now_ns: int) -> bytes:
        """The next datagram. `challenge` must be fresh and random: the caller has the entropy."""
        self._sequence += 1
        self._outstanding[self._sequence] = challenge & MASK
        if len(self._outstanding) > OUTSTANDING:
            self._outstanding.popitem(last=False)
        return Heartbeat(
            self._session,
            self._sequence,
            challenge & MASK,
            resets,
            now_ns,
            verdict.stop,
            verdict.torque_fraction,
            verdict.may_start,
            verdict.reason,
            self._participant,
            verdict.may_adapt,
        ).pack()

    def hear(self, datagram: bytes) -> None:
        answer = Answer.unpack(datagram)
        if (
            answer
            and answer.report.leaving
            and self._answered == (answer.sequence, answer.response)
        ):
            self.report = answer.report
            return
        asked = self._outstanding.get(answer.sequence) if answer else None
        if answer is None or asked is None or answer.response != response_to(asked):
            self.rejected += 1
            return
        while self._outstanding and next(iter(self._outstanding)) <= answer.sequence:
            self._outstanding.popitem(last=False)
        self._answered = (answer.sequence, answer.response)
        self._silence_ns = 0
        self.report = answer.report

    def silence_s(self, now_ns: int) -> float:
        """How long an answer has been due. Ask once a cycle, after `hear`."""
        if self._looked_ns is not None and self._outstanding:
            self._silence_ns += min(now_ns - self._looked_ns, LONGEST_LOOK_NS)
        self._looked_ns = now_ns
        return self._silence_ns / 1e9

    def forget(self) -> None:
        """Control is gone or left: the next one starts with a clean page."""
        self._answered = self.report = None
        self._silence_ns = 0
        self._outstanding.clear()


def _text(text: str, size: int) -> bytes:
    """UTF-8 cut to size without splitting a character; struct pads with zeros."""
    return text.encode()[:size].decode(errors="ignore").encode()


def _words(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")
