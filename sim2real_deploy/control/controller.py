"""The control core: one `step` per tick of the wire, the same on the robot, in the twin, in replay.

Pure but for the stopwatch: state, time and safety's verdict are arguments, the command is the
result. Whatever goes wrong in a tick ends in damping in that same tick, and stays there.
"""

import time
from dataclasses import replace

import numpy as np

from sim2real_deploy.control import excitation, trajectory
from sim2real_deploy.control.adaptation import Adaptation
from sim2real_deploy.control.get_up import TORQUE_SHARE, GaveUpError, GetUp
from sim2real_deploy.control.hand_over import HandOver, command_of
from sim2real_deploy.control.limits import Limiter
from sim2real_deploy.control.modes import POLICY_MODES, Decision, Event, Mode, Situation, decide
from sim2real_deploy.control.repertoire import BLEND_S, LEAD_S, TAKE_OVER_S, Repertoire
from sim2real_deploy.control.stages import Stage
from sim2real_deploy.control.trajectory import LetDown, Trajectory
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.safety.chain import Stop, Verdict

STATE_TIMEOUT_NS = 100_000_000
UPRIGHT = 0.7  # cosine of the tilt: 45 degrees
LEVEL = 0.9  # likewise: 26 degrees
HAND_OVER_S = 0.4  # from standing to the policy's own targets and gains
AT_REST_NS = 300_000_000  # with no velocity commanded, before it sits down: a gait must settle
SLOWED_NS = 1_200_000_000  # at most; then it sits down however fast it is
# Standing sags by the load on kp: about 0.1 rad on the twin, more where calves are weak.
REACHED_RAD = 0.4
REACH_NS = 500_000_000  # after the end of a movement, for joints that are late
# Asked for in every tick: by way of its class, a member of an enum takes several times as long.
PASSIVE, DAMPING, STANDING, WALKING = Mode.PASSIVE, Mode.DAMPING, Mode.STANDING, Mode.WALKING
SLOWING_DOWN = Mode.SLOWING_DOWN


class Controller:
    """Modes, policy, limits. `asked` and `limiter.sent` are the two halves of every command."""

    def __init__(
        self,
        spec: RobotSpec,
        stage: Stage,
        policies: Policy | Repertoire | None,
        adaptation: Adaptation | None = None,
    ) -> None:
        self.spec = spec
        self.repertoire = Repertoire.of(policies)
        self.policy = policy = self.repertoire.policy  # the one that walks
        self.adaptation = adaptation
        odometries = (known.odometry for known in self.repertoire.policies)
        self._odometry = next((odometry for odometry in odometries if odometry), None)
        self.period_ns = round(1e9 / spec.wire.rate_hz)
        self.mode = Mode.PASSIVE
        self.reason = ""  # why this mode, for a person
        self.situation = Situation(
            policy_checked=policy is not None,
            can_get_up=stage.recovery and spec.get_up is not None,
        )
        self.velocity = VelocityCommand(stage)
        self.limiter = Limiter(spec, stage)
        self.asked_block = np.zeros((5, spec.joint_count), np.float32)
        self.asked = JointCommand.of_block(self.asked_block)
        self.state: RobotState | None = None  # the one this tick works with
        self.policy_stepped = 0  # bits of the policies that stepped in this tick, by their place
        self.switched = ""  # why the active policy is not the first one, for a person
        self.stepped_ns = 0  # when it last did, by this computer's clock
        self.policy_failed = False
        self.policy_late = 0  # steps that came more than one of the policy's periods too late
        self.observe_ns = 0  # time spent in this tick
        self.infer_ns = 0
        self._damping_block = np.zeros((5, spec.joint_count), np.float32)
        self._damping = JointCommand.of_block(self._damping_block)
        self._damping.kd[:] = spec.damping
        kp, kd = (25.0, 0.5) if policy is None else (policy.kp.mean(), policy.kd.mean())
        self.excitation = excitation.protocol(float(kp), float(kd))
        self._movement: Trajectory | LetDown | excitation.Excitation | None = None
        self._get_up: GetUp | None = None
        self._handed_over: HandOver | None = None  # on the way to the policy's own commands
        self._slowing_since_ns = 0
        self._moving_ns = 0  # when a velocity was last commanded
        self._reach_until_ns: int | None = None  # a movement has ended; its joints may be late
        self._policy_due_ns = 0

    def request(self, event: Event, now_ns: int) -> Decision:
        """Somebody asks for a mode; judged by what the last tick saw."""
        self._look(self.situation, now_ns)
        return self._event(event, now_ns, f"asked to {event.value}")

    def switch(self, name: str, now_ns: int) -> Decision:
        """Somebody asks for another policy, by its name or "" for the next one. In walking both
        run until the new one has taken over; else it walks from the next time on."""
        self._look(self.situation, now_ns)
        repertoire = self.repertoire
        try:
            index = repertoire.find(name or repertoire.after())
        except Refusal as refusal:
            return Decision(False, self.mode, f"cannot switch: {refusal}")
        decision = decide(self.mode, Event.SWITCH, self.situation)
        if not decision.accepted or index == repertoire.active:
            words = f"{repertoire.name} is active already" if decision.accepted else decision.words
            return replace(decision, words=words)
        if self.mode is WALKING:
            before = repertoire.active
            repertoire.pass_to(index)
            old = command_of(repertoire.policies[before])
            self._handed_over = HandOver(old, now_ns + round(LEAD_S * 1e9), BLEND_S)
        else:
            repertoire.choose(index)
        self._activate("asked for")
        return replace(decision, words=f"{decision.words} with {repertoire.name}")

    def foresee(self, event: Event, now_ns: int) -> Decision:
        """What `request` would say if the wire were ours; nothing changes."""
        now = replace(self.situation, sport_released=True, other_writers="")
        self._look(now, now_ns)
        return decide(self.mode, event, now)

    def _look(self, now: Situation, now_ns: int) -> None:
        now.fresh = self._is_fresh(now_ns)
        now.upright = self.state is not None and _is_upright(self.state)
        now.wished = self._wished(now_ns)
        now.level = self.state is not None and _is_upright(self.state, LEVEL)
        now.switching = self._handed_over is not None
        joints = zip(self.spec.joint_names, self.limiter.acted, strict=True)
        now.limited = ", ".join(name for name, acted in joints if acted)

    def step(self, state: RobotState | None, now_ns: int, verdict: Verdict) -> JointCommand | None:
        """One tick: the command to send, or None while the wire is not ours."""
        if state is not None:
            self.state = state
            if self._odometry is not None:
                self._update_odometry(self._odometry, now_ns)
        self.policy_stepped = 0
        self.observe_ns = self.infer_ns = 0
        self.limiter.rest()
        self.situation.verdict = verdict
        if not self._is_fresh(now_ns) and self.mode not in (PASSIVE, DAMPING):
            self.fail(f"no state from the robot for {STATE_TIMEOUT_NS // 1_000_000} ms", now_ns)
        if verdict.stop:
            self._obey(verdict, now_ns)
        if self.mode is PASSIVE:
            return None
        if self.mode is not DAMPING:
            try:
                if self.mode is WALKING:
                    self._walk(now_ns)
                elif self.mode is SLOWING_DOWN:
                    self._slow(now_ns)
                else:
                    self._move(now_ns)
                sent = self._limit(now_ns, verdict.torque_fraction)
            except Exception as error:  # whatever it was, the robot must not be left to it
                self.policy_failed |= self.mode in POLICY_MODES
                self.fail(f"{type(error).__name__}: {error}", now_ns)
            else:
                if sent is not None:
                    return sent
        return self.damp()

    @property
    def surprise(self) -> float:
        """How far from its training the policy was in its last step."""
        return self.repertoire.surprise

    @property
    def adaptation_strain(self) -> float:
        """Corrections that are wanted, by what their bounds allow."""
        return 0.0 if self.adaptation is None else self.adaptation.strain

    @property
    def excited_part(self) -> str:
        """Which part of the excitation runs, "" for none."""
        movement = self._movement
        return movement.part if isinstance(movement, excitation.Excitation) else ""

    def rehearse(self, now_ns: int) -> None:
        """After the command is out: warm the policy up when the next tick will step it."""
        if self.mode not in POLICY_MODES or self.policy is None:
            return
        if now_ns + 1.5 * self.period_ns >= self._policy_due_ns:
            try:
                self.repertoire.rehearse()
            except Exception as error:  # it would fail in the next tick, too
                self.policy_failed = True
                self.fail(f"{type(error).__name__}: {error}", now_ns)

    def fail(self, why: str, now_ns: int) -> None:
        """Damping, latched: only a reset of the supervisor that saw it too lifts it."""
        self.situation.fault = self.situation.fault or why
        self._event(Event.ESTOP, now_ns, why)

    def damp(self) -> JointCommand:
        """The one command that needs no state, no limits and no luck."""
        np.copyto(self.asked_block, self._damping_block)
        np.copyto(self.limiter.sent_block, self._damping_block)
        return self.limiter.sent

    def _update_odometry(self, odometry: LegOdometry, now_ns: int) -> None:
        """For policies that see their velocity: it takes every state, in every mode."""
        assert self.state is not None
        try:
            odometry.update(self.state)
        except Exception as error:  # as in `step`
            self.fail(f"odometry: {type(error).__name__}: {error}", now_ns)

    def _is_fresh(self, now_ns: int) -> bool:
        state = self.state
        return state is not None and now_ns - state.received_ns <= STATE_TIMEOUT_NS

    def _wished(self, now_ns: int) -> str:
        vx, vy, wz = self.velocity.wished(now_ns)
        if not (vx or vy or wz):
            return ""
        return f"{self.velocity.holder(now_ns)} commands ({vx:.2g}, {vy:.2g}, {wz:.2g})"

    def _obey(self, verdict: Verdict, now_ns: int) -> None:
        if verdict.stop is Stop.STOP:
            self._event(Event.STOP, now_ns, verdict.reason)
            return
        if verdict.healthy:  # a supervisor that fell silent has not heard of our fault
            self.situation.fault = ""  # it holds the latch from here on
            self.policy_failed = False
        self._event(Event.ESTOP, now_ns, verdict.reason)

    def _event(self, event: Event, now_ns: int, why: str) -> Decision:
        decision = decide(self.mode, event, self.situation)
        if decision.accepted and decision.mode is not self.mode:
            before, self.mode = self.mode, decision.mode
            self.reason = why
            self._enter(before, now_ns)
        return decision

    def _enter(self, before: Mode, now_ns: int) -> None:
        held = self.limiter.sent
        self._reach_until_ns = None
        if before in (PASSIVE, DAMPING) and self.state is not None:
            np.copyto(self.limiter.sent_block, self._damping_block)
            self.limiter.restart(self.state.q)
        if self.mode is Mode.STANDING_UP:
            self._movement = trajectory.stand_up(held, self.spec, now_ns)
        elif self.mode is Mode.SITTING_DOWN:
            self._movement = trajectory.put_down(held, self.spec, now_ns)
        elif self.mode is Mode.RECOVERING:
            self._get_up = GetUp(held, self.spec, now_ns)
        elif self.mode is Mode.EXCITING:
            self._movement = excitation.Excitation(held, self.excitation, self.spec, now_ns)
        elif self.mode is WALKING and self.policy is not None:
            self.repertoire.begin()
            self.velocity.halt()
            self._handed_over = HandOver(held.copy(), now_ns, HAND_OVER_S)
            self._policy_due_ns = 0
            if self.adaptation is not None:
                self.adaptation.begin()
        elif self.mode is SLOWING_DOWN:
            self.velocity.brake()
            self._slowing_since_ns = self._moving_ns = now_ns

    def _move(self, now_ns: int) -> None:
        """Write what the movement wants into `asked`."""
        if self.mode is Mode.RECOVERING:
            self._recover(now_ns)
        elif self._movement is not None:
            if self.mode is Mode.EXCITING and (why := self._objection()):
                self._event(Event.STOP, now_ns, why)
            done = self._movement.fill(now_ns, self.asked)
            if done and self.mode is not STANDING:
                self._end_movement(now_ns)

    def _end_movement(self, now_ns: int) -> None:
        """The path is at its end: lying down is done with it, standing when the joints are there.
        Legs that did not follow would make the first step of a policy a leap."""
        assert self.state is not None
        if self.mode is not Mode.STANDING_UP:
            self._event(Event.DONE, now_ns, self.reason)
            return
        error = np.abs(self.state.q - self.spec.stand_pose)
        worst = int(error.argmax())
        if error[worst] <= REACHED_RAD:
            self._event(Event.DONE, now_ns, self.reason)
        elif self._reach_until_ns is None:
            self._reach_until_ns = now_ns + REACH_NS
        elif now_ns > self._reach_until_ns:
            name = self.spec.joint_names[worst]
            self.fail(f"it does not stand: {name} is {error[worst]:.2f} rad off its pose", now_ns)

    def _slow(self, now_ns: int) -> None:
        """The policy walks on with a velocity that falls to zero; then it sits down."""
        self._walk(now_ns)
        if any(self.velocity.shaped):
            self._moving_ns = now_ns
        rested_ns, slowed_ns = now_ns - self._moving_ns, now_ns - self._slowing_since_ns
        if rested_ns >= AT_REST_NS or slowed_ns >= SLOWED_NS:
            self._event(Event.DONE, now_ns, self.reason)

    def _recover(self, now_ns: int) -> None:
        assert self._get_up is not None
        assert self.state is not None
        try:
            done = self._get_up.fill(now_ns, self.state, self.asked)
        except GaveUpError as why:
            self._event(Event.DAMP, now_ns, f"could not get up: {why}")
            return
        if done:
            self.situation.upright = True
            decision = self._event(Event.DONE, now_ns, self.reason)
            if not decision.accepted:
                self._event(Event.DAMP, now_ns, decision.words)

    def _objection(self) -> str:
        """Why the robot should not be excited any longer, "" while it may."""
        movement, state = self._movement, self.state
        if not isinstance(movement, excitation.Excitation) or state is None:
            return ""
        return movement.objection(state)

    def _walk(self, now_ns: int) -> None:
        """Write what the policy wants into `asked`."""
        if now_ns + self.period_ns // 2 >= self._policy_due_ns:
            self._step_policies(now_ns)
        policy = self.policy
        assert policy is not None
        if self._handed_over is not None:
            self._pass_over(self._handed_over, policy, now_ns)
            return
        if self.policy_stepped:
            self.asked.q[:] = policy.target
        self._adapt(policy)

    def _pass_over(self, pending: HandOver, policy: Policy, now_ns: int) -> None:
        """Write the command on the way to the policy's own. Adaptation goes on where it was on
        already."""
        done = pending.fill(policy, now_ns, self.asked)
        adaptation, asked = self.adaptation, self.asked
        if adaptation is not None and self.repertoire.outgoing is not None:
            assert self.state is not None
            adaptation.step(self.state, self.situation.verdict.may_adapt)
            np.multiply(asked.kp, adaptation.gain, asked.kp)
            np.multiply(asked.kd, adaptation.gain, asked.kd)
            np.copyto(asked.torque, adaptation.torque)
        if done:
            self._handed_over = None
            self.repertoire.settle()

    def _adapt(self, policy: Policy) -> None:
        """Write this tick's corrections into `asked`."""
        adaptation, asked = self.adaptation, self.asked
        assert self.state is not None
        if adaptation is None or not adaptation.step(self.state, self.situation.verdict.may_adapt):
            return
        np.multiply(policy.kp, adaptation.gain, asked.kp)
        np.multiply(policy.kd, adaptation.gain, asked.kd)
        np.copyto(asked.torque, adaptation.torque)

    def _activate(self, why: str) -> None:
        """The active policy of the repertoire walks from here on."""
        self.policy = self.repertoire.policy
        self.switched = why

    def _step_policies(self, now_ns: int) -> None:
        assert self.state is not None
        assert self.policy is not None
        period_ns = round(1e9 / self.policy.contract.rate_hz)
        behind = now_ns - self._policy_due_ns > period_ns
        self.policy_late += behind and self._policy_due_ns > 0
        self._policy_due_ns = (now_ns if behind else self._policy_due_ns) + period_ns
        self.stepped_ns = time.monotonic_ns()
        repertoire = self.repertoire
        astray = repertoire.step(self.state, self.velocity.shape(now_ns), now_ns)
        self.observe_ns, self.infer_ns = repertoire.observe_ns, repertoire.infer_ns
        self.policy_stepped = repertoire.stepped
        if astray:
            self._fall_back(astray, now_ns)

    def _fall_back(self, why: str, now_ns: int) -> None:
        """Leave the active policy, beginning with the last command that was sent. One that has
        not run meanwhile steps in the next tick."""
        left, runs = self.repertoire.name, self.repertoire.outgoing is not None
        self.repertoire.fall_back()
        self._handed_over = HandOver(self.limiter.sent.copy(), now_ns, TAKE_OVER_S)
        self._policy_due_ns *= runs
        self._activate(f"in place of {left}: {why}")

    def _limit(self, now_ns: int, torque_fraction: float) -> JointCommand | None:
        assert self.state is not None
        if self.mode is DAMPING:
            return None
        if self.mode is Mode.RECOVERING:
            torque_fraction = min(torque_fraction, TORQUE_SHARE)
        sent = self.limiter.limit(self.asked, self.state, torque_fraction)
        if sent is None:
            self.policy_failed |= self.mode in POLICY_MODES
            self.fail("the command is not finite", now_ns)
        elif self.adaptation is not None:
            self.adaptation.remember(self.limiter.sent_block, self.limiter.acted)
        return sent


def _is_upright(state: RobotState, least: float = UPRIGHT) -> bool:
    _, x, y, _ = state.attitude()
    return 1.0 - 2.0 * (x * x + y * y) > least
