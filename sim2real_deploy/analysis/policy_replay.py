"""Replays recorded states through a policy: identical bits, or the first difference.

Decoder, observation terms and network session are the robot's own; the recording says at which
states the policy stepped and with what command.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded, Series, labelled
from sim2real_deploy.checks import Check
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.policy.terms import TERMS
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.topics import ACTION, LOW_STATE, OBSERVATION, TICKS
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.messages import FAMILIES

MIN_SPEED = 20.0  # times real time,
GIVEN = ("extra_command.", "height_scan.")
LONG_S = 60.0  # from this length on, loading the policy does not matter


@dataclass(frozen=True, slots=True)
class Difference:
    """The first value that is not reproduced."""

    step: int
    seconds: float  # since the first step
    state_tick: int
    name: str  # of the observation's or action's entry
    recorded: float
    replayed: float

    def __str__(self) -> str:
        return (
            f"step {self.step}, {self.seconds:.2f} s into the recording, state tick "
            f"{self.state_tick}: {self.name} was {self.recorded!r} and is now {self.replayed!r}"
        )


@dataclass(frozen=True, slots=True)
class Steps:
    """Inputs and outputs of each policy step in the recording."""

    now_ns: npt.NDArray[np.int64]
    state_tick: npt.NDArray[np.int64]
    command: Floats
    begins: npt.NDArray[np.bool_]  # first step of a walk: the policy is reset
    observation: Floats
    action: Floats
    known: npt.NDArray[np.bool_]  # observation and action are in the recording
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    ticks_missing: int

    def __len__(self) -> int:
        return len(self.now_ns)


@dataclass(frozen=True, slots=True)
class PolicyReplay:
    same_policy: bool
    steps: int
    recorded_s: float
    replay_s: float
    ticks_missing: int  # rows of control/ticks missing from the recording
    states_missing: int  # used by a step, but not in the recording
    values_missing: int  # steps without a recorded observation or action
    values_different: int
    first: Difference | None
    joint_names: tuple[str, ...]
    target_rms: Floats  # rad, between the two policies' joint targets; zero when identical
    target_max: Floats

    @property
    def speed(self) -> float:
        return self.recorded_s / self.replay_s

    def checks(self) -> list[Check]:
        checks = [
            Check.at_least("policy steps", self.steps, 1),
            Check.at_most("ticks missing", self.ticks_missing, 0),
            Check.at_most("states missing", self.states_missing, 0),
            Check.at_most("steps without recorded values", self.values_missing, 0),
        ]
        if self.recorded_s >= LONG_S:
            checks.append(Check.at_least("speed", self.speed, MIN_SPEED, "x real time"))
        if self.same_policy:
            checks.append(Check.at_most("values that differ", self.values_different, 0))
        return checks


def bundle_of(bag: Bag, robot: RobotSpec) -> Bundle:
    """The policy that walked, from the bag's attachments."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("policy.onnx", "policy.yaml"):
            content = bag.attachments.get(name)
            if content is None:
                raise Refusal(f"{bag.path}: holds no policy; name one: --policy BUNDLE")
            (Path(folder) / name).write_bytes(content)
        return load_bundle(Path(folder), robot)


def recorded_steps(recorded: Recorded) -> Steps:
    for name in (LOW_STATE, TICKS, OBSERVATION, ACTION):
        recorded.bag.require(name)
    series = recorded.load((TICKS, OBSERVATION, ACTION))
    ticks = series[TICKS]
    names, rows = labelled(ticks)
    column = {name: rows[:, index] for index, name in enumerate(names)}
    walking = column["mode"] == Mode.WALKING
    entered = walking & ~np.concatenate(([False], walking[:-1]))
    stepped = np.flatnonzero(column["policy_stepped"] > 0)
    block_of_row = np.repeat(np.arange(len(ticks)), ticks["layout.dim.0.size"])
    observation_names, observation, seen = _matched(
        series[OBSERVATION], ticks, block_of_row[stepped]
    )
    action_names, action, given = _matched(series[ACTION], ticks, block_of_row[stepped])
    return Steps(
        now_ns=column["now_ns"][stepped].astype(np.int64),
        state_tick=column["state_tick"][stepped].astype(np.int64),
        command=np.stack([column[axis][stepped] for axis in ("vx", "vy", "wz")], axis=1).astype(
            np.float32
        ),
        begins=np.diff(np.cumsum(entered)[stepped], prepend=0) > 0,
        observation=observation,
        action=action,
        known=seen & given,
        observation_names=observation_names,
        action_names=action_names,
        ticks_missing=int(column["tick"][-1] - column["tick"][0]) + 1 - len(rows),
    )


def replay_policy(recorded: Recorded, other: Bundle | None = None) -> PolicyReplay:
    """Through the bag's own policy, or through another one at the same states."""
    start = time.perf_counter()
    steps = recorded_steps(recorded)
    own = bundle_of(recorded.bag, recorded.robot)
    bundle = other or own
    policy = bundle.open()
    same = bundle.contract.sha256 == own.contract.sha256 and bundle.contract == own.contract
    observations, actions = np.empty_like(steps.observation), np.empty_like(steps.action)
    targets = np.empty((len(steps), recorded.robot.joint_count), np.float32)
    compared = np.zeros(len(steps), np.bool_)
    missing = 0
    told = _told_columns(policy) if same else []
    for index, state in _states_in_order(recorded, steps, policy.odometry):
        if steps.begins[index]:
            policy.reset()
        if state is None:
            missing += 1
            continue
        policy.observe(state, steps.command[index].tolist())
        if told and steps.known[index]:
            policy.observation[told] = steps.observation[index, told]
        targets[index] = policy.infer()
        compared[index] = steps.known[index]
        if same:
            observations[index], actions[index] = policy.observation, policy.action
    if same:
        wrong = _different(steps.observation, observations, compared)
        wrong_action = _different(steps.action, actions, compared)
        first = _first(steps, wrong, observations, wrong_action, actions)
        count = int(wrong.sum() + wrong_action.sum())
    else:
        first, count = None, 0
    apart = np.abs(targets - _targets(own, steps.action))[compared]
    none = np.zeros(recorded.robot.joint_count, np.float32)
    return PolicyReplay(
        same_policy=same,
        steps=len(steps),
        recorded_s=len(steps) / own.contract.rate_hz,
        replay_s=time.perf_counter() - start,
        ticks_missing=steps.ticks_missing,
        states_missing=missing,
        values_missing=int(np.count_nonzero(~steps.known)),
        values_different=count,
        first=first,
        joint_names=recorded.robot.joint_names,
        target_rms=np.sqrt(np.mean(apart**2, axis=0)) if len(apart) else none,
        target_max=apart.max(axis=0) if len(apart) else none,
    )


def _told_columns(policy: Policy) -> list[int]:
    """Of what the network sees: what no state alone tells (odometry, extra commands). A replay
    takes it from the recording."""
    return [
        column
        for column, label in enumerate(policy.labels)
        if TERMS[label.partition(".")[0]].odometry or label.startswith(GIVEN)
    ]


def _states_in_order(
    recorded: Recorded, steps: Steps, odometry: LegOdometry | None
) -> Iterator[tuple[int, RobotState | None]]:
    """The state of each step, decoded as control does. Odometry, if the policy sees its velocity,
    gets every state before it, timed by the robot's own millisecond counter."""
    topic = recorded.bag.require(LOW_STATE)
    layout = FAMILIES[recorded.robot.wire.family].state
    wanted = np.unique(steps.state_tick)
    samples: dict[int, bytes] = {}
    for chunk in recorded.bag.chunks([topic]):
        good = [message.data for message in chunk if len(message.data) == layout.size]
        ticks = np.frombuffer(b"".join(good), layout.dtype)["tick"].astype(np.int64)
        nearest = np.minimum(np.searchsorted(wanted, ticks), len(wanted) - 1)
        kept = np.ones(len(ticks), np.bool_) if odometry else wanted[nearest] == ticks
        for index in np.flatnonzero(kept).tolist():
            samples.setdefault(int(ticks[index]), good[index])
    decoder = StateDecoder(recorded.robot)
    if odometry is not None:
        yield from _with_odometry(samples, decoder, steps, odometry)
        return
    for index, tick in enumerate(steps.state_tick.tolist()):
        sample = samples.get(tick)
        now_ns = int(steps.now_ns[index])
        yield index, None if sample is None else decoder.decode(sample, now_ns)


def _with_odometry(
    samples: dict[int, bytes], decoder: StateDecoder, steps: Steps, odometry: LegOdometry
) -> Iterator[tuple[int, RobotState | None]]:
    order, at = sorted(samples), 0
    for index, tick in enumerate(steps.state_tick.tolist()):
        while at < len(order) and order[at] <= tick:
            odometry.update(decoder.decode(samples[order[at]], order[at] * 1_000_000))
            at += 1
        sample = samples.get(tick)
        yield index, None if sample is None else decoder.decode(sample, tick * 1_000_000)


def _matched(
    series: Series, ticks: Series, block_of_step: npt.NDArray[np.intp]
) -> tuple[tuple[str, ...], Floats, npt.NDArray[np.bool_]]:
    """The values of each step: control publishes them just before the block of ticks it is in.

    If a block has lost one, all its values are unknown: nobody can tell which it was.
    """
    names, rows = labelled(series)
    block_of_value = np.searchsorted(ticks.publish_ns, series.publish_ns)
    blocks = len(ticks) + 1
    steps_in = np.bincount(block_of_step, minlength=blocks)
    values_in = np.bincount(block_of_value, minlength=blocks)
    whole = steps_in == values_in
    known = whole[block_of_step]
    values = np.full((len(block_of_step), len(names)), np.nan, np.float32)
    values[known] = rows[whole[block_of_value]]
    return names, values, known


def _different(recorded: Floats, replayed: Floats, compared: npt.NDArray[np.bool_]) -> Floats:
    """Bitwise: -0.0 differs from 0.0, a NaN equals itself."""
    wrong: Floats = (recorded.view(np.uint32) != replayed.view(np.uint32)) & compared[:, None]
    return wrong


def _first(
    steps: Steps, wrong: Floats, observations: Floats, wrong_action: Floats, actions: Floats
) -> Difference | None:
    """In the earliest step that differs; observation before action."""
    rows = np.flatnonzero(wrong.any(axis=1) | wrong_action.any(axis=1))
    if not len(rows):
        return None
    row = int(rows[0])
    if wrong[row].any():
        bad, kind, names = wrong[row], "observation", steps.observation_names
        before, after = steps.observation[row], observations[row]
    else:
        bad, kind, names = wrong_action[row], "action", steps.action_names
        before, after = steps.action[row], actions[row]
    entry = int(np.flatnonzero(bad)[0])
    return Difference(
        row,
        float(steps.now_ns[row] - steps.now_ns[0]) / 1e9,
        int(steps.state_tick[row]),
        f"{kind} {names[entry]}",
        float(before[entry]),
        float(after[entry]),
    )


def _targets(bundle: Bundle, actions: Floats) -> Floats:
    """Joint targets, SDK order, of recorded actions."""
    contract = bundle.contract
    clip = np.array(contract.action.clip or [(-np.inf, np.inf)] * len(contract.joints), np.float32)
    clipped = np.clip(actions, clip[:, 0], clip[:, 1])
    order = [bundle.spec.joint_names.index(name) for name in contract.joints]
    targets = np.empty_like(actions)
    scale, offset = (
        np.array(v, np.float32) for v in (contract.action.scale, contract.action.offset)
    )
    targets[:, order] = offset + scale * clipped
    return targets
