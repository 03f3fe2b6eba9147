"""Corrections to what the policy asks for, from what the wire shows of the robot.

Gains are divided by the strength that was found; feed-forward torque takes over what a payload and
added friction demand. Corrections act only while the policy walks, stay within bounds that no
reading can move, change slowly, and fade out when they are switched off. Limits come afterwards
and know nothing of them.
"""

from enum import Enum

import numpy as np

from sim2real_deploy.control.adaptation.payload import PayloadEstimator
from sim2real_deploy.control.adaptation.reference import Reference, Vector
from sim2real_deploy.control.adaptation.strength import CERTAIN, StrengthEstimator
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats

EVERY = 4  # ticks: each part of the work has its own tick out of so many
GAIN_LOW, GAIN_HIGH = 0.8, 1.25  # bounds of the factor on gains
TORQUE_BOUND = 0.1  # of the torque limit: bound of the added torque
PAYLOAD_BOUND_KG = 4.0
PAYLOAD_FROM_KG, PAYLOAD_UNTIL_KG = 0.8, 0.5  # made up for from the first on, until the second
GAIN_RATE = 0.25  # 1/s: the most that a factor changes
PAYLOAD_RATE = 2.0  # kg/s: likewise
TORQUE_FILTER_S = 0.01
FADE_S = 1.0  # corrections come and go within this time


class Adapts(str, Enum):
    """What may be corrected."""

    NONE = "none"
    STRENGTH = "strength"  # gains
    MRAC = "mrac"  # feed-forward torque
    ALL = "all"


class Adaptation:
    """`step` in every tick of walking, `remember` what was sent at its end."""

    def __init__(self, spec: RobotSpec, adapts: Adapts, reference: Reference) -> None:
        joints = spec.joint_count
        rate_hz = spec.wire.rate_hz / EVERY
        self.joint_names = spec.joint_names
        self.nominal = reference.strengths(spec)
        self.motors = StrengthEstimator(spec.torque_limit, self.nominal, rate_hz)
        self.load = PayloadEstimator(spec, reference.supported_kg, rate_hz)
        self.gain = np.ones(joints, np.float32)  # factor on kp and kd, in force
        self.torque = np.zeros(joints, np.float32)  # Nm, added
        self._gains = adapts in (Adapts.STRENGTH, Adapts.ALL)
        self._torques = adapts in (Adapts.MRAC, Adapts.ALL)
        self._bound: Floats = np.float32(TORQUE_BOUND) * spec.torque_limit
        self._supported_kg = reference.supported_kg
        self._period_s = EVERY / spec.wire.rate_hz
        self._factor = np.ones(joints)  # before fading
        self._pushed = np.zeros(joints)
        self._payload_kg = 0.0  # that is made up for
        self._level = 0.0  # 0 to 1: fading
        self._usable = np.ones(joints, np.bool_)
        self._tick = 0
        self._seen: int | None = None  # the robot's counter of the last state

    def begin(self) -> None:
        """Walking begins: corrections fade in from nothing, beliefs are kept."""
        self.motors.restart()
        self._level = 0.0
        self._pushed[:] = 0.0
        self._usable[:] = True
        self.gain[:], self.torque[:] = 1.0, 0.0

    def remember(self, sent: Floats, acted: bytes) -> None:
        """The command of this tick as it left, and the limits that acted on each joint."""
        self.motors.remember(sent)
        if any(acted):
            self._usable &= np.frombuffer(acted, np.uint8) == 0

    def step(self, state: RobotState, allowed: bool) -> bool:
        """Learn from a state; True when `gain` and `torque` may have changed."""
        phase = self._tick % EVERY
        self._tick += 1
        fresh, self._seen = state.tick != self._seen, state.tick
        if fresh:
            self._look(phase, state)
        if phase == EVERY - 1:
            self._correct(state, allowed)
            return True
        return False

    def _look(self, phase: int, state: RobotState) -> None:
        q, torque = state.q.tolist(), state.torque.tolist()
        for leg in range(phase, len(self.load.legs), EVERY):
            self.load.look(leg, state, q, torque)
        if phase == 0:
            self.motors.learn(state.q, state.dq, state.torque, self._usable)
            self._usable[:] = True
        elif phase == 1:
            self.motors.estimate()

    def _correct(self, state: RobotState, allowed: bool) -> None:
        step = self._period_s / FADE_S
        self._level = min(1.0, self._level + step) if allowed else max(0.0, self._level - step)
        if self._gains:
            most = GAIN_RATE * self._period_s
            wanted = np.clip(self.wanted_gain(), GAIN_LOW, GAIN_HIGH)
            self._factor += np.clip(wanted - self._factor, -most, most)
            self.gain[:] = 1.0 + self._level * (self._factor - 1.0)
        if self._torques:
            self._push(state.torque)
            bound = self._level * self._bound
            np.clip(self._level * self._pushed, -bound, bound, out=self.torque)

    def wanted_gain(self) -> Vector:
        """What the gains would have to be multiplied by, bounds apart."""
        certain = self.motors.error < CERTAIN
        return np.where(certain, self.nominal / np.maximum(self.motors.strength, 1e-3), 1.0)

    def _push(self, torque: Floats) -> None:
        """A leg that stands on the ground gets the payload's share of its own torque on top."""
        self._follow_payload()
        share = self._payload_kg / (self._supported_kg + self._payload_kg)
        keep = self._period_s / (self._period_s + TORQUE_FILTER_S)
        for leg, carries in zip(self.load.legs, self.load.carries, strict=True):
            for joint in leg.joints:
                wanted = share * carries * float(torque[joint])
                if abs(wanted) <= 2.0 * float(self._bound[joint]):  # not so for NaN
                    self._pushed[joint] += keep * (wanted - self._pushed[joint])

    def _follow_payload(self) -> None:
        found = min(max(self.load.payload_kg, 0.0), PAYLOAD_BOUND_KG)
        least = PAYLOAD_UNTIL_KG if self._payload_kg else PAYLOAD_FROM_KG
        wanted, most = found if found >= least else 0.0, PAYLOAD_RATE * self._period_s
        self._payload_kg += min(max(wanted - self._payload_kg, -most), most)

    @property
    def strain(self) -> float:
        """What is wanted, by what the bounds allow: above one, a bound holds it."""
        strain = 0.0
        if self._gains:
            wanted = self.wanted_gain()
            up, down = (wanted - 1) / (GAIN_HIGH - 1), (1 - wanted) / (1 - GAIN_LOW)
            strain = float(np.maximum(up, down).max())
        if self._torques:
            strain = max(strain, self.load.payload_kg / PAYLOAD_BOUND_KG)
        return strain
