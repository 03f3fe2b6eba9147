"""Corrections to what the policy asks for, from what the wire shows of the robot.

Gains are divided by the strength that was found; feed-forward torque carries what a payload and
each joint's friction add.
Corrections act only while the policy walks, stay within bounds that no reading can move, change
slowly, and fade out when they are switched off. Limits come afterwards and know nothing of them.
"""

from enum import Enum

import numpy as np

from sim2real_deploy.control.adaptation.feed_forward import feed_forward
from sim2real_deploy.control.adaptation.friction import FrictionEstimator
from sim2real_deploy.control.adaptation.payload import PayloadEstimator
from sim2real_deploy.control.adaptation.reference import Reference
from sim2real_deploy.control.adaptation.strength import Flags, StrengthEstimator
from sim2real_deploy.control.adaptation.velocity_hold import VelocityHold, VelocityViews
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import REST

# Ticks of a cycle: odd, so that in time every tick between two steps of a policy is learnt from.
# Each part of the work has its own tick of the cycle.
CYCLE = 11
LOOKS = 4  # ticks for the legs' loads, from the first tick on; the last tick has a glance before
PUSH = (4, 9)
LEARN, COMPARE, ESTIMATE, FOLLOW, GLANCE = 5, 6, 7, 8, 10
GAIN_LOW, GAIN_HIGH = 0.8, 1.25  # bounds of the factor on gains
GAIN_FROM, GAIN_UNTIL = 0.03, 0.02  # a factor this far from one is used, until it is this close
GAIN_RATE = 0.25  # 1/s: the most that a factor changes
TORQUE_BOUND = 0.1  # of the torque limit: bound of the added torque
TORQUE_FILTER_S = 0.01
PAYLOAD_BOUND_KG = 4.0
PAYLOAD_FROM_KG, PAYLOAD_UNTIL_KG = 0.8, 0.5  # a payload this large is carried, until this small
PAYLOAD_RATE = 2.0  # kg/s: the most that what is carried changes
FADE_S = 1.0  # corrections come and go within this time


class Adapts(str, Enum):
    """What may be corrected."""

    NONE = "none"
    STRENGTH = "strength"  # gains
    MRAC = "mrac"  # feed-forward torque
    VELOCITY = "velocity"  # the velocity command
    ALL = "all"

    def within(self, most: "Adapts") -> bool:
        return self in (Adapts.NONE, most) or most is Adapts.ALL


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
        self._steers = adapts in (Adapts.VELOCITY, Adapts.ALL)
        self._limited = False  # a limit acted since the last step of the policy
        self._at_limit = False  # and since the payload was last followed
        self._gains = adapts in (Adapts.STRENGTH, Adapts.ALL)
        self._torques = adapts in (Adapts.MRAC, Adapts.ALL)
        self._bounds = bounds
        self._mass_kg = reference.mass_kg
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
        self._tick = 0
        self._seen: int | None = None  # the robot's counter of the last state
        self._steered = self._waited = False  # this tick, the one before
        for number, leg in enumerate(self.load.legs):
            self._leg_of[list(leg.joints)] = number
        self._push(self.torque, self.torque)  # compiles

    def begin(self) -> None:
        """Walking begins: corrections fade in from nothing, beliefs are kept."""
        self.motors.restart()
        self.hold.begin()
        self.level, self._usable, self._limited = 0.0, None, False
        self._pushes, self._steered = False, False
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
        """Learn from a state; True when `gain` or `torque` have changed. A tick with a step of the
        policy has its own work: this waits for the next one."""
        self._waited, self._steered = self._steered and not self._waited, False
        if self._waited:
            return False
        phase, self._tick = self._tick, (self._tick + 1) % CYCLE
        fresh, self._seen = state.tick != self._seen, state.tick
        if fresh:
            self._observe(phase, state)
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
        """Once for each step of the policy, before it: the correction of its velocity command.
        A step in which a limit acted teaches nothing."""
        self._steered = True
        if not self._steers:
            return REST
        walked, believed = self.load.walked(), policy.estimated_velocity()
        usable = not self._limited and walked is not None and believed is not None
        seen = None
        if usable and walked is not None and believed is not None:
            seen = VelocityViews((*walked, state.rates()[2]), believed)
        self._limited = False
        self.hold.step(command, seen, 1.0 / policy.contract.rate_hz, allowed)
        return self.hold.trim

    def _observe(self, phase: int, state: RobotState) -> None:
        if phase < LOOKS:
            for leg in range(phase, len(self.load.legs), LOOKS):
                self.load.look(leg, state, self._at_limit)
        elif phase == LEARN:
            self.motors.learn(state.q, state.dq, state.torque, self._usable)
            self._usable = None
        elif phase == COMPARE:
            self.motors.compare()
        elif phase == ESTIMATE:
            self.motors.estimate()
        elif phase == GLANCE:
            self.load.glance(state)

    def _fade(self, allowed: bool) -> None:
        step = self._cycle_s / FADE_S
        self.level = min(1.0, self.level + step) if allowed else max(0.0, self.level - step)
        self.friction.follow(grow=not self._at_limit)
        self._follow_payload()
        if self._gains:
            self._follow_strength()

    def _follow_strength(self) -> None:
        self._wanted = self.nominal / np.maximum(self.motors.strength, 1e-3)
        off = np.abs(self._wanted - 1.0)
        self._uses = (off > GAIN_FROM) | (self._uses & (off > GAIN_UNTIL))
        bounded = np.minimum(np.maximum(self._wanted, GAIN_LOW), GAIN_HIGH)
        change, most = np.where(self._uses, bounded, 1.0) - self._factor, GAIN_RATE * self._cycle_s
        self._factor += np.minimum(np.maximum(change, -most), most)
        self.gain[:] = 1.0 + self.level * (self._factor - 1.0)

    def _follow_payload(self) -> None:
        found = min(max(self.load.payload_kg, 0.0), PAYLOAD_BOUND_KG)
        least = PAYLOAD_UNTIL_KG if self._payload_kg else PAYLOAD_FROM_KG
        wanted, most = found if found >= least else 0.0, PAYLOAD_RATE * self._cycle_s
        more = 0.0 if self._at_limit else most  # no more of it while a limit acts
        self._payload_kg += min(max(wanted - self._payload_kg, -most), more)
        self._at_limit = False

    def _push(self, torque: Floats, speed: Floats) -> None:
        share = self._payload_kg / (self._mass_kg + self._payload_kg)
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
            strain = max(strain, self.load.payload_kg / PAYLOAD_BOUND_KG)
            strain = max(strain, float((self.friction.found / self._bounds).max()))
        return strain
