"""A policy's step as compiled loops make it: observation, network, joint targets.

Each number of the observation is one value of `sources` (what a state, a command, the last action
and the gait clock say), less its rest position, clipped and scaled. So a table made from the
contract describes the whole observation, and a loop fills it in. Terms that have no such form keep
the policy in Python (`describe` gives None then). Equal to `Policy.observe` and `infer` bit for
bit; whatever is not finite is undone and left to them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import part, quickest
from sim2real_deploy.policy import compiled_network
from sim2real_deploy.policy.compiled_network import Network, within
from sim2real_deploy.policy.contract import Contract, Term
from sim2real_deploy.policy.observations import Observation, TermRow
from sim2real_deploy.policy.session import Session
from sim2real_deploy.robots.geometry import euler_angles, gravity_in_body

Array = Any  # a numpy array
# Places in `sources`; from JOINTS on q, dq and the last action in the policy's order, then gait
# clocks and constants.
GYROSCOPE, GRAVITY, COMMAND, ANGLES, JOINTS = 0, 3, 6, 9, 12
IMU_NUMBERS = 10  # before the joints' in a state's numbers: see LiveState
STEPS, OBSERVES_RAW = range(2)  # places in `memo`
MINUS, LOW, HIGH, SCALE, LOW_AFTER, HIGH_AFTER = range(6)  # rows of `dress`
OFFSET, GAIN, LEAST, MOST = range(4)  # rows of `act`

part(gravity_in_body)
part(euler_angles)


class CompiledStep(NamedTuple):
    """The arrays that a compiled loop shares with a Policy."""

    memo: Array
    rate: Array  # steps per second: one number
    sources: Array
    order: Array  # each of the policy's joints: its place in SDK order, whether it is a wheel
    rest: Array  # of each joint: its default position
    ranges: Array  # rows: low, high; of the velocity command
    clocks: Array  # of the gait: place in `sources`, period, offset, 1 for a cosine
    take: Array  # of each new number: its place in `sources`, in the observation
    dress: Array  # of each new number: see the rows above
    moves: Array  # of the history: to, from, count
    network: Network
    observation: Array
    kept: Array  # the observation before this step
    action: Array
    act: Array  # of each joint: see the rows above
    moved: Array  # targets in the policy's order, then those of held joints
    to_sdk: Array  # each SDK joint: its place in `moved`, whether it is a wheel
    target: Array
    speed: Array
    estimates: Array
    before: Array  # the network's states
    after: Array
    statistics: Array  # rows: mean, 1 / standard deviation; of each observed number
    judged: Array  # from, to: which numbers have statistics


class Parts(NamedTuple):
    """What a Policy is made of, for `describe`."""

    contract: Contract
    session: Session
    order: Sequence[int]
    to_sdk: Sequence[int]
    wheels: Sequence[int]  # SDK
    observations: Sequence[Observation]
    target: Array
    speed: Array
    statistics: Array
    judged: Array


class _Sources:
    """Where each term's values come from; grows by clocks and constants."""

    def __init__(self, contract: Contract) -> None:
        self.joints = len(contract.joints)
        self.size = JOINTS + 3 * self.joints
        self.clocks: list[tuple[float, ...]] = []
        self.constants: list[tuple[int, float]] = []

    def places(self, term: Term) -> Sequence[int] | None:
        """The place of each value; None for a term that has no such form."""
        found = _PLACES.get(term.name)
        return None if found is None else found(self, **term.params)

    def joint_row(self, row: int) -> Sequence[int]:
        start = JOINTS + row * self.joints
        return range(start, start + self.joints)

    def constant(self, values: Sequence[float]) -> Sequence[int]:
        places = self._new(len(values))
        self.constants += zip(places, values, strict=True)
        return places

    def clock(
        self,
        period: float,
        offsets: Sequence[float] = (0.0,),
        zero_below: float = 0.0,
        standing: Sequence[float] = (),
        part: str = "both",
    ) -> Sequence[int] | None:
        """See terms.gait_phase. One that rests with the command needs a norm of Python's own."""
        if zero_below > 0.0:
            return None
        kinds = {"both": (0.0, 1.0), "sin": (0.0,)}.get(part, (1.0,))
        rows = [(period, offset, kind) for kind in kinds for offset in offsets]
        places = self._new(len(rows))
        self.clocks += [(place, *row) for place, row in zip(places, rows, strict=True)]
        return places

    def _new(self, count: int) -> Sequence[int]:
        self.size += count
        return range(self.size - count, self.size)


_PLACES: dict[str, Callable[..., Sequence[int] | None]] = {
    "base_ang_vel": lambda _: range(GYROSCOPE, GYROSCOPE + 3),
    "projected_gravity": lambda _: range(GRAVITY, GRAVITY + 3),
    "velocity_command": lambda _: range(COMMAND, COMMAND + 3),
    "velocity_command_part": lambda _, axes: [COMMAND + range(3)[int(axis)] for axis in axes],
    "roll_pitch_yaw": lambda _, axes=(0, 1, 2): [ANGLES + range(3)[int(axis)] for axis in axes],
    "joint_pos": lambda sources: sources.joint_row(0),
    "joint_pos_rel": lambda sources: sources.joint_row(0),
    "joint_vel": lambda sources: sources.joint_row(1),
    "last_action": lambda sources: sources.joint_row(2),
    "constant": lambda sources, values: sources.constant(values),
    "gait_phase": _Sources.clock,
}


def describe(parts: Parts) -> CompiledStep | None:
    """The arrays of a policy; None if its network or one of its terms has no compiled form."""
    contract, action, session = parts.contract, parts.contract.action, parts.session
    if session.network is None:
        return None
    sources, rest = _Sources(contract), _rounded(contract.default_position)
    take: list[tuple[int, int]] = []
    dress, moves = [], []
    start = 0
    for group, observation in zip(contract.observations, parts.observations, strict=True):
        places = observation.rows(np.arange(start, start + len(observation.labels)))
        for term, row, at in zip(group.terms, observation.terms, places, strict=True):
            found = sources.places(term)
            if found is None:
                return None
            newest = at[0 if group.newest == "first" else -1]
            take += zip(found, newest, strict=True)
            minus = rest if term.name == "joint_pos_rel" else np.zeros(row.size)
            dress.append(_dress(row, minus, group.clip_first))
        for sooner, later in observation.overlaps():
            to, source = (later, sooner) if group.newest == "first" else (sooner, later)
            moves.append((start + to.start, start + source.start, to.stop - to.start))
        start += len(observation.labels)
    held = _rounded([joint.position for joint in contract.held])
    clips = _rounded(action.clip or [(-np.inf, np.inf)] * sources.joints)
    ranges = contract.command_ranges
    wheels = np.isin(np.arange(len(parts.to_sdk)), parts.wheels)
    step = CompiledStep(
        memo=np.zeros(OBSERVES_RAW + 1, np.int64),
        rate=np.array([contract.rate_hz]),
        sources=np.zeros(sources.size),
        order=np.array([(at, wheels[at]) for at in parts.order], np.int64),
        rest=rest,
        ranges=np.array((ranges.vx, ranges.vy, ranges.wz), float).T.copy(),
        clocks=np.array(sources.clocks, float).reshape(-1, 4),
        take=np.array(take, np.int64),
        dress=np.concatenate(dress, 1),
        moves=np.array(moves, np.int64).reshape(-1, 3),
        network=session.network,
        observation=session.observation,
        kept=np.zeros_like(session.observation),
        action=session.action,
        act=np.array([*_rounded((action.offset, action.scale)), *clips.T]),
        moved=np.concatenate([np.zeros(sources.joints), held]),
        to_sdk=np.array([*zip(parts.to_sdk, wheels, strict=True)], np.int64),
        target=parts.target,
        speed=parts.speed,
        estimates=session.estimates,
        before=session.before,
        after=session.after,
        statistics=parts.statistics,
        judged=parts.judged,
    )
    for place, value in sources.constants:
        step.sources[place] = value
    step.memo[OBSERVES_RAW] = action.observed == "raw"
    return step


def _rounded(values: Any) -> Array:
    """In single precision, as on the wire and in the network."""
    return np.array(values, np.float32).astype(float)


def nothing() -> CompiledStep:
    """In place of a policy that cannot be stepped: never used, but of the same types."""
    sizes = {"order": 2, "clocks": 4, "take": 2, "moves": 3, "to_sdk": 2, "judged": 2}
    whole = {"memo", "order", "take", "moves", "to_sdk", "judged"}
    single = {"observation", "kept", "action", "target", "speed", "estimates", "before", "after"}
    arrays: dict[str, Any] = {"network": Network.nothing()}
    for name in {*CompiledStep._fields} - arrays.keys():
        kind = np.int64 if name in whole else np.float32 if name in single else np.float64
        two = name in sizes or name in ("ranges", "dress", "act", "statistics")
        arrays[name] = np.zeros((1, sizes.get(name, 1)) if two else 1, kind)
    return CompiledStep(**arrays)


def _dress(row: TermRow, minus: Array, clip_first: bool) -> Array:
    bounds, free = np.array(row.bounds, float).T, np.full((2, row.size), ((-np.inf,), (np.inf,)))
    first, last = (bounds, free) if clip_first else (free, bounds)
    return np.stack([minus, *first, np.array(row.scale, float), *last])


@part
def look(step: CompiledStep, numbers: Array, velocity: Array) -> None:
    """Fill `sources` from the numbers of a state and the velocity command."""
    sources, joints = step.sources, step.order.shape[0]
    w, x = np.float64(numbers[0]), np.float64(numbers[1])
    y, z = np.float64(numbers[2]), np.float64(numbers[3])
    gravity, angles = gravity_in_body((w, x, y, z)), euler_angles(w, x, y, z)
    for i in range(3):
        sources[GYROSCOPE + i] = numbers[4 + i]
        sources[GRAVITY + i] = gravity[i]
        sources[COMMAND + i] = within(velocity[i], step.ranges[0, i], step.ranges[1, i])
        sources[ANGLES + i] = angles[i]
    count = step.to_sdk.shape[0]
    for j in range(joints):
        at, wheel = step.order[j, 0], step.order[j, 1]
        # How far a wheel has turned is not observed.
        sources[JOINTS + j] = step.rest[j] if wheel else numbers[IMU_NUMBERS + at]
        sources[JOINTS + joints + j] = numbers[IMU_NUMBERS + count + at]
    time_s = step.memo[STEPS] / step.rate[0]
    for k in range(step.clocks.shape[0]):
        period, offset, cosine = step.clocks[k, 1], step.clocks[k, 2], step.clocks[k, 3]
        angle = 2.0 * math.pi * ((time_s / period + offset) % 1.0)
        sources[int(step.clocks[k, 0])] = math.cos(angle) if cosine else math.sin(angle)


@part
def observe(step: CompiledStep, numbers: Array, velocity: Array) -> bool:
    """Push a state into the observation; False if a number is not finite in single precision."""
    look(step, numbers, velocity)
    observation, dress, finite = step.observation, step.dress, True
    for i in range(observation.size):
        step.kept[i] = observation[i]
    for k in range(step.moves.shape[0]):
        to, source, count = step.moves[k, 0], step.moves[k, 1], step.moves[k, 2]
        for i in range(count):  # from the kept one: the places overlap
            observation[to + i] = step.kept[source + i]
    for i in range(step.take.shape[0]):
        value = step.sources[step.take[i, 0]] - dress[MINUS, i]
        value = within(value, dress[LOW, i], dress[HIGH, i]) * dress[SCALE, i]
        value = within(value, dress[LOW_AFTER, i], dress[HIGH_AFTER, i])
        number = np.float32(value)
        observation[step.take[i, 1]] = number
        finite &= np.isfinite(number)
    return finite


@part
def infer(step: CompiledStep) -> bool:
    """Run the network and write the targets; False if one is not finite."""
    compiled_network.run(*step.network)
    act, finite = step.act, True
    for j in range(step.action.size):
        clipped = within(np.float64(step.action[j]), act[LEAST, j], act[MOST, j])
        step.moved[j] = act[OFFSET, j] + act[GAIN, j] * clipped
    for j in range(step.target.size):
        value = np.float32(step.moved[step.to_sdk[j, 0]])
        finite &= np.isfinite(value)
        if step.to_sdk[j, 1]:
            step.speed[j], step.target[j] = value, np.float32(0.0)
        else:
            step.target[j] = value
    return finite


@part
def undo(step: CompiledStep) -> None:
    """As if this step had not begun: Python makes it."""
    for i in range(step.observation.size):
        step.observation[i] = step.kept[i]


@part
def conclude(step: CompiledStep) -> None:
    """The step was used: what the next one continues from."""
    joints, raw = step.order.shape[0], step.memo[OBSERVES_RAW]
    for j in range(joints):
        value = np.float64(step.action[j])
        clipped = within(value, step.act[LEAST, j], step.act[MOST, j])
        step.sources[JOINTS + 2 * joints + j] = value if raw else clipped
    for i in range(step.before.size):
        step.before[i] = step.after[i]
    step.memo[STEPS] += 1


def _surprise(observation: Array, statistics: Array, judged: Array) -> float:
    """RMS of the observation's z-scores, of the worst of its inputs."""
    worst = 0.0
    for k in range(judged.shape[0]):
        total = 0.0
        for i in range(judged[k, 0], judged[k, 1]):
            z = (np.float64(observation[i]) - statistics[0, i]) * statistics[1, i]
            total += z * z
        worst = max(worst, total / (judged[k, 1] - judged[k, 0]))
    return math.sqrt(worst)


def plain_surprise(observation: Array, statistics: Array, judged: Array) -> float:
    z = (observation.astype(float) - statistics[0]) * statistics[1]
    return math.sqrt(max((np.mean(z[start:end] ** 2) for start, end in judged), default=0.0))


surprise = quickest(_surprise, plain_surprise)
