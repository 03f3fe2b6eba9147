"""Replays recorded states through the policies that walked, bit for bit.

Decoder, observation terms and network session are those of the robot. The recording tells at
which states each policy stepped, with which command, and whose gait clock it took over.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.policy_steps import (
    FRESH,
    GOES_ON,
    RecordedSteps,
    Steps,
    recorded_steps,
)
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bags.runs import attached
from sim2real_deploy.checks import Check
from sim2real_deploy.control.repertoire import Repertoire
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.policy.terms import TERMS
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.topics import ACTION, LOW_STATE, OBSERVATION, TICKS
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.messages import FAMILIES

MIN_SPEED = 20.0  # times real time
GIVEN = ("extra_command.", "height_scan.")
LONG_S = 60.0  # from this length on, the time to load the policy does not matter
PART_S = 300.0  # held in memory at once
MARGIN_NS = 2_000_000_000  # read beyond a part: values of its steps, states before them


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


def bundle_of(bag: Bag, robot: RobotSpec, place: int = 0) -> Bundle:
    """One of the loaded policies, from the bag's attachments; the run started with the first."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("policy.onnx", "policy.yaml"):
            content = bag.attachments.get(attached(name, place))
            if content is None:
                raise Refusal(f"{bag.path}: holds no policy; name one: --policy BUNDLE")
            (Path(folder) / name).write_bytes(content)
        return load_bundle(Path(folder), robot)


def _bundles_of(bag: Bag, robot: RobotSpec) -> list[Bundle]:
    found = [bundle_of(bag, robot)]
    while attached("policy.onnx", len(found)) in bag.attachments:
        found.append(bundle_of(bag, robot, len(found)))
    return found


def replay_policy(recorded: Recorded, other: Bundle | None = None) -> PolicyReplay:
    """Replay through the bag's own policies, part by part. With `other`: through that policy, at
    the steps of the policy that the run started with, and compared with it."""
    start = time.perf_counter()
    for name in (LOW_STATE, TICKS, OBSERVATION, ACTION):
        recorded.bag.require(name)
    if other is None:
        own = _bundles_of(recorded.bag, recorded.robot)
        replay = _Replay(own, own)
    else:
        replay = _Replay([bundle_of(recorded.bag, recorded.robot)], [other])
    for span in recorded.bag.parts(PART_S):
        window = Recorded(recorded.bag.within((span[0] - MARGIN_NS, span[1] + MARGIN_NS)))
        steps = recorded_steps(window, replay.names, span)
        if steps is not None:
            replay.run(window, steps)
    return replay.result(time.perf_counter() - start)


class _Replay:
    """Takes the policies through the parts of a bag and collects the differences."""

    def __init__(self, own: Sequence[Bundle], bundles: Sequence[Bundle]) -> None:
        self.names = [bundle.contract.name for bundle in own]
        self._spec, self._rate_hz = own[0].spec, own[0].contract.rate_hz
        self._policies = Repertoire([bundle.open() for bundle in bundles]).policies
        self._odometry = next((p.odometry for p in self._policies if p.odometry), None)
        self._odometry_tick = -1  # of the last state that the odometry was given
        self._tracks = [
            _Track(policy, recorded, bundle.contract == recorded.contract)
            for policy, recorded, bundle in zip(self._policies, own, bundles, strict=True)
        ]
        self._ticks: list[tuple[int, int, int]] = []  # of each part
        self._first: Difference | None = None
        self._first_ns: int | None = None
        self._steps = self._periods = self._states_missing = 0

    def run(self, recorded: Recorded, steps: RecordedSteps) -> None:
        for track, own in zip(self._tracks, steps.policies, strict=True):
            track.load(own)
        for row, state in self._states_in_order(recorded, steps):
            running = [track for track in self._tracks if track.runs(row)]
            for track in running:
                track.begin(row, self._policies)
            if state is None:
                self._states_missing += 1
                continue
            for track in running:
                track.step(row, state)
        if self._first_ns is None and len(steps):
            self._first_ns = int(steps.now_ns[0])
        found = [track.compare(self._steps, self._first_ns or 0) for track in self._tracks]
        firsts = (first for first in found if first is not None)
        self._first = self._first or min(firsts, key=lambda first: first.step, default=None)
        self._steps += len(steps)
        apart_ns = np.diff(steps.now_ns, prepend=0)  # a policy being left steps one tick later
        self._periods += int(np.count_nonzero(apart_ns * self._rate_hz > 0.5e9))
        self._ticks.append(steps.ticks)

    def result(self, replay_s: float) -> PolicyReplay:
        tracks = self._tracks
        present = sum(count for _, _, count in self._ticks)
        span = self._ticks[-1][1] - self._ticks[0][0] + 1 if self._ticks else 0
        squares, compared = sum(t.squares for t in tracks), sum(t.compared for t in tracks)
        return PolicyReplay(
            same_policy=all(track.same for track in tracks),
            steps=sum(track.count for track in tracks),
            recorded_s=self._periods / self._rate_hz,
            replay_s=replay_s,
            ticks_missing=span - present,
            states_missing=self._states_missing,
            values_missing=sum(track.values_missing for track in tracks),
            values_different=sum(track.values_different for track in tracks),
            first=self._first,
            joint_names=self._spec.joint_names,
            target_rms=np.sqrt(squares / max(1, compared)).astype(np.float32),
            target_max=np.max([track.largest for track in tracks], axis=0),
        )

    def _states_in_order(
        self, recorded: Recorded, steps: RecordedSteps
    ) -> Iterator[tuple[int, RobotState | None]]:
        """The state of each step, decoded as control does it. If a policy observes velocity, the
        odometry gets every earlier state, timed by the robot's own millisecond counter."""
        odometry = self._odometry
        samples = _samples(recorded, steps, every=odometry is not None)
        decoder = StateDecoder(recorded.robot)
        order = sorted(tick for tick in samples if tick > self._odometry_tick)
        at = 0
        for row, tick in enumerate(steps.state_tick.tolist()):
            while odometry is not None and at < len(order) and order[at] <= tick:
                odometry.update(decoder.decode(samples[order[at]], order[at] * 1_000_000))
                self._odometry_tick = order[at]
                at += 1
            sample = samples.get(tick)
            now_ns = int(steps.now_ns[row]) if odometry is None else tick * 1_000_000
            yield row, None if sample is None else decoder.decode(sample, now_ns)


class _Track:
    """One policy at its own steps, compared with its recorded values."""

    def __init__(self, policy: Policy, recorded: Bundle, same: bool) -> None:
        self.policy, self.same, self._recorded = policy, same, recorded
        self._copied = _copied_columns(policy) if same else []
        self.count = self.values_missing = self.values_different = self.compared = 0
        joints = len(policy.target)
        self.squares, self.largest = np.zeros(joints), np.zeros(joints, np.float32)

    def load(self, steps: Steps) -> None:
        """The steps of the next part."""
        self._steps = steps
        self._index_of = {row: index for index, row in enumerate(steps.rows.tolist())}
        self._observations = np.zeros_like(steps.observation)
        self._actions = np.zeros_like(steps.action)
        self._targets = np.zeros((len(steps), len(self.policy.target)), np.float32)
        self._compared = np.zeros(len(steps), np.bool_)

    def runs(self, row: int) -> bool:
        return row in self._index_of

    def begin(self, row: int, clocks: Sequence[Policy]) -> None:
        begins = int(self._steps.begins[self._index_of[row]])
        if begins != GOES_ON:
            self.policy.reset()
            if begins != FRESH and begins < len(clocks):
                self.policy.keep_time(clocks[begins])

    def step(self, row: int, state: RobotState) -> None:
        policy, steps, index = self.policy, self._steps, self._index_of[row]
        known = steps.known[index]
        policy.observe(state, steps.command[index].tolist())
        if self._copied and known:
            policy.observation[self._copied] = steps.observation[index, self._copied]
        self._targets[index] = policy.infer()
        self._compared[index] = known
        if self.same and known:
            self._observations[index], self._actions[index] = policy.observation, policy.action

    def compare(self, first_step: int, first_ns: int) -> Difference | None:
        """The first difference in this part, counted from the first step of the recording."""
        steps, compared = self._steps, self._compared
        self.count += len(steps)
        self.values_missing += int(np.count_nonzero(~steps.known))
        if not compared.any():
            return None
        apart = np.abs(self._targets - _targets(self._recorded, steps.action))[compared]
        self.squares += (apart.astype(float) ** 2).sum(axis=0)
        self.largest = np.maximum(self.largest, apart.max(axis=0))
        self.compared += len(apart)
        if not self.same:
            return None
        recorded = np.hstack((steps.observation, steps.action))
        replayed = np.hstack((self._observations, self._actions))
        wrong = _different(recorded, replayed, compared)
        self.values_different += int(wrong.sum())
        if not wrong.any():
            return None
        names = [f"observation {name}" for name in steps.observation_names]
        names += [f"action {name}" for name in steps.action_names]
        row, entry = np.argwhere(wrong)[0]
        return Difference(
            first_step + int(steps.rows[row]),
            float(steps.now_ns[row] - first_ns) / 1e9,
            int(steps.state_tick[row]),
            names[entry],
            float(recorded[row, entry]),
            float(replayed[row, entry]),
        )


def _samples(recorded: Recorded, steps: RecordedSteps, every: bool) -> dict[int, bytes]:
    """The states that the steps used, or all, by the robot's counter."""
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


def _copied_columns(policy: Policy) -> list[int]:
    """Columns of the observation that no state determines (odometry, extra commands): a replay
    copies them from the recording."""
    return [
        column
        for column, label in enumerate(policy.labels)
        if TERMS[label.partition(".")[0]].odometry or label.startswith(GIVEN)
    ]


def _different(
    recorded: Floats, replayed: Floats, compared: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Bitwise: -0.0 differs from 0.0, a NaN equals itself."""
    wrong = recorded.view(np.uint32) != replayed.view(np.uint32)
    return np.asarray(wrong & compared[:, None])


def _targets(bundle: Bundle, actions: Floats) -> Floats:
    """The joint targets, in SDK order, of recorded actions."""
    contract = bundle.contract
    clip = np.array(contract.action.clip or [(-np.inf, np.inf)] * len(contract.joints), np.float32)
    clipped = np.clip(actions, clip[:, 0], clip[:, 1])
    order = [bundle.spec.joint_names.index(name) for name in contract.joints]
    targets = np.empty_like(actions)
    scale, offset = (
        np.array(v, np.float32) for v in (contract.action.scale, contract.action.offset)
    )
    targets[:, order] = offset + scale * clipped
    targets[:, list(bundle.spec.wheels)] = 0.0  # these are commanded by speed
    return targets
