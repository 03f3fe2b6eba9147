"""Control's side of the safety chain, used by the loop once per tick."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from sim2real_deploy.compiled import c_function, part
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.runtime.local_channel import MAX_DATAGRAM, LocalChannel
from sim2real_deploy.safety.chain import (
    ANSWER_BYTES,
    ANSWERS,
    CHALLENGE,
    CHANGING,
    CLEAR,
    COMMAND_AGE,
    HEARTBEAT_BYTES,
    HEARTBEAT_PERIOD_NS,
    HEARTBEAT_TIMEOUT_NS,
    RESPONSE,
    SENT_NS,
    SEQUENCE,
    STRAIN,
    SURPRISE,
    TICK,
    Answer,
    ControlSide,
    Report,
    Verdict,
)

Array = Any  # a numpy array
MOST_HEARD = 8  # datagrams in one tick; more are left to Python
FOREVER_NS = 1 << 62
SOCKET, UNTIL_NS, TIMEOUT_NS, ANSWERED = range(4)  # places in `memo`
_DO_NOT_WAIT = 0x40  # MSG_DONTWAIT
_receive = c_function("recv", "intp", "int32", "uintp", "uintp", "int32")
_send = c_function("sendto", "intp", "int32", "uintp", "uintp", "int32", "uintp", "uint32")


class Orders(NamedTuple):
    """The supervisor's orders for compiled loops. `memo`: the socket, -1 without a supervisor;
    until when the orders hold, and for how long after a heartbeat; whether one was answered."""

    memo: Array
    fraction: Array  # of the torque limits: one number
    repeated: Array  # the last heartbeat
    changing: Array  # where one that repeats the orders may differ from it
    heard: Array  # datagrams received
    sizes: Array  # of each; 0 for none
    answer: Array  # the last answer
    peer: Array  # the supervisor's address

    @classmethod
    def nobodys(cls, peer: bytes = b"") -> "Orders":
        """Of no supervisor; with its address, those before it was heard."""
        changing = np.zeros(HEARTBEAT_BYTES, np.bool_)
        changing[[*CHANGING]] = True
        return cls(
            memo=np.array([-1, FOREVER_NS, HEARTBEAT_TIMEOUT_NS, 0]),
            fraction=np.array([CLEAR.torque_fraction]),
            repeated=np.zeros(HEARTBEAT_BYTES, np.uint8),
            changing=changing,
            heard=np.zeros((MOST_HEARD, MAX_DATAGRAM), np.uint8),
            sizes=np.zeros(MOST_HEARD, np.int64),
            answer=np.zeros(ANSWER_BYTES, np.uint8),
            peer=np.array([*peer], np.uint8),
        )


@part
def word(datagram: Array, at: int) -> Any:
    """The 64 bits there."""
    return datagram[at : at + 8].view(np.int64)[0]


@part
def put(datagram: Array, at: int, value: Any) -> None:
    datagram[at : at + 8].view(np.int64)[0] = value


@part
def put_float(datagram: Array, at: int, value: float) -> None:
    datagram[at : at + 4].view(np.float32)[0] = np.float32(value)


@part
def only_repeats(orders: Orders, datagram: Array, after: int, now_ns: int) -> bool:
    """Whether a datagram is a heartbeat newer than the one numbered `after`, neither old nor of the
    future (see ControlSide), with the same orders."""
    same = True
    for i in range(orders.repeated.size):
        same &= orders.changing[i] or datagram[i] == orders.repeated[i]
    sent_ns = word(datagram, SENT_NS)
    fresh = now_ns - orders.memo[TIMEOUT_NS] <= sent_ns <= now_ns + HEARTBEAT_PERIOD_NS
    return same and fresh and bool(word(datagram, SEQUENCE) > after)


@part
def repeats_orders(orders: Orders, now_ns: int) -> bool:
    """Receive all datagrams; whether each of them only repeats the orders."""
    same, sizes, last = True, orders.sizes, word(orders.repeated, SEQUENCE)
    socket = orders.memo[SOCKET]
    for k in range(sizes.size):
        sizes[k] = 0
    for k in range(sizes.size if socket >= 0 else 0):
        heard = orders.heard[k]
        size = _receive(socket, heard.ctypes.data, heard.size, _DO_NOT_WAIT)
        if size <= 0:
            return bool(same and size < 0)
        sizes[k] = size
        same &= size == orders.repeated.size and only_repeats(orders, heard, last, now_ns)
        last = word(heard, SEQUENCE)
    return bool(socket < 0)


@part
def answer(orders: Orders, tick: int, command_age_s: float) -> bool:
    """Answer the newest of the heartbeats that `repeats_orders` has received, as
    `Supervised.answer` does. False if it cannot be sent: then Python has yet to hear them."""
    count = 0
    while count < orders.sizes.size and orders.sizes[count]:
        count += 1
    if count == 0:
        return True
    heartbeat, reply = orders.heard[count - 1], orders.answer
    put(reply, ANSWERS, word(heartbeat, SEQUENCE))
    put(reply, RESPONSE, ~word(heartbeat, CHALLENGE))
    put(reply, TICK, tick)
    put_float(reply, COMMAND_AGE, command_age_s)
    socket, peer = orders.memo[SOCKET], orders.peer
    if _send(socket, reply.ctypes.data, reply.size, _DO_NOT_WAIT, peer.ctypes.data, peer.size) < 0:
        return False
    for i in range(orders.repeated.size):
        orders.repeated[i] = heartbeat[i]
    orders.memo[UNTIL_NS] = word(heartbeat, SENT_NS) + orders.memo[TIMEOUT_NS]
    orders.memo[ANSWERED] = 1
    for k in range(count):
        orders.sizes[k] = 0
    return True


@part
def note_surprise(orders: Orders, surprise: float) -> None:
    """What answers say from now on of the policy's last step."""
    put_float(orders.answer, SURPRISE, surprise)


@part
def note_strain(orders: Orders, strain: float) -> None:
    """And of adaptation."""
    put_float(orders.answer, STRAIN, strain)


class Supervision(Protocol):
    @property
    def supervisor(self) -> str:
        """The supervisor's participant on the wire, "" where there is none."""

    def verdict(self, now_ns: int) -> Verdict:
        """What control may do in this tick."""

    orders: Orders  # the same object every time

    def order(self, controller: Controller, now_ns: int, misses: int) -> None:
        """Put the verdict in force into `orders`, for a compiled loop that begins now."""

    def answer(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """After the tick: report to the supervisor."""

    def leave(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """Report that the loop is ending in good order."""


class Unsupervised:
    """For benchmarks and lockstep runs, where there is no robot to protect."""

    supervisor = ""

    def __init__(self) -> None:
        self.orders = Orders.nobodys()

    def verdict(self, now_ns: int) -> Verdict:
        return CLEAR

    def order(self, controller: Controller, now_ns: int, misses: int) -> None:
        """Nobody orders anything."""

    def answer(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """There is nobody to report to."""

    def leave(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """There is nobody to report to."""


class Supervised:
    """The chain over a local socket. Only the loop's own thread answers challenges."""

    def __init__(self, channel: LocalChannel, participant: str, stage: str = "") -> None:
        self._channel = channel
        self._stage = stage
        self._participant = participant
        self._side = ControlSide()
        self._leaving = False
        self._asked = False
        self.orders = Orders.nobodys(channel.peer_address)
        self._memo = self.orders.memo.data
        self._memo[SOCKET], self._memo[TIMEOUT_NS] = channel.fileno(), self._side.timeout_ns

    @property
    def supervisor(self) -> str:
        return self._side.supervisor

    def verdict(self, now_ns: int) -> Verdict:
        """What a compiled loop has answered, and datagrams that it has received, come first."""
        if self._memo[ANSWERED]:
            self._memo[ANSWERED] = 0
            self._side.catch_up(self.orders.repeated.tobytes(), self._said)
        for datagram in (*self._received(), *self._channel.receive()):
            self._side.hear(datagram, now_ns)
            self._asked = True
        return self._side.verdict(now_ns)

    def _received(self) -> Iterator[bytes]:
        sizes = self.orders.sizes.data
        for k, size in enumerate(sizes):
            if size:
                sizes[k] = 0
                yield self.orders.heard[k, :size].tobytes()

    def order(self, controller: Controller, now_ns: int, misses: int) -> None:
        verdict, orders = controller.situation.verdict, self.orders
        self._memo[UNTIL_NS] = until_ns = self._side.until_ns(verdict)
        if until_ns:
            orders.fraction[0] = verdict.torque_fraction
            orders.repeated.data[:] = self._side.datagram
            self._said = self._report(controller, now_ns, 0, misses)
            orders.answer.data[:] = Answer(0, 0, self._said).pack()

    def answer(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        if not self._asked:
            return
        self._asked = False
        datagram = self._side.answer(self._report(controller, now_ns, tick, misses))
        if datagram is not None:
            self._channel.send(datagram)

    def leave(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        self._leaving = self._asked = True
        self.answer(controller, now_ns, tick, misses)

    def _report(self, controller: Controller, now_ns: int, tick: int, misses: int) -> Report:
        return Report(
            mode=controller.mode.words,
            participant=self._participant,
            pid=os.getpid(),
            tick=tick,
            damping=controller.mode in (Mode.PASSIVE, Mode.DAMPING),
            leaving=self._leaving,
            deadline_misses=misses,
            failed=bool(controller.situation.fault),
            policy_not_finite=controller.policy_failed,
            out_of_distribution=controller.surprise,
            command_age_s=controller.velocity.age_s(now_ns),
            adaptation_strain=controller.adaptation_strain,
            stage=self._stage,
        )
