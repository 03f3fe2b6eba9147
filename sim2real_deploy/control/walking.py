"""The policies' part of control: runs them when they are due and writes their joint command."""

import time

from sim2real_deploy.control.adaptation import Adaptation, Own
from sim2real_deploy.control.hand_over import HandOver, command_of
from sim2real_deploy.control.limits import Limiter
from sim2real_deploy.control.repertoire import BLEND_S, LEAD_S, TAKE_OVER_S, Repertoire
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import JointCommand, RobotState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import Numbers

HAND_OVER_S = 0.4  # from standing to the policy's own targets and gains


class Walking:
    """`fill` writes the command of one tick into `asked`; `sent` is the last one after limits."""

    def __init__(
        self,
        repertoire: Repertoire,
        adaptation: Adaptation | None,
        velocity: VelocityCommand,
        period_ns: int,
        asked: JointCommand,
        sent: JointCommand,
    ) -> None:
        self._repertoire = repertoire
        self._adaptation = adaptation
        self.own = [Own.of(policy, number) for number, policy in enumerate(repertoire.policies)]
        if adaptation is not None:
            adaptation.know(self.own)
        self._velocity = velocity
        self._period_ns = period_ns
        self._asked = asked
        self._sent = sent
        self.stepped = 0  # bit k: policy k of the repertoire stepped in this tick
        self.stepped_ns = 0  # monotonic time of the last step
        self.late = 0  # steps that came more than one policy period late
        self.observe_ns = 0  # time spent in this tick
        self.infer_ns = 0
        self.switched = ""  # why the active policy is not the first one, for a person
        self._begun = False  # adaptation has: not so on the way from standing
        self._hand_over: HandOver | None = None  # in progress, towards the active policy's command
        self.due_ns = 0  # of the active policy's next step
        # During a switch: the command of the active policy's step in the last tick, with which the
        # policy being left steps in this one.
        self._outgoing_command: Numbers | None = None

    @property
    def handing_over(self) -> bool:
        return self._hand_over is not None

    @property
    def plain_until_ns(self) -> int:
        """The next step of a policy that walks alone: until then `asked` stays. Else 0."""
        switching = self._hand_over is not None or self._outgoing_command is not None
        return 0 if switching else self.due_ns

    @property
    def step_period_ns(self) -> int:
        policy = self._repertoire.policy
        assert policy is not None
        return round(1e9 / policy.contract.rate_hz)

    def catch_up(self, due_ns: int, stepped_ns: int, surprise: float) -> None:
        """A compiled loop has stepped the active policy."""
        self.due_ns, self.stepped_ns = due_ns, stepped_ns
        self._repertoire.catch_up(surprise)

    def clear_tick(self) -> None:
        """A new tick: no policy has stepped yet."""
        self.stepped = self.observe_ns = self.infer_ns = 0

    def begin(self, now_ns: int) -> None:
        """Start walking with the active policy, from the last command sent."""
        self._repertoire.begin()
        self._velocity.halt()
        self._hand_over = HandOver(self._sent.copy(), now_ns, HAND_OVER_S)
        self.due_ns, self._outgoing_command = 0, None
        if self._adaptation is not None:
            self._adaptation.begin()

    def switch(self, index: int, now_ns: int, walking: bool) -> None:
        """Make another policy the active one. While walking both run until it has taken over."""
        repertoire = self._repertoire
        if walking:
            old = command_of(repertoire.policies[repertoire.active])
            repertoire.pass_to(index)
            self._hand_over = HandOver(old, now_ns + round(LEAD_S * 1e9), BLEND_S)
        else:
            repertoire.choose(index)
        self.switched = "asked for"

    def fill(self, state: RobotState, now_ns: int) -> None:
        if now_ns + self._period_ns // 2 >= self.due_ns:
            self._step(state, now_ns)
        elif self._outgoing_command is not None:
            self._step_outgoing(state, self._outgoing_command)
        policy = self._repertoire.policy
        assert policy is not None
        self._begun = self._hand_over is None or self._repertoire.outgoing is not None
        if self._hand_over is not None:
            self._blend(self._hand_over, policy, state, now_ns)
            return
        if self.stepped:
            self._asked.q[:] = policy.target
            if policy.wheels:
                self._asked.dq[:] = policy.speed
        self._correct(state, policy.kp, policy.kd)

    def learn(self, state: RobotState, limiter: Limiter, may_adapt: bool) -> None:
        """After the limits. Between two policies adaptation continues."""
        if self._adaptation is not None:
            sent, acted = limiter.sent_block, limiter.acted_bits
            self._adaptation.learn(state, sent, acted, may_adapt, self._begun)

    def _step(self, state: RobotState, now_ns: int) -> None:
        repertoire = self._repertoire
        assert repertoire.policy is not None
        period_ns = self.step_period_ns
        behind = now_ns - self.due_ns > period_ns
        self.late += behind and self.due_ns > 0
        self.due_ns = (now_ns if behind else self.due_ns) + period_ns
        self.stepped_ns = time.monotonic_ns()
        command = self._velocity.shape(now_ns, not repertoire.policy.blind)
        astray = repertoire.step(state, command, now_ns)
        self._note_step()
        if self._adaptation is not None:
            self._adaptation.tell(repertoire.active, self._velocity.shaping)
        if self._outgoing_command is not None and not astray:  # no tick lay between two steps
            self._step_outgoing(state, command)
        self._outgoing_command = None if repertoire.outgoing is None else command
        if astray:
            self._fall_back(astray, now_ns)

    def _step_outgoing(self, state: RobotState, command: Numbers) -> None:
        self._outgoing_command = None
        self._repertoire.step_outgoing(state, command)
        self._note_step()

    def _note_step(self) -> None:
        repertoire = self._repertoire
        self.observe_ns, self.infer_ns = repertoire.observe_ns, repertoire.infer_ns
        self.stepped |= repertoire.stepped

    def _fall_back(self, why: str, now_ns: int) -> None:
        """Leave the active policy, starting from the last command sent. Its refuge steps in the
        next tick."""
        left = self._repertoire.name
        self._repertoire.fall_back()
        self._hand_over = HandOver(self._sent.copy(), now_ns, TAKE_OVER_S)
        self.due_ns, self._outgoing_command = 0, None
        self.switched = f"in place of {left}: {why}"

    def _blend(self, pending: HandOver, policy: Policy, state: RobotState, now_ns: int) -> None:
        """Write the blended command. Between two policies adaptation continues; on the way from
        standing it has not begun. A switch is complete with a step of the new policy: so the bag's
        rows tell whether a policy goes on or begins again."""
        done = pending.fill(policy, now_ns, self._asked)
        if self._begun:
            self._correct(state, self._asked.kp, self._asked.kd)
        if done and (self._repertoire.outgoing is None or self._outgoing_command is not None):
            self._hand_over = self._outgoing_command = None
            self._repertoire.settle()

    def _correct(self, state: RobotState, kp: Floats, kd: Floats) -> None:
        """Write the gains with adaptation's factor, and its torque, into `asked`."""
        if self._adaptation is not None:
            self._adaptation.correct(state, kp, kd, self._asked.block())
