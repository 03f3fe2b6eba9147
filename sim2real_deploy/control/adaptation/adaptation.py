"""Corrections to the policy's commands, from estimates of the robot.

Gains are divided by the strength that was found; feed-forward torque carries what a payload and
each joint's friction add.
Corrections act only while the policy walks, stay within bounds that no reading can move, change
slowly, and fade out when they are switched off. Limits come afterwards and know nothing of them.
"""

from typing import Any

import numpy as np

from sim2real_deploy.compiled import compiled
from sim2real_deploy.control.adaptation.feed_forward import feed_forward
from sim2real_deploy.control.adaptation.friction import FrictionEstimator
from sim2real_deploy.control.adaptation.payload import PayloadEstimator
from sim2real_deploy.control.adaptation.reference import Reference
from sim2real_deploy.control.adaptation.strength import Flags, StrengthEstimator
from sim2real_deploy.control.adaptation.velocity_hold import (
    STRIDE_S,
    Pace,
    VelocityHold,
    VelocityViews,
)
from sim2real_deploy.control.stages import Adapts
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import REST

Array = Any  # a numpy array, as the compiled loops see it
# Ticks of a cycle: odd, so that over time every phase of a policy step is sampled.
# Each part of the work has its own tick of the cycle.
CYCLE = 11
LEG_TICKS = 4  # first ticks of a cycle, for the legs' loads; its last tick prepares them
PUSH = (4, 9)
LEARN, COMPARE, ESTIMATE, FOLLOW, PREPARE = 5, 6, 7, 8, 10
HOLD = (
    COMPARE,
    ESTIMATE,
    PREPARE,
)  # cheap ticks, with time for what the last policy step left to do
GAIN_LOW, GAIN_HIGH = 0.8, 1.25  # bounds of the factor on gains
GAIN_FROM, GAIN_UNTIL = 0.03, 0.02  # a factor this far from one is used, until it is this close
GAIN_RATE = 0.25  # 1/s: the most that a factor changes
TORQUE_BOUND = 0.1  # of the torque limit: bound of the added torque
TORQUE_FILTER_S = 0.01
PAYLOAD_BOUND_KG = 4.0
PAYLOAD_FROM_KG, PAYLOAD_UNTIL_KG = 0.8, 0.5  # a payload this large is carried, until this small
PAYLOAD_RATE = 2.0  # kg/s: the most that what is carried changes
FADE_S = 1.0  # corrections come and go within this time


@compiled
def follow_strength(
    nominal: Array,
    strength: Array,
    level: float,
    most: float,
    wanted: Array,
    uses: Array,
    factor: Array,
    gain: Array,
) -> None:
    """Move each joint's factor towards nominal by found strength, at its rate, in its bounds."""
    for j in range(gain.size):
        wanted[j] = nominal[j] / max(strength[j], 1e-3)
        off = abs(wanted[j] - 1.0)
        uses[j] = off > GAIN_FROM or (uses[j] and off > GAIN_UNTIL)
        goal = min(max(wanted[j], GAIN_LOW), GAIN_HIGH) if uses[j] else 1.0
        factor[j] += min(max(goal - factor[j], -most), most)
        gain[j] = 1.0 + level * (factor[j] - 1.0)


# The command, the trunk's velocity over standing feet and its rate, the policy, may it correct.
Steered = tuple[tuple[float, ...], tuple[float, float] | None, float, Policy, bool]


class Adaptation:
    """`step` in every tick of walking, `remember` what was sent at its end."""

    def __init__(self, spec: RobotSpec, adapts: Adapts, reference: Reference) -> None:
        joints, rate_hz = spec.joint_count, spec.wire.rate_hz / CYCLE
        self.adapts = adapts
        self.period_s = 1.0 / spec.wire.rate_hz
        self.joint_names = spec.joint_names
        self.nominal = reference.strengths(spec)
        self.motors = StrengthEstimator(spec.torque_limit, self.nominal, rate_hz)
        bounds = TORQUE_BOUND * spec.torque_limit.astype(np.float64)
        self.friction = FrictionEstimator(spec.torque_limit, bounds, rate_hz)
        self.load = PayloadEstimator(spec, reference, self.friction, rate_hz)
        self.gain = np.ones(joints, np.float32)  # factor on kp and kd
        self.torque = np.zeros(joints, np.float32)  # Nm, added
        self.level = 0.0  # 0 to 1: how far corrections have faded in
        self.hold = VelocityHold()
        self._walks: Policy | None = None  # that the hold has learnt from
        self._steers = adapts in (Adapts.VELOCITY, Adapts.ALL)
        self._limited = False  # a limit acted since the last step of the policy
        self._at_limit = False  # and since the payload was last followed
        self._gains = adapts in (Adapts.STRENGTH, Adapts.ALL)
        self._torques = adapts in (Adapts.MRAC, Adapts.ALL)
        self._bounds = bounds
        self._supported_kg = reference.supported_kg
        self._cycle_s = CYCLE / spec.wire.rate_hz
        self._push_s = self._cycle_s / len(PUSH)
        self._wanted = np.ones(joints)  # factors, bounds apart
        self._uses = np.zeros(joints, np.bool_)  # joints whose factor is not one
        self._factor = np.ones(joints)  # before fading
        self._pushes = False  # torque is added
        self._pushed = np.zeros(joints)  # Nm, the payload's part, before fading
        self._torque_and_speed = np.zeros((2, joints))
        self._shares = np.zeros(len(self.load.legs))  # of each leg's torque that is the payload's
        self._leg_of = np.zeros(joints, np.int64)
        self._payload_kg = 0.0  # that is carried
        self._usable: Flags | None = None  # joints that no limit acted on; None: all
        self.phase = 0  # tick of the cycle
        self._seen: int | None = None  # the robot's counter of the last state
        self._to_hold: Steered | None = None  # what a step of the policy has left for a later tick
        self._steered = False  # that step was in this tick
        for number, leg in enumerate(self.load.legs):
            self._leg_of[list(leg.joints)] = number
        self._push(self.torque, self.torque)  # now, and not in the first tick: they are compiled
        self._follow_strength()

    def begin(self) -> None:
        """Walking begins: corrections fade in from nothing, beliefs are kept."""
        self.motors.restart()
        self.hold.begin()
        self.level, self._usable, self._limited = 0.0, None, False
        self._pushes, self._to_hold = False, None
        self._pushed[:] = 0.0
        self.gain[:], self.torque[:] = 1.0, 0.0

    def remember(self, sent: Floats, acted: bytes) -> None:
        """The command of this tick as it left, and the limits that acted on each joint."""
        self.motors.remember(sent)
        if any(acted):
            self._limited = self._at_limit = True
            free = np.frombuffer(acted, np.uint8) == 0
            self._usable = free if self._usable is None else self._usable & free

    def step(self, state: RobotState, allowed: bool) -> bool:
        """Learn from a state; True when `gain` or `torque` have changed."""
        phase, self.phase = self.phase, (self.phase + 1) % CYCLE
        fresh, self._seen = state.tick != self._seen, state.tick
        if fresh:
            self._observe(phase, state)
        if phase in HOLD and not self._steered:
            self._hold()
        self._steered = False
        if phase == FOLLOW:
            before = self.gain.tobytes()
            self._fade(allowed)
            return self.gain.tobytes() != before
        if phase in PUSH and self._torques and (self._pushes or self._has_to_push()):
            self._push(state.torque, state.dq)
            return True
        return False

    def _has_to_push(self) -> bool:
        return self._payload_kg > 0.0 or bool(self.friction.believed.any())

    def steer(
        self, command: tuple[float, ...], policy: Policy, state: RobotState, allowed: bool
    ) -> tuple[float, ...]:
        """Once for each step of the policy, before it: the correction of its velocity command. For
        a command that stays the same, what is seen now counts from the next step on."""
        if not self._steers:
            return REST
        self._steered = True
        self._to_hold = command, self.load.trunk_velocity(), state.rates()[2], policy, allowed
        if command != self.hold.command:
            self._hold()
        return self.hold.trim

    def _hold(self) -> None:
        """What the last step of the policy has left to do. A step in which a limit acted teaches
        nothing."""
        if self._to_hold is None:
            return
        command, walked, turned, policy, allowed = self._to_hold
        self._to_hold, believed, seen = None, policy.estimated_velocity(), None
        if walked is not None and believed is not None and not self._limited:
            seen = VelocityViews((*walked, turned), believed)
        self._limited = False
        if policy is not self._walks:
            self._walks = policy
            self.hold.forget()
        pace = Pace(1.0 / policy.contract.rate_hz, policy.gait_period_s or STRIDE_S)
        self.hold.step(command, seen, pace, allowed)

    def _observe(self, phase: int, state: RobotState) -> None:
        if phase < LEG_TICKS:
            for leg in range(phase, len(self.load.legs), LEG_TICKS):
                self.load.learn(leg, state, self._at_limit)
        elif phase == LEARN:
            self.motors.learn(state.q, state.dq, state.torque, self._usable)
            self._usable = None
        elif phase == COMPARE:
            self.motors.compare()
        elif phase == ESTIMATE:
            self.motors.estimate()
        elif phase == PREPARE:
            self.load.prepare(state)

    def _fade(self, allowed: bool) -> None:
        step = self._cycle_s / FADE_S
        self.level = min(1.0, self.level + step) if allowed else max(0.0, self.level - step)
        self.friction.update(grow=not self._at_limit)
        self._follow_payload()
        if self._gains:
            self._follow_strength()

    def _follow_strength(self) -> None:
        most = GAIN_RATE * self._cycle_s
        arrays = self._wanted, self._uses, self._factor, self.gain
        follow_strength(self.nominal, self.motors.strength, self.level, most, *arrays)

    def _follow_payload(self) -> None:
        found = min(max(self.load.payload_kg, 0.0), PAYLOAD_BOUND_KG)
        least = PAYLOAD_UNTIL_KG if self._payload_kg else PAYLOAD_FROM_KG
        wanted, most = found if found >= least else 0.0, PAYLOAD_RATE * self._cycle_s
        more = 0.0 if self._at_limit else most  # no more of it while a limit acts
        self._payload_kg += min(max(wanted - self._payload_kg, -most), more)
        self._at_limit = False

    def _push(self, torque: Floats, speed: Floats) -> None:
        share = self._payload_kg / (self._supported_kg + self._payload_kg)
        self._shares[:] = [share * carries for carries in self.load.carries]
        self._torque_and_speed[0], self._torque_and_speed[1] = torque, speed
        self._pushes = feed_forward(
            self._torque_and_speed,
            self._shares,
            self._leg_of,
            self.friction.believed,
            self._bounds,
            self._push_s / (self._push_s + TORQUE_FILTER_S),
            self.level,
            self._pushed,
            self.torque,
        )

    @property
    def strain(self) -> float:
        """What is wanted, by what the bounds allow: above one, a bound holds it."""
        strain = 0.0
        if self._gains:
            up, down = self._wanted - 1.0, 1.0 - self._wanted
            strain = float(max(up.max() / (GAIN_HIGH - 1.0), down.max() / (1.0 - GAIN_LOW)))
        if self._torques:
            payload = self.load.payload_kg / PAYLOAD_BOUND_KG
            strain = max(strain, payload, self.friction.strain)
        return strain
