"""The control core: one `step` per tick, the same code on the robot, on the twin and in the gate.

State, time and the supervisor's verdict are arguments; the command is the result. Whatever goes
wrong in a tick ends in damping in that same tick, latched.
"""

from dataclasses import replace

import numpy as np

from sim2real_deploy.control import excitation, trajectory
from sim2real_deploy.control.adaptation import Adaptation
from sim2real_deploy.control.get_up import GaveUpError, GetUp
from sim2real_deploy.control.limits import Limiter
from sim2real_deploy.control.modes import POLICY_MODES, Decision, Mode, ModeEvent, Situation, decide
from sim2real_deploy.control.repertoire import Repertoire
from sim2real_deploy.control.stages import Stage
from sim2real_deploy.control.trajectory import LetDown, Trajectory
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.control.walking import Walking
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.compiled_step import CompiledStep
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.safety.chain import Stop, Verdict

STATE_TIMEOUT_NS = 100_000_000
UPRIGHT = 0.7  # cosine of the tilt: 45 degrees
LEVEL = 0.9  # cosine of the tilt: 26 degrees
AT_REST_NS = 300_000_000  # at zero commanded velocity before it sits down: the gait must settle
SLOWED_NS = 1_200_000_000  # longest slowing down; then it sits down at whatever speed it has
# A standing robot sags under its weight: by about 0.1 rad on the twin, more with weak calves.
REACHED_RAD = 0.4
REACH_NS = 500_000_000  # grace after the end of a movement for joints that lag
# Module constants, because looking up an enum member through its class is several times slower.
PASSIVE, DAMPING, STANDING, WALKING = Mode.PASSIVE, Mode.DAMPING, Mode.STANDING, Mode.WALKING
SLOWING_DOWN = Mode.SLOWING_DOWN


class Controller:
    """Modes, policies, limits. `asked` is the command before the limits, `limiter.sent` after."""

    def __init__(
        self,
        spec: RobotSpec,
        stage: Stage,
        policies: Policy | Repertoire | None,
        adaptation: Adaptation | None = None,
    ) -> None:
        self.spec = spec
        self.repertoire = Repertoire.of(policies)
        self.adaptation = adaptation
        odometries = (known.odometry for known in self.repertoire.policies)
        self._odometry = next((odometry for odometry in odometries if odometry), None)
        self.period_ns = round(1e9 / spec.wire.rate_hz)
        self.mode = Mode.PASSIVE
        self.reason = ""  # why it is in this mode, for a person
        self.situation = Situation(
            policy_checked=self.policy is not None,
            can_get_up=stage.recovery and spec.get_up is not None,
        )
        self.velocity = VelocityCommand(stage, adaptation and adaptation.correction)
        self.limiter = Limiter(spec, stage)
        self.asked_block = np.zeros((5, spec.joint_count), np.float32)
        self.asked = JointCommand.of_block(self.asked_block)
        self.walking = Walking(
            self.repertoire,
            adaptation,
            self.velocity,
            self.period_ns,
            self.asked,
            self.limiter.sent,
        )
        self.state: RobotState | None = None  # the newest one
        self.policy_failed = False
        self._damping_block = np.zeros((5, spec.joint_count), np.float32)
        self._damping = JointCommand.of_block(self._damping_block)
        self._damping.kd[:] = spec.damping
        self.excitation = excitation.protocol(*self._mean_gains())
        self._movement: Trajectory | LetDown | excitation.Excitation | None = None
        self._get_up: GetUp | None = None
        self._slowing_since_ns = 0
        self._stands_next = False  # once it has slowed down
        self._moving_ns = 0  # when a velocity was last commanded
        self._reach_until_ns: int | None = None  # until when joints may lag behind a movement

    @property
    def policy(self) -> Policy | None:
        """The active one."""
        return self.repertoire.policy

    def _mean_gains(self) -> tuple[float, float]:
        policy = self.policy
        return (25.0, 0.5) if policy is None else (float(policy.kp.mean()), float(policy.kd.mean()))

    def request(self, event: ModeEvent, now_ns: int) -> Decision:
        """Request a mode; decided on what the last tick saw."""
        self._assess(self.situation, now_ns)
        if event in (ModeEvent.STAND, ModeEvent.SIT):
            self._stands_next = event is ModeEvent.STAND
        return self._event(event, now_ns, f"asked to {event.value}")

    def switch(self, name: str, now_ns: int) -> Decision:
        """Request another policy by name, or the next one with "". While walking both run until
        the new one has taken over; otherwise it is used from the next walk on."""
        self._assess(self.situation, now_ns)
        repertoire = self.repertoire
        try:
            index = repertoire.find(name or repertoire.after())
        except Refusal as refusal:
            return Decision(False, self.mode, f"cannot switch: {refusal}")
        decision = decide(self.mode, ModeEvent.SWITCH, self.situation)
        if not decision.accepted:
            return decision
        if index == repertoire.active:
            return replace(decision, words=f"{repertoire.name} is active already")
        self.walking.switch(index, now_ns, self.mode is WALKING)
        return replace(decision, words=f"{decision.words} with {repertoire.name}")

    def foresee(self, event: ModeEvent, now_ns: int) -> Decision:
        """What `request` would decide if the wire were ours; changes nothing."""
        now = replace(self.situation, sport_released=True, other_writers="")
        self._assess(now, now_ns)
        return decide(self.mode, event, now)

    def _assess(self, now: Situation, now_ns: int) -> None:
        now.fresh = self._is_fresh(now_ns)
        now.upright = self.state is not None and _is_upright(self.state)
        now.commanded = self._commanded(now_ns)
        now.level = self.state is not None and _is_upright(self.state, LEVEL)
        now.switching = self.walking.handing_over
        joints = zip(self.spec.joint_names, self.limiter.acted, strict=True)
        now.limited = ", ".join(name for name, acted in joints if acted)

    def step(self, state: RobotState | None, now_ns: int, verdict: Verdict) -> JointCommand | None:
        """One tick: the command to send, or None while the wire is not ours."""
        if state is not None:
            self.state = state
            if self._odometry is not None:
                self._update_odometry(self._odometry, now_ns)
        self.walking.clear_tick()
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
            except Exception as error:  # whatever failed, the robot is damped in this tick
                self.policy_failed |= self.mode in POLICY_MODES
                self.fail(f"{type(error).__name__}: {error}", now_ns)
            else:
                if sent is not None:
                    return sent
        return self.damp()

    @property
    def plain_until_ns(self) -> int:
        """While walking: when more than the state changes next; 0 if it may in any tick."""
        if self.mode is not WALKING or self.situation.verdict.stop or self._odometry is not None:
            return 0
        return self.walking.plain_until_ns

    @property
    def compiled_step(self) -> CompiledStep | None:
        """The active policy's step for compiled loops, while nothing else depends on it."""
        policy = self.policy
        return None if policy is None or self.repertoire.refuge is not None else policy.compiled()

    @property
    def surprise(self) -> float:
        """How many standard deviations the policy's last observation was from its training."""
        return self.repertoire.surprise

    @property
    def adaptation_strain(self) -> float:
        """Wanted corrections as a share of their bounds; above one, a bound holds them."""
        return 0.0 if self.adaptation is None else self.adaptation.strain

    @property
    def excited_part(self) -> str:
        """The part of the excitation in progress, "" for none."""
        movement = self._movement
        return movement.part if isinstance(movement, excitation.Excitation) else ""

    def fail(self, why: str, now_ns: int) -> None:
        """Damping, latched until the supervisor has taken the fault over and is reset."""
        self.situation.fault = self.situation.fault or why
        self._event(ModeEvent.ESTOP, now_ns, why)

    def robot_was_away(self, now_ns: int) -> None:
        """Its counter jumped: it restarted, or this computer slept. If it was driven, it is damped.
        If it was damped, its own sport mode may hold it by now, and damping beside that would be
        two writers: nothing is sent until the wire has been claimed anew."""
        why = "the robot's counter jumped: it restarted, or this computer slept"
        self.situation.sport_released = False
        if self.mode in (PASSIVE, DAMPING):
            self._event(ModeEvent.RESTART, now_ns, why)
        else:
            self.fail(why, now_ns)

    def damp(self) -> JointCommand:
        """The safe command: it needs neither a state nor limits."""
        np.copyto(self.asked_block, self._damping_block)
        np.copyto(self.limiter.sent_block, self._damping_block)
        return self.limiter.sent

    def _update_odometry(self, odometry: LegOdometry, now_ns: int) -> None:
        """For policies that observe their velocity: every state counts, in every mode."""
        assert self.state is not None
        try:
            odometry.update(self.state)
        except Exception as error:  # as in `step`
            self.fail(f"odometry: {type(error).__name__}: {error}", now_ns)

    def _is_fresh(self, now_ns: int) -> bool:
        state = self.state
        return state is not None and now_ns - state.received_ns <= STATE_TIMEOUT_NS

    def _commanded(self, now_ns: int) -> str:
        vx, vy, wz = self.velocity.requested(now_ns)
        if not (vx or vy or wz):
            return ""
        return f"{self.velocity.holder(now_ns)} commands ({vx:.2g}, {vy:.2g}, {wz:.2g})"

    def _obey(self, verdict: Verdict, now_ns: int) -> None:
        if verdict.stop is Stop.STOP:
            self._event(ModeEvent.STOP, now_ns, verdict.reason)
            return
        if verdict.healthy:  # a silent supervisor has not heard of our fault
            self.situation.fault = ""  # the supervisor holds the latch from here on
            self.policy_failed = False
        self._event(ModeEvent.ESTOP, now_ns, verdict.reason)

    def _event(self, event: ModeEvent, now_ns: int, why: str) -> Decision:
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
            self.walking.begin(now_ns)
        elif self.mode is SLOWING_DOWN:
            self.velocity.brake()
            self._slowing_since_ns = self._moving_ns = now_ns

    def _move(self, now_ns: int) -> None:
        """Write the movement's command into `asked`."""
        if self.mode is Mode.RECOVERING:
            self._recover(now_ns)
        elif self._movement is not None:
            if self.mode is Mode.EXCITING and (why := self._objection()):
                self._event(ModeEvent.STOP, now_ns, why)
            done = self._movement.fill(now_ns, self.asked)
            if done and self.mode is not STANDING:
                self._end_movement(now_ns)

    def _end_movement(self, now_ns: int) -> None:
        """The path has ended. Sitting down ends with it; standing up ends when the joints have
        arrived, because a policy that starts far from its pose would make the robot leap."""
        assert self.state is not None
        if self.mode is not Mode.STANDING_UP:
            self._event(ModeEvent.DONE, now_ns, self.reason)
            return
        error = np.abs(self.state.q - self.spec.stand_pose)
        error[list(self.spec.wheels)] = 0.0
        worst = int(error.argmax())
        if error[worst] <= REACHED_RAD:
            self._event(ModeEvent.DONE, now_ns, self.reason)
        elif self._reach_until_ns is None:
            self._reach_until_ns = now_ns + REACH_NS
        elif now_ns > self._reach_until_ns:
            name = self.spec.joint_names[worst]
            self.fail(f"it does not stand: {name} is {error[worst]:.2f} rad off its pose", now_ns)

    def _slow(self, now_ns: int) -> None:
        """Walk on while the commanded velocity falls to zero; then stand, if that was asked for and
        nothing stops it, or sit down."""
        self._walk(now_ns)
        if any(self.velocity.shaped):
            self._moving_ns = now_ns
        rested_ns, slowed_ns = now_ns - self._moving_ns, now_ns - self._slowing_since_ns
        if rested_ns >= AT_REST_NS or slowed_ns >= SLOWED_NS:
            self._assess(self.situation, now_ns)
            stands = self._stands_next and self._event(ModeEvent.SLOWED, now_ns, self.reason)
            if not stands or not stands.accepted:
                self._event(ModeEvent.DONE, now_ns, self.reason)

    def _recover(self, now_ns: int) -> None:
        assert self._get_up is not None
        assert self.state is not None
        try:
            done = self._get_up.fill(now_ns, self.state, self.asked)
        except GaveUpError as why:
            self._event(ModeEvent.DAMP, now_ns, f"could not get up: {why}")
            return
        if done:
            self.situation.upright = True
            decision = self._event(ModeEvent.DONE, now_ns, self.reason)
            if not decision.accepted:
                self._event(ModeEvent.DAMP, now_ns, decision.words)

    def _objection(self) -> str:
        """Why the excitation must end, "" while it may go on."""
        movement, state = self._movement, self.state
        if not isinstance(movement, excitation.Excitation) or state is None:
            return ""
        return movement.objection(state)

    def _walk(self, now_ns: int) -> None:
        """Write the policy's command into `asked`."""
        assert self.state is not None
        self.walking.fill(self.state, now_ns)

    def _limit(self, now_ns: int, torque_fraction: float) -> JointCommand | None:
        assert self.state is not None
        if self.mode is DAMPING:
            return None
        if self.mode is Mode.RECOVERING and self._get_up is not None:
            torque_fraction = min(torque_fraction, self._get_up.torque_share)
        sent = self.limiter.limit(self.asked, self.state, torque_fraction)
        if sent is None:
            self.policy_failed |= self.mode in POLICY_MODES
            self.fail("the command is not finite", now_ns)
        elif self.mode in POLICY_MODES:
            may_adapt = self.situation.verdict.may_adapt
            self.walking.learn(self.state, self.limiter, may_adapt)
        return sent


def _is_upright(state: RobotState, least: float = UPRIGHT) -> bool:
    _, x, y, _ = state.attitude()
    return 1.0 - 2.0 * (x * x + y * y) > least
