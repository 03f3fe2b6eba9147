"""Replays recorded states through a policy: identical bits, or the first difference.

Decoder, observation terms and network session are the robot's own; the recording says at which
states the policy stepped and with what command.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.mcap_file import ALWAYS, Span
from sim2real_deploy.bags.recorded import Recorded, Series, labelled
from sim2real_deploy.bags.runs import attached
from sim2real_deploy.checks import Check
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.policy.terms import TERMS
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.topics import ACTION, LOW_STATE, OBSERVATION, TICKS
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.messages import FAMILIES

MIN_SPEED = 20.0  # times real time,
GIVEN = ("extra_command.", "height_scan.")
LONG_S = 60.0  # from this length on, loading the policy does not matter
PART_S = 300.0  # what is held in memory at once
MARGIN_NS = 2_000_000_000  # read beyond a part: values of its steps, states that came before


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
    ticks: tuple[int, int, int]  # first and last row of control/ticks, and how many there are

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


def recorded_steps(recorded: Recorded, core: Span = ALWAYS) -> Steps | None:
    """The steps in blocks of ticks that were received within `core`; None without any block."""
    for name in (LOW_STATE, TICKS, OBSERVATION, ACTION):
        recorded.bag.require(name)
    series = recorded.load((TICKS, OBSERVATION, ACTION))
    if not {TICKS, OBSERVATION, ACTION} <= series.keys():
        return None
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
    begins = np.diff(np.cumsum(entered)[stepped], prepend=0) > 0
    in_core = ((ticks.log_ns >= core[0]) & (ticks.log_ns < core[1]))[block_of_row]
    used = in_core[stepped]
    stepped, numbers = stepped[used], column["tick"][in_core]
    if not len(numbers):
        return None
    command = np.stack([column[axis][stepped] for axis in ("vx", "vy", "wz")], axis=1)
    return Steps(
        now_ns=column["now_ns"][stepped].astype(np.int64),
        state_tick=column["state_tick"][stepped].astype(np.int64),
        command=command.astype(np.float32),
        begins=begins[used],
        observation=observation[used],
        action=action[used],
        known=(seen & given)[used],
        observation_names=observation_names,
        action_names=action_names,
        ticks=(int(numbers[0]), int(numbers[-1]), len(numbers)),
    )


def replay_policy(recorded: Recorded, other: Bundle | None = None) -> PolicyReplay:
    """Through the bag's own policy, or through another one at the same states; part by part. A run
    of several policies is replayed as one, and another is compared with the one that started."""
    if other is None and attached("policy.onnx", 1) in recorded.bag.attachments:
        from sim2real_deploy.analysis.switched_replay import replay_switched

        return replay_switched(recorded)
    start = time.perf_counter()
    own = bundle_of(recorded.bag, recorded.robot)
    run = _Run(recorded, own, other or own)
    for span in recorded.bag.parts(PART_S):
        window = recorded.bag.within((span[0] - MARGIN_NS, span[1] + MARGIN_NS))
        steps = recorded_steps(Recorded(window), span)
        if steps is not None:
            run.replay(Recorded(window), steps)
    return run.result(time.perf_counter() - start)


class _Run:
    """The policy on its way through the parts of a bag, and what was found so far."""

    def __init__(self, recorded: Recorded, own: Bundle, bundle: Bundle) -> None:
        for name in (LOW_STATE, TICKS, OBSERVATION, ACTION):
            recorded.bag.require(name)
        self._own, self._policy, self._robot = own, bundle.open(), recorded.robot
        self._same = bundle.contract.sha256 == own.contract.sha256
        self._same &= bundle.contract == own.contract
        self._told = _told_columns(self._policy) if self._same else []
        self._rows: list[tuple[int, int, int]] = []  # of ticks in each part
        self._first: Difference | None = None
        self._first_ns: int | None = None
        self._steps = self._states_missing = self._values_missing = self._different = 0
        self._compared = 0
        joints = recorded.robot.joint_count
        self._squares, self._largest = np.zeros(joints), np.zeros(joints, np.float32)
        self._odometry_tick = -1  # of the last state that the odometry was given

    def replay(self, recorded: Recorded, steps: Steps) -> None:
        policy, same = self._policy, self._same
        observations, actions = np.empty_like(steps.observation), np.empty_like(steps.action)
        targets = np.empty((len(steps), self._robot.joint_count), np.float32)
        compared = np.zeros(len(steps), np.bool_)
        for index, state in self._states_in_order(recorded, steps):
            if steps.begins[index]:
                policy.reset()
            if state is None:
                self._states_missing += 1
                continue
            policy.observe(state, steps.command[index].tolist())
            if self._told and steps.known[index]:
                policy.observation[self._told] = steps.observation[index, self._told]
            targets[index] = policy.infer()
            compared[index] = steps.known[index]
            if same:
                observations[index], actions[index] = policy.observation, policy.action
        if self._first_ns is None and len(steps):
            self._first_ns = int(steps.now_ns[0])
        if same:
            wrong = _different(steps.observation, observations, compared)
            wrong_action = _different(steps.action, actions, compared)
            self._different += int(wrong.sum() + wrong_action.sum())
            if self._first is None:
                found = _first(steps, wrong, observations, wrong_action, actions)
                self._first = None if found is None else self._placed(found, steps)
        apart = np.abs(targets - _targets(self._own, steps.action))[compared]
        if len(apart):
            self._squares += (apart.astype(float) ** 2).sum(axis=0)
            self._largest = np.maximum(self._largest, apart.max(axis=0))
        self._compared += len(apart)
        self._values_missing += int(np.count_nonzero(~steps.known))
        self._steps += len(steps)
        self._rows.append(steps.ticks)

    def _placed(self, found: Difference, steps: Steps) -> Difference:
        """Counted from the first step of the bag and not of the part."""
        assert self._first_ns is not None
        seconds = float(steps.now_ns[found.step] - self._first_ns) / 1e9
        return replace(found, step=self._steps + found.step, seconds=seconds)

    def result(self, replay_s: float) -> PolicyReplay:
        present = sum(count for _, _, count in self._rows)
        span = self._rows[-1][1] - self._rows[0][0] + 1 if self._rows else 0
        return PolicyReplay(
            same_policy=self._same,
            steps=self._steps,
            recorded_s=self._steps / self._own.contract.rate_hz,
            replay_s=replay_s,
            ticks_missing=span - present,
            states_missing=self._states_missing,
            values_missing=self._values_missing,
            values_different=self._different,
            first=self._first,
            joint_names=self._robot.joint_names,
            target_rms=np.sqrt(self._squares / max(1, self._compared)).astype(np.float32),
            target_max=self._largest,
        )

    def _states_in_order(
        self, recorded: Recorded, steps: Steps
    ) -> Iterator[tuple[int, RobotState | None]]:
        """The state of each step, decoded as control does. Odometry, if the policy sees its
        velocity, gets every state before it, timed by the robot's own millisecond counter."""
        odometry = self._policy.odometry
        samples = _samples(recorded, steps, every=odometry is not None)
        decoder = StateDecoder(recorded.robot)
        order = sorted(tick for tick in samples if tick > self._odometry_tick)
        at = 0
        for index, tick in enumerate(steps.state_tick.tolist()):
            while odometry is not None and at < len(order) and order[at] <= tick:
                odometry.update(decoder.decode(samples[order[at]], order[at] * 1_000_000))
                self._odometry_tick = order[at]
                at += 1
            sample = samples.get(tick)
            now_ns = int(steps.now_ns[index]) if odometry is None else tick * 1_000_000
            yield index, None if sample is None else decoder.decode(sample, now_ns)


def _samples(recorded: Recorded, steps: Steps, every: bool) -> dict[int, bytes]:
    """The states that the steps used, by the robot's counter; or every one."""
    topic = recorded.bag.require(LOW_STATE)
    layout = FAMILIES[recorded.robot.wire.family].state
    wanted = np.unique(steps.state_tick)
    samples: dict[int, bytes] = {}
    for chunk in recorded.bag.chunks([topic]):
        good = [message.data for message in chunk if len(message.data) == layout.size]
        ticks = np.frombuffer(b"".join(good), layout.dtype)["tick"].astype(np.int64)
        kept = np.ones(len(ticks), np.bool_) if every else np.isin(ticks, wanted)
        for index in np.flatnonzero(kept).tolist():
            samples.setdefault(int(ticks[index]), good[index])
    return samples


def _told_columns(policy: Policy) -> list[int]:
    """Of what the network sees: what no state alone tells (odometry, extra commands). A replay
    takes it from the recording."""
    return [
        column
        for column, label in enumerate(policy.labels)
        if TERMS[label.partition(".")[0]].odometry or label.startswith(GIVEN)
    ]


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
