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
HEARTBEAT_TIMEOUT_NS = 80_000_000  # control must damp on the wire within 100 ms of the last one
OUTSTANDING = 32  # challenges that may still be answered
LONGEST_LOOK_NS = 5_000_000  # the supervisor's own stalls do not count against control
MASK = (1 << 64) - 1
REASON_BYTES = 160
MODE_BYTES = 16
STAGE_BYTES = 16
PARTICIPANT_BYTES = 40
PASSIVE = "passive"  # control's name for the mode in which it has sent nothing yet
WALKING = "walking"  # control's name for the mode in which the policy moves the robot
RECOVERING = "recovering"  # and for the one in which it gets up after a fall

_HEARTBEAT = struct.Struct(f"<4sQQQQQBf??{REASON_BYTES}s{PARTICIPANT_BYTES}s")
_ANSWER = struct.Struct(f"<4sQQ{MODE_BYTES}s{PARTICIPANT_BYTES}sIQ??Q??fff{STAGE_BYTES}s")
_HEARTBEAT_MAGIC = b"HRT2"
HEARTBEAT_BYTES, ANSWER_BYTES = _HEARTBEAT.size, _ANSWER.size
# For compiled loops: where these fields lie in a heartbeat, and what alone changes in one that
# repeats the orders.
SEQUENCE, CHALLENGE, SENT_NS = 12, 20, 36
CHANGING = (*range(12, 28), *range(36, 44))
# And in an answer.
ANSWERS, RESPONSE, TICK, SURPRISE, COMMAND_AGE, STRAIN = 4, 12, 80, 100, 104, 108
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
    may_start: bool  # control may go from damping to standing
    healthy: bool  # heartbeats of the supervisor arrive
    reason: str  # shown to people; "" when there is nothing to report
    may_adapt: bool = False  # adaptation may correct commands


CLEAR = Verdict(Stop.NONE, 1.0, True, True, "", may_adapt=True)
UNHEARD = Verdict(Stop.NONE, 1.0, False, False, "no heartbeat from the supervisor yet")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The supervisor's orders. `session` and `resets` distinguish a reset from a restart."""

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

    mode: str  # its name
    participant: str  # control's DDS participant
    pid: int
    tick: int  # control cycles since its start
    damping: bool  # it sends damping commands now
    leaving: bool  # it is shutting down in order, after damping
    deadline_misses: int  # since its start
    failed: bool  # it has stopped the robot on its own; cleared by a reset
    policy_not_finite: bool  # the reason: the policy returned NaN or infinity, or raised
    out_of_distribution: float  # distance of the observation from training, in standard deviations
    command_age_s: float  # age of the newest velocity command; infinite if there was none
    adaptation_strain: float = 0.0  # corrections wanted, relative to their bounds
    stage: str = ""  # the stage whose limits control applies


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
    """The response that only a reader of the challenge can give."""
    return ~challenge & MASK


class ControlSide:
    """Control's end: the verdict of each tick, latched until the supervisor is reset."""

    def __init__(self, timeout_ns: int = HEARTBEAT_TIMEOUT_NS) -> None:
        self.timeout_ns = timeout_ns
        self._last: Heartbeat | None = None
        self._answered = True
        self._driving = False  # according to control's last report
        self._latched = Stop.NONE
        self._reason = ""
        self._orders = UNHEARD  # valid until the last heartbeat times out
        self.rejected = 0  # datagrams that were not valid heartbeats
        self.datagram = b""  # the last heartbeat as it came

    def until_ns(self, verdict: Verdict) -> int:
        """Until when a verdict stays in force without a heartbeat; 0 if it is not the last."""
        last = self._last
        return 0 if last is None or verdict is not self._orders else last.sent_ns + self.timeout_ns

    def catch_up(self, datagram: bytes, report: Report) -> None:
        """A compiled loop has answered heartbeats that repeated the orders, this one last."""
        self._last, self.datagram = Heartbeat.unpack(datagram) or self._last, datagram
        self._answered, self._driving = True, not report.damping

    def hear(self, datagram: bytes, now_ns: int) -> None:
        """Process one datagram; malformed, old or future ones are only counted."""
        heartbeat = Heartbeat.unpack(datagram)
        if heartbeat is None or self._is_old(heartbeat) or not self._is_fresh(heartbeat, now_ns):
            self.rejected += 1
            return
        last = self._last
        self.verdict(now_ns)  # latches a timeout that this heartbeat would otherwise hide
        if last and last.session == heartbeat.session and heartbeat.resets > last.resets:
            self._latched = Stop.NONE
        self._latch(heartbeat.stop, heartbeat.reason)
        self._last, self.datagram = heartbeat, datagram
        self._orders = self._ordered_by(heartbeat)
        self._answered = False

    def verdict(self, now_ns: int) -> Verdict:
        """What control may do now."""
        last = self._last
        if last is None:
            return UNHEARD
        if now_ns - last.sent_ns > self.timeout_ns:
            reason = f"supervisor silent for over {self.timeout_ns // 1_000_000} ms"
            if self._driving:  # otherwise nothing moved, and no reset is needed
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
        """The answer to the newest heartbeat, once; a farewell may be sent at any time."""
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
        """Sent neither long ago (left in the socket) nor in the future."""
        ahead_ns = HEARTBEAT_PERIOD_NS  # the tick may have read its clock first
        return now_ns - self.timeout_ns <= heartbeat.sent_ns <= now_ns + ahead_ns

    def _latch(self, stop: Stop, reason: str) -> None:
        if stop > self._latched:
            self._latched, self._reason = stop, reason


class SupervisorSide:
    """The supervisor's end: sends fresh challenges and tracks how long an answer is overdue.

    Only time in which the supervisor itself was running counts. After a stall of the whole
    computer, whichever process wakes first must not declare the other dead.
    """

    def __init__(self, session: int, participant: str) -> None:
        self._session = session
        self._participant = participant
        self._sequence = 0
        self._outstanding: OrderedDict[int, int] = OrderedDict()  # sequence -> challenge
        self._answered: tuple[int, int] | None = None  # sequence and response of the newest answer
        self._looked_ns: int | None = None
        self._silence_ns = 0
        self.report: Report | None = None  # from the last valid answer
        self.rejected = 0  # datagrams that answered none of our challenges

    def heartbeat(self, verdict: Verdict, resets: int, challenge: int, now_ns: int) -> bytes:
        """The next datagram. `challenge` must be fresh and random; the caller provides it."""
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
        """How long an answer has been overdue. Call once per cycle, after `hear`."""
        if self._looked_ns is not None and self._outstanding:
            self._silence_ns += min(now_ns - self._looked_ns, LONGEST_LOOK_NS)
        self._looked_ns = now_ns
        return self._silence_ns / 1e9

    def forget(self) -> None:
        """Control died or left: start afresh with the next one."""
        self._answered = self.report = None
        self._silence_ns = 0
        self._outstanding.clear()


def _text(text: str, size: int) -> bytes:
    """UTF-8 truncated to size without splitting a character; struct pads with zeros."""
    return text.encode()[:size].decode(errors="ignore").encode()


def _words(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")
