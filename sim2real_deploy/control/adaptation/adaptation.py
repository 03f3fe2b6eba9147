"""Corrections to the policy's commands, from estimates of the robot.

Gains are divided by the strength that was found; feed-forward torque carries what a payload and
each joint's friction add.
Corrections act only while the policy walks, stay within bounds that no reading can move, change
slowly, and fade out when they are switched off. Limits come afterwards and know nothing of them.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import assembled, part, prepare, table
from sim2real_deploy.control import velocity_command
from sim2real_deploy.control.adaptation import (
    feed_forward,
    friction,
    leg_loads,
    payload,
    strength,
    velocity_hold,
)
from sim2real_deploy.control.adaptation.feed_forward import feed_forward as push_joints
from sim2real_deploy.control.adaptation.friction import Friction
from sim2real_deploy.control.adaptation.leg_loads import Seen
from sim2real_deploy.control.adaptation.payload import Load
from sim2real_deploy.control.adaptation.reference import Reference
from sim2real_deploy.control.adaptation.strength import Motors
from sim2real_deploy.control.adaptation.velocity_hold import Hold, Told
from sim2real_deploy.control.stages import Adapts
from sim2real_deploy.control.velocity_command import Shaping
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import RobotSpec, RobotState, legs, odometry
from sim2real_deploy.robots.state import Floats

Array = Any  # a numpy array, as the compiled loops see it
# Ticks of a cycle: odd, so that over time every phase of a policy step is sampled.
# Each part of the work has its own tick of the cycle.
CYCLE = 11
LEG_TICKS = 4  # first ticks of a cycle, for the legs' loads; its last tick prepares them
PUSH = (4, 9)
TAKE, COMPARE, ESTIMATE, FOLLOW, PREPARE = 5, 6, 7, 8, 10
GAIN_LOW, GAIN_HIGH = 0.8, 1.25  # bounds of the factor on gains
GAIN_FROM, GAIN_UNTIL = 0.03, 0.02  # a factor this far from one is used, until it is this close
GAIN_RATE = 0.25  # 1/s: the most that a factor changes
TORQUE_BOUND = 0.1  # of the torque limit: bound of the added torque
TORQUE_FILTER_S = 0.01
PAYLOAD_BOUND_KG = 4.0
PAYLOAD_FROM_KG, PAYLOAD_UNTIL_KG = 0.8, 0.5  # a payload this large is carried, until this small
PAYLOAD_RATE = 2.0  # kg/s: the most that what is carried changes
FADE_S = 1.0  # corrections come and go within this time
# Places in `now`, `figures` and `memo`.
LEVEL, CARRIED_KG, STRAIN = range(3)
CYCLE_S, KEEP, SUPPORTED_KG = range(3)
PHASE, TICK, STEPPED, LIMITED, AT_LIMIT, PUSHES, GAINS, TORQUES, STEERS = range(9)
PARTS = (Adapts.STRENGTH, Adapts.MRAC, Adapts.VELOCITY)  # GAINS, TORQUES, STEERS
MODULES = (
    *(feed_forward, friction, leg_loads, payload, strength, velocity_hold),
    *(velocity_command, odometry, legs),
)
_sources = tuple(module.__name__ for module in MODULES)


class Own(NamedTuple):
    """What adaptation and its loops need of one policy."""

    kp: Array
    kd: Array
    estimates: Array  # of its network
    missed: Array  # places of the velocity missed among them; empty if it tells none
    ranges: Array  # rows: low, high; of its velocity command
    pace: Array  # see Told

    @classmethod
    def of(cls, policy: Policy, number: int) -> "Own":
        ranges, rate_hz = policy.contract.command_ranges, policy.contract.rate_hz
        stride = round((policy.gait_period_s or velocity_hold.STRIDE_S) * rate_hz)
        steps = min(max(stride, 1), velocity_hold.MOST_STEPS)
        return cls(
            kp=policy.kp,
            kd=policy.kd,
            estimates=policy.estimates,
            missed=np.array(policy.missed, np.int64),
            ranges=np.array((ranges.vx, ranges.vy, ranges.wz), float).T.copy(),
            pace=np.array((1.0 / rate_hz, steps, number)),
        )


class Adapting(NamedTuple):
    """All that adaptation works on; its parts as tables, which are quicker to compile."""

    motors: Any  # Motors
    friction: Any  # Friction
    load: Any  # Load
    hold: Any  # Hold
    told: Told
    seen: Seen
    gain: Array  # factor on kp and kd
    torque: Array  # Nm, added
    wanted: Array  # factors, bounds apart
    uses: Array  # joints whose factor is not one
    factor: Array  # before fading
    pushed: Array  # Nm, the payload's part, before fading
    shares: Array  # of each leg's torque that is the payload's
    leg_of: Array  # each joint's
    now: Array  # how far corrections have faded in, 0 to 1; payload carried, kg; strain
    figures: Array
    memo: Array  # tick of the cycle, the robot's counter in the last state, and flags


@part
def follow_strength(parts: Adapting) -> float:
    """Move each joint's factor towards nominal by found strength, at its rate, in its bounds.
    Returns the most that is wanted, by its bound."""
    most, strain = GAIN_RATE * parts.figures[CYCLE_S], 0.0
    wanted, uses, factor = parts.wanted, parts.uses, parts.factor
    for j in range(wanted.size):
        wanted[j] = parts.motors.rows.nominal[j] / max(parts.motors.rows.strength[j], 1e-3)
        off = abs(wanted[j] - 1.0)
        uses[j] = off > GAIN_FROM or (uses[j] and off > GAIN_UNTIL)
        goal = min(max(wanted[j], GAIN_LOW), GAIN_HIGH) if uses[j] else 1.0
        factor[j] += min(max(goal - factor[j], -most), most)
        parts.gain[j] = 1.0 + parts.now[LEVEL] * (factor[j] - 1.0)
        up, down = (wanted[j] - 1.0) / (GAIN_HIGH - 1.0), (1.0 - wanted[j]) / (1.0 - GAIN_LOW)
        strain = max(strain, up, down)
    return strain


@part
def follow_payload(parts: Adapting) -> float:
    """Carry what is found, at its rate, and no more of it while a limit acts. Returns what is
    found, by its bound."""
    now, found = parts.now, parts.load.rows.believed[payload.PAYLOAD]
    least = PAYLOAD_UNTIL_KG if now[CARRIED_KG] > 0.0 else PAYLOAD_FROM_KG
    wanted = min(max(found, 0.0), PAYLOAD_BOUND_KG)
    if wanted < least:
        wanted = 0.0
    most = PAYLOAD_RATE * parts.figures[CYCLE_S]
    more = 0.0 if parts.memo[AT_LIMIT] else most
    now[CARRIED_KG] += min(max(wanted - now[CARRIED_KG], -most), more)
    return found / PAYLOAD_BOUND_KG  # type: ignore[no-any-return]


@part
def follow(parts: Adapting, allowed: bool) -> None:
    """Once per cycle: corrections fade and move towards what is believed."""
    memo, now, rubs, strain = parts.memo, parts.now, parts.friction.rows, 0.0
    fades = parts.figures[CYCLE_S] / FADE_S
    now[LEVEL] = min(1.0, now[LEVEL] + fades) if allowed else max(0.0, now[LEVEL] - fades)
    friction.update(rubs, not memo[AT_LIMIT])
    load_strain = follow_payload(parts)
    if memo[GAINS]:
        strain = follow_strength(parts)
    if memo[TORQUES]:
        strain = max(strain, load_strain, rubs.figures[friction.STRAIN])
    now[STRAIN] = strain
    memo[AT_LIMIT] = 0


@part
def look(seen: Seen, numbers: Array, tick: int) -> None:
    seen.tick[0] = tick
    for i in range(seen.imu.size):
        seen.imu[i] = numbers[i]
    joints = seen.joints.shape[1]
    for j in range(joints):
        for row in range(2):
            seen.joints[row, j] = numbers[leg_loads.JOINTS + row * joints + j]
        seen.joints[leg_loads.TORQUE, j] = numbers[leg_loads.JOINTS + 3 * joints + j]


@part
def push(parts: Adapting) -> None:
    """The torque to add at this state."""
    rubs, carried = parts.friction.rows, parts.now[CARRIED_KG]
    some = parts.memo[PUSHES] or carried > 0.0
    for j in range(rubs.believed.size):
        some = some or rubs.believed[j] > 0.0
    if not some:
        return
    for leg in range(parts.shares.size):
        share = carried / (parts.figures[SUPPORTED_KG] + carried)
        parts.shares[leg] = share * parts.load.rows.carries[leg]
    parts.memo[PUSHES] = push_joints(
        parts.seen.joints,
        parts.shares,
        parts.leg_of,
        rubs.believed,
        rubs.bound,
        parts.figures[KEEP],
        parts.now[LEVEL],
        parts.pushed,
        parts.torque,
    )


@part
def learn_phase(parts: Adapting, phase: int) -> None:
    """One part of the work of a cycle."""
    if phase < LEG_TICKS:
        for leg in range(phase, parts.shares.size, LEG_TICKS):
            payload.learn(
                parts.load.rows, leg, parts.seen, parts.friction.rows, parts.memo[AT_LIMIT] != 0
            )
    elif phase == TAKE:
        strength.take(parts.motors.rows, parts.seen.joints)
    elif phase == COMPARE:
        strength.compare(parts.motors.rows)
    elif phase == ESTIMATE:
        strength.estimate(parts.motors.rows)
    elif phase == PREPARE:
        leg_loads.mark(parts.load.rows.legs, parts.seen)


@part
def steer(parts: Adapting, allowed: bool) -> None:
    """After a step of the policy: correct the command of the next one. A step in which a limit
    acted teaches nothing."""
    told, memo, unknown = parts.told, parts.memo, parts.memo[LIMITED]
    memo[STEPPED] = memo[LIMITED] = 0
    payload.look(parts.load.rows)
    for axis in range(2):
        told.seen[axis] = math.nan if unknown else parts.load.rows.velocity[axis]
    told.seen[2] = parts.seen.imu[leg_loads.GYROSCOPE + 2]
    if memo[STEERS]:
        velocity_hold.step(parts.hold.rows, told, allowed)


@part
def note_step(parts: Adapting, own: Own, shaped: Array, given: Array) -> None:
    """A policy has stepped: with what command, and what its network believes."""
    told = parts.told
    parts.memo[STEPPED] = 1
    for axis in range(3):
        told.command[axis], told.pace[axis] = shaped[axis], own.pace[axis]
        told.believed[axis] = math.nan
        if own.missed.size == 3:
            within = min(max(given[axis], own.ranges[0, axis]), own.ranges[1, axis])
            told.believed[axis] = own.estimates[own.missed[axis]] + within


@assembled(*_sources)
def tell(adapting: Any, own: Any, shaped: Array, given: Array) -> None:
    """See `note_step`."""
    note_step(adapting.rows, own.rows, shaped, given)


@assembled(*_sources)
def correct(adapting: Any, numbers: Array, tick: int, kp: Array, kd: Array, asked: Array) -> None:
    """Before the limits: write gains with their factor, and the torque added, into `asked`."""
    parts = adapting.rows
    look(parts.seen, numbers, tick)
    if parts.memo[TORQUES] and (parts.memo[PHASE] == PUSH[0] or parts.memo[PHASE] == PUSH[1]):
        push(parts)
    for j in range(parts.gain.size):
        asked[2, j], asked[3, j] = kp[j] * parts.gain[j], kd[j] * parts.gain[j]
        asked[4, j] = parts.torque[j]


@assembled(*_sources)
def learn(
    adapting: Any,
    numbers: Array,
    tick: int,
    sent: Array,
    acted: Array,
    begun: bool,
    allowed: bool,
) -> float:
    """After the limits: learn from the state, the command as it left and the limits that acted. On
    the way from standing it has not `begun`, and teaches nothing. Returns the strain: what is
    wanted, by what the bounds allow; above one, a bound holds it."""
    parts = adapting.rows
    memo, phase = parts.memo, parts.memo[PHASE]
    look(parts.seen, numbers, tick)
    if memo[STEPPED]:
        steer(parts, allowed)
    if begun:
        memo[PHASE] = (phase + 1) % CYCLE
        if tick != memo[TICK]:
            learn_phase(parts, phase)
        if phase == FOLLOW:
            follow(parts, allowed)
    memo[TICK] = tick
    if strength.remember(parts.motors.rows, sent, acted):
        memo[LIMITED] = memo[AT_LIMIT] = 1
    return parts.now[STRAIN]  # type: ignore[no-any-return]


class Adaptation:
    """`correct` before the limits of each tick of walking, `learn` after them. `adapting` is for
    compiled loops."""

    def __init__(self, spec: RobotSpec, adapts: Adapts, reference: Reference) -> None:
        joints, rate_hz = spec.joint_count, spec.wire.rate_hz / CYCLE
        bounds = TORQUE_BOUND * spec.torque_limit.astype(np.float64)
        self.adapts = adapts
        self.period_s = 1.0 / spec.wire.rate_hz
        self.joint_names = spec.joint_names
        self.nominal = reference.strengths(spec)
        self.correction = np.zeros(3)  # of the velocity command
        self.motors = Motors.of(spec.torque_limit, self.nominal, rate_hz)
        self.friction = Friction.of(spec.torque_limit, bounds, rate_hz)
        self.load = Load.of(spec, reference, rate_hz)
        self.hold = Hold.of(self.correction)
        self.gain = np.ones(joints, np.float32)
        self.torque = np.zeros(joints, np.float32)
        push_s = CYCLE / spec.wire.rate_hz / len(PUSH)
        leg_of = np.zeros(joints, np.int64)
        for number, leg in enumerate(self.load.legs.legs):
            leg_of[leg[0]] = number
        self.parts = Adapting(
            motors=table(self.motors),
            friction=table(self.friction),
            load=table(self.load),
            hold=table(self.hold),
            told=Told.nothing(),
            seen=Seen(np.zeros(10), np.zeros((3, joints)), np.zeros(1, np.int64)),
            gain=self.gain,
            torque=self.torque,
            wanted=np.ones(joints),
            uses=np.zeros(joints, np.bool_),
            factor=np.ones(joints),
            pushed=np.zeros(joints),
            shares=np.zeros(len(self.load.carries)),
            leg_of=leg_of,
            now=np.zeros(3),
            figures=np.array(
                [1.0 / rate_hz, push_s / (push_s + TORQUE_FILTER_S), reference.supported_kg]
            ),
            memo=np.array([0, -1, 0, 0, 0, 0, *(adapts in (one, Adapts.ALL) for one in PARTS)]),
        )
        self.adapting = table(self.parts)
        # Compiled now, and not in the first tick.
        state, block = self.torque, np.zeros((5, joints), np.float32)
        prepare(correct, self.adapting, state, 0, self.gain, self.gain, block)
        prepare(learn, self.adapting, state, 0, block, np.zeros(joints, np.uint8), False, False)

    def begin(self) -> None:
        """Walking begins: corrections fade in from nothing, beliefs are kept."""
        parts = self.parts
        self.motors.restart()
        self.hold.begin()
        parts.now[LEVEL] = 0.0
        parts.memo[[STEPPED, LIMITED, PUSHES]] = 0
        parts.pushed[:] = 0.0
        self.gain[:], self.torque[:] = 1.0, 0.0

    def know(self, policies: Sequence[Own]) -> None:
        """Those that will walk."""
        self._policies = [table(own) for own in policies]
        for own in self._policies:
            prepare(tell, self.adapting, own, self.correction, self.correction)

    def tell(self, policy: int, shaping: Shaping) -> None:
        """After a step of one of them, by its number."""
        tell(self.adapting, self._policies[policy], shaping.shaped, shaping.given)

    def correct(self, state: RobotState, kp: Floats, kd: Floats, asked: Floats) -> None:
        correct(self.adapting, state.numbers, state.tick, kp, kd, asked)

    def learn(
        self, state: RobotState, sent: Floats, acted: Array, allowed: bool, begun: bool = True
    ) -> None:
        learn(self.adapting, state.numbers, state.tick, sent, acted, begun, allowed)

    @property
    def phase(self) -> int:
        """Tick of the cycle."""
        return int(self.parts.memo[PHASE])

    @property
    def level(self) -> float:
        return float(self.parts.now[LEVEL])

    @property
    def strain(self) -> float:
        """What is wanted, by what the bounds allow: above one, a bound holds it."""
        return float(self.parts.now[STRAIN])
