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
    CHANGING,
    CLEAR,
    HEARTBEAT_BYTES,
    ControlSide,
    Report,
    Verdict,
)

Array = Any  # a numpy array
MOST_HEARD = 8  # datagrams in one tick; more are left to Python
FOREVER_NS = 1 << 62
_DO_NOT_WAIT = 0x40  # MSG_DONTWAIT
_receive = c_function("recv", "intp", "int32", "uintp", "uintp", "int32")


class Orders(NamedTuple):
    """The supervisor's orders for compiled loops."""

    socket: int  # -1: there is no supervisor
    until_ns: int  # without a heartbeat they end then
    fraction: float  # of the torque limits
    repeated: Array  # a heartbeat that repeats them
    changing: Array  # where it may differ
    heard: Array  # datagrams received
    sizes: Array  # of each; 0 for none


@part
def repeats_orders(orders: Orders) -> bool:
    """Receive all datagrams; whether each of them only repeats the orders."""
    same, sizes = True, orders.sizes
    for k in range(sizes.size):
        sizes[k] = 0
    for k in range(sizes.size if orders.socket >= 0 else 0):
        place = orders.heard[k].ctypes.data
        size = _receive(orders.socket, place, orders.heard.shape[1], _DO_NOT_WAIT)
        if size <= 0:
            return same and size < 0
        sizes[k] = size
        same &= size == orders.repeated.size
        for i in range(size if same else 0):
            same &= orders.changing[i] or orders.heard[k, i] == orders.repeated[i]
    return orders.socket < 0


def _arrays() -> tuple[Array, ...]:
    """Of Orders."""
    changing = np.zeros(HEARTBEAT_BYTES, np.bool_)
    changing[[*CHANGING]] = True
    heard = np.zeros((MOST_HEARD, MAX_DATAGRAM), np.uint8)
    return np.zeros(HEARTBEAT_BYTES, np.uint8), changing, heard, np.zeros(MOST_HEARD, np.int64)


class Supervision(Protocol):
    @property
    def supervisor(self) -> str:
        """The supervisor's participant on the wire, "" where there is none."""

    def verdict(self, now_ns: int) -> Verdict:
        """What control may do in this tick."""

    def orders(self, verdict: Verdict) -> Orders:
        """A verdict as compiled loops use it."""

    def answer(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """After the tick: report to the supervisor."""

    def leave(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """Report that the loop is ending in good order."""


class Unsupervised:
    """For benchmarks and lockstep runs, where there is no robot to protect."""

    supervisor = ""

    def __init__(self) -> None:
        self._orders = Orders(-1, FOREVER_NS, CLEAR.torque_fraction, *_arrays())

    def verdict(self, now_ns: int) -> Verdict:
        return CLEAR

    def orders(self, verdict: Verdict) -> Orders:
        return self._orders

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
        self._arrays = _arrays()
        self._repeated, _, self._heard, self._sizes = self._arrays

    @property
    def supervisor(self) -> str:
        return self._side.supervisor

    def verdict(self, now_ns: int) -> Verdict:
        """Datagrams that a compiled loop has received come first."""
        for datagram in (*self._received(), *self._channel.receive()):
            self._side.hear(datagram, now_ns)
            self._asked = True
        return self._side.verdict(now_ns)

    def _received(self) -> Iterator[bytes]:
        for k, size in enumerate(self._sizes):
            if size:
                self._sizes[k] = 0
                yield self._heard[k, :size].tobytes()

    def orders(self, verdict: Verdict) -> Orders:
        until_ns = self._side.until_ns(verdict)
        if until_ns:
            self._repeated.data[:] = self._side.datagram
        return Orders(self._channel.fileno(), until_ns, verdict.torque_fraction, *self._arrays)

    def answer(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        if not self._asked:
            return
        self._asked = False
        report = Report(
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
        datagram = self._side.answer(report)
        if datagram is not None:
            self._channel.send(datagram)

    def leave(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        self._leaving = self._asked = True
        self.answer(controller, now_ns, tick, misses)
