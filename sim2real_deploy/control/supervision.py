"""Control's side of the safety chain, used by the loop once per tick."""

import os
from typing import Protocol

from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.runtime.local_channel import LocalChannel
from sim2real_deploy.safety.chain import CLEAR, ControlSide, Report, Verdict


class Supervision(Protocol):
    @property
    def supervisor(self) -> str:
        """The supervisor's participant on the wire, "" where there is none."""

    def verdict(self, now_ns: int) -> Verdict:
        """What control may do in this tick."""

    def answer(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """After the tick: report to the supervisor."""

    def leave(self, controller: Controller, now_ns: int, tick: int, misses: int) -> None:
        """Report that the loop is ending in good order."""


class Unsupervised:
    """For benchmarks and lockstep runs, where there is no robot to protect."""

    supervisor = ""

    def verdict(self, now_ns: int) -> Verdict:
        return CLEAR

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

    @property
    def supervisor(self) -> str:
        return self._side.supervisor

    def verdict(self, now_ns: int) -> Verdict:
        for datagram in self._channel.receive():
            self._side.hear(datagram, now_ns)
            self._asked = True
        return self._side.verdict(now_ns)

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
