"""Replays a run of several policies: each in the steps it ran in, with the gait clock handed on.

`policy_replay` does so for one policy, part by part; here the whole run is held in memory.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.policy_replay import Difference, PolicyReplay
from sim2real_deploy.analysis.policy_steps import FRESH, GOES_ON, Run, Steps, recorded_run
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bags.runs import attached
from sim2real_deploy.control.repertoire import Repertoire
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.policy.terms import TERMS
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.topics import LOW_STATE
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.messages import FAMILIES

GIVEN = ("extra_command.", "height_scan.")


def bundles_of(bag: Bag, robot: RobotSpec) -> list[Bundle]:
    """The policies that were loaded, from the bag's attachments; the first one started."""
    found: list[Bundle] = []
    with tempfile.TemporaryDirectory() as scratch:
        while (place := len(found)) == 0 or attached("policy.onnx", place) in bag.attachments:
            folder = Path(scratch) / str(place)
            folder.mkdir()
            for name in ("policy.onnx", "policy.yaml"):
                content = bag.attachments.get(attached(name, place))
                if content is None:
                    raise Refusal(f"{bag.path}: holds no policy; name one: --policy BUNDLE")
                (folder / name).write_bytes(content)
            found.append(load_bundle(folder, robot))
    return found


class _Replayed:
    """One policy, and what it gives at the recorded states."""

    def __init__(self, policy: Policy, steps: Steps, same: bool) -> None:
        self.policy, self.steps, self.same = policy, steps, same
        self.observations = np.zeros_like(steps.observation)
        self.actions = np.zeros_like(steps.action)
        self.targets = np.empty((len(steps), len(policy.target)), np.float32)
        self.compared = np.zeros(len(steps), np.bool_)
        self.place_of = {row: index for index, row in enumerate(steps.rows.tolist())}
        self._told = _told_columns(policy) if same else []

    def begin(self, index: int, clocks: Sequence[Policy]) -> None:
        begins = int(self.steps.begins[index])
        if begins == GOES_ON:
            return
        self.policy.reset()
        if begins != FRESH:
            self.policy.keep_time(clocks[begins])

    def step(self, index: int, state: RobotState) -> None:
        policy, steps = self.policy, self.steps
        policy.observe(state, steps.command[index].tolist())
        if self._told and steps.known[index]:
            policy.observation[self._told] = steps.observation[index, self._told]
        self.targets[index] = policy.infer()
        self.compared[index] = steps.known[index]
        if self.same and steps.known[index]:
            self.observations[index], self.actions[index] = policy.observation, policy.action

    def differences(self) -> tuple[int, Difference | None]:
        if not self.same:
            return 0, None
        wrong = _different(self.steps.observation, self.observations, self.compared)
        wrong_action = _different(self.steps.action, self.actions, self.compared)
        first = _first(self.steps, wrong, self.observations, wrong_action, self.actions)
        return int(wrong.sum() + wrong_action.sum()), first


def replay_switched(recorded: Recorded) -> PolicyReplay:
    """Through the bag's own policies: identical, bit for bit?"""
    start = time.perf_counter()
    own = bundles_of(recorded.bag, recorded.robot)
    run = recorded_run(recorded, [bundle.contract.name for bundle in own])
    policies = Repertoire([item.open() for item in own]).policies
    parts = [_Replayed(p, steps, True) for p, steps in zip(policies, run.policies, strict=False)]
    odometry = next((p.odometry for p in policies if p.odometry), None)
    missing = 0
    for row, state in _states_in_order(recorded, run, odometry):
        taking = [(part, part.place_of[row]) for part in parts if row in part.place_of]
        for part, index in taking:
            part.begin(index, policies)
        if state is None:
            missing += 1
            continue
        for part, index in taking:
            part.step(index, state)
    found = [part.differences() for part in parts]
    firsts = [first for _, first in found if first is not None]
    first = min(firsts, key=lambda difference: difference.state_tick, default=None)
    apart = np.concatenate(
        [
            np.abs(part.targets - _targets(item, part.steps.action))[part.compared]
            for part, item in zip(parts, own, strict=False)
        ]
    )
    none = np.zeros(recorded.robot.joint_count, np.float32)
    return PolicyReplay(
        same_policy=True,
        steps=sum(len(part.steps) for part in parts),
        recorded_s=len(run) / own[0].contract.rate_hz,
        replay_s=time.perf_counter() - start,
        ticks_missing=run.ticks_missing,
        states_missing=missing,
        values_missing=sum(int(np.count_nonzero(~part.steps.known)) for part in parts),
        values_different=sum(count for count, _ in found),
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
    recorded: Recorded, run: Run, odometry: LegOdometry | None
) -> Iterator[tuple[int, RobotState | None]]:
    """The state of each step, decoded as control does. Odometry, if the policy sees its velocity,
    gets every state before it, timed by the robot's own millisecond counter."""
    topic = recorded.bag.require(LOW_STATE)
    layout = FAMILIES[recorded.robot.wire.family].state
    wanted = np.unique(run.state_tick)
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
        yield from _with_odometry(samples, decoder, run, odometry)
        return
    for index, tick in enumerate(run.state_tick.tolist()):
        sample = samples.get(tick)
        now_ns = int(run.now_ns[index])
        yield index, None if sample is None else decoder.decode(sample, now_ns)


def _with_odometry(
    samples: dict[int, bytes], decoder: StateDecoder, run: Run, odometry: LegOdometry
) -> Iterator[tuple[int, RobotState | None]]:
    order, at = sorted(samples), 0
    for index, tick in enumerate(run.state_tick.tolist()):
        while at < len(order) and order[at] <= tick:
            odometry.update(decoder.decode(samples[order[at]], order[at] * 1_000_000))
            at += 1
        sample = samples.get(tick)
        yield index, None if sample is None else decoder.decode(sample, tick * 1_000_000)


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
