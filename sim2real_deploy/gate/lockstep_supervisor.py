"""The supervisor's logic beside a controller in lockstep: no process, no socket, same verdicts."""

from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.robots import JointCommand, RobotState
from sim2real_deploy.safety.chain import CLEAR, Report, Verdict
from sim2real_deploy.safety.inputs import Inputs
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.safety.supervisor import Change, CycleResult, Supervisor, is_damping
from sim2real_deploy.wire.link import Link


class LockstepSupervisor:
    """Call `verdict` once per tick with the command of the tick before.

    It evaluates every `every`-th tick; in between its last verdict holds.
    """

    def __init__(self, controller: Controller, link: Link, stage: str, every: int = 1) -> None:
        self.supervisor = Supervisor(
            controller.spec,
            load_events(controller.spec, stage),
            may_recover=controller.situation.can_get_up,
        )
        self.changes: list[Change] = []
        self._controller, self._link = controller, link
        self._ticks = 0
        self._every = every
        self._state: RobotState | None = None  # the newest not yet evaluated
        self._sent: JointCommand | None = None  # the newest
        self._verdict = CLEAR

    def verdict(self, state: RobotState | None, sent: JointCommand | None) -> Verdict:
        self._state, self._sent = state or self._state, sent
        if self._ticks % self._every == 0:
            self._verdict = self._update(sent).verdict
            self._state = None
        self._ticks += 1
        return self._verdict

    def reset(self) -> str:
        """Ask for a reset; the reason it was refused, or "" when it was done."""
        return self._update(self._sent, reset_asked=True).reset_refused

    def _update(self, sent: JointCommand | None, reset_asked: bool = False) -> CycleResult:
        now_ns = self._link.now_ns()
        inputs = Inputs(
            state=self._state,
            counters=self._link.counters,
            report=self._report(now_ns),
            command=sent,
            command_damping=sent is not None and is_damping(sent),
            command_age_s=0.0 if sent is not None else 1.0,
            wall_ns=now_ns,
            reset_asked=reset_asked,
        )
        decision = self.supervisor.update(inputs, now_ns)
        self.changes += decision.changes
        return decision

    def _report(self, now_ns: int) -> Report:
        controller = self._controller
        return Report(
            mode=controller.mode.words,
            participant="",
            pid=0,
            tick=self._ticks,
            damping=controller.mode in (Mode.PASSIVE, Mode.DAMPING),
            leaving=False,
            deadline_misses=0,
            failed=bool(controller.situation.fault),
            policy_not_finite=controller.policy_failed,
            out_of_distribution=controller.surprise,
            command_age_s=controller.velocity.age_s(now_ns),
            adaptation_strain=controller.adaptation_strain,
        )
