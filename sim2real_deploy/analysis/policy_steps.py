"""The policy steps in a recording: each policy's inputs and outputs, and where it was reset."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags.mcap_file import ALWAYS, Span
from sim2real_deploy.bags.recorded import Recorded, Series, labelled
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.ticks import policy_command
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.topics import ACTION, LOW_STATE, OBSERVATION, TICKS, action, observation

FRESH = -1  # in `Steps.begins`: reset, with the gait clock at zero
GOES_ON = -2  # no reset


@dataclass(frozen=True, slots=True)
class Steps:
    """Inputs and outputs of one policy in each of its steps."""

    rows: npt.NDArray[np.intp]  # their numbers among the steps of all policies
    now_ns: npt.NDArray[np.int64]
    state_tick: npt.NDArray[np.int64]
    command: Floats
    begins: npt.NDArray[np.int64]  # FRESH, GOES_ON, or the policy whose gait clock it takes over
    observation: Floats
    action: Floats
    known: npt.NDArray[np.bool_]  # observation and action are in the recording
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.now_ns)


@dataclass(frozen=True, slots=True)
class RecordedSteps:
    """All policy steps of a recording in order, and those of each policy."""

    now_ns: npt.NDArray[np.int64]
    state_tick: npt.NDArray[np.int64]
    policies: tuple[Steps, ...]
    ticks: tuple[int, int, int]  # first and last row of control/ticks, and how many there are

    def __len__(self) -> int:
        return len(self.now_ns)


def recorded_steps(
    recorded: Recorded, names: Sequence[str] = ("",), core: Span = ALWAYS
) -> RecordedSteps | None:
    """The steps of the policies with these names, in the order of the bring-up's list: those in
    blocks of ticks received within `core`. None if there is no such block."""
    for name in (LOW_STATE, TICKS, OBSERVATION, ACTION):
        recorded.bag.require(name)
    places = list(enumerate(names))
    topics = [topic(name, k) for k, name in places for topic in (observation, action)]
    loaded = recorded.load((TICKS, *topics))
    if TICKS not in loaded:
        return None
    # A busy machine may receive messages out of order.
    series = {topic: part.sorted_by(part.publish_ns) for topic, part in loaded.items()}
    ticks = series[TICKS]
    labels, rows = labelled(ticks)
    column = {label: rows[:, index] for index, label in enumerate(labels)}
    block_of_row = np.repeat(np.arange(len(ticks)), ticks["layout.dim.0.size"])
    in_core = ((ticks.log_ns >= core[0]) & (ticks.log_ns < core[1]))[block_of_row]
    numbers = column["tick"][in_core]
    if not len(numbers):
        return None
    stepped = np.flatnonzero(column["policy_stepped"] > 0)
    used = in_core[stepped]
    row_of = np.cumsum(used) - 1
    now_ns, state_tick = (column[c][stepped].astype(np.int64) for c in ("now_ns", "state_tick"))
    command = policy_command(column)[stepped]
    policies = []
    for k, name in places:
        own = np.flatnonzero(column["policy_stepped"][stepped].astype(np.int64) >> k & 1)
        block, kept = block_of_row[stepped[own]], used[own]
        seen_names, seen, seen_known = _matched(series.get(observation(name, k)), ticks, block)
        given_names, given, given_known = _matched(series.get(action(name, k)), ticks, block)
        own = own[kept]
        policies.append(
            Steps(
                rows=row_of[own],
                now_ns=now_ns[own],
                state_tick=state_tick[own],
                command=command[own],
                begins=_begins(column, stepped, k)[own],
                observation=seen[kept],
                action=given[kept],
                known=(seen_known & given_known)[kept],
                observation_names=seen_names,
                action_names=given_names,
            )
        )
    present = (int(numbers[0]), int(numbers[-1]), len(numbers))
    return RecordedSteps(now_ns[used], state_tick[used], tuple(policies), present)


def _begins(
    column: dict[str, npt.NDArray[np.float64]], stepped: npt.NDArray[np.intp], place: int
) -> npt.NDArray[np.int64]:
    """How the policy at this index begins at each step of the run.

    The first step of a walk starts it fresh. It goes on if it ran in the last step; or in the one
    before that, if two policies alternate during a switch, when the one being left steps one tick
    after the active one. Otherwise it takes over from the policy that was active.
    """
    walking = column["mode"] == Mode.WALKING
    entered = walking & ~np.concatenate(([False], walking[:-1]))
    walk = np.cumsum(entered)[stepped]
    ran = column["policy_stepped"][stepped].astype(np.int64)
    active = column.get("policy", np.zeros(len(walking)))[stepped].astype(np.int64)
    begins = np.full(len(stepped), GOES_ON, np.int64)
    for j in np.flatnonzero(ran >> place & 1).tolist():
        if j == 0 or walk[j] != walk[j - 1]:
            begins[j] = FRESH
            continue
        asked_for = active[j] == place != active[j - 1]
        alternates = j > 1 and walk[j] == walk[j - 2] and ran[j - 2] >> place & 1
        alternates = alternates and 1 in (
            stepped[j] - stepped[j - 1],
            stepped[j - 1] - stepped[j - 2],
        )
        if not ran[j - 1] >> place & 1 and (asked_for or not alternates):
            others = [k for k in range(int(ran[j - 1]).bit_length()) if ran[j - 1] >> k & 1]
            begins[j] = active[j - 1] if active[j - 1] != place else others[0]
    return begins


def _matched(
    series: Series | None, ticks: Series, block_of_step: npt.NDArray[np.intp]
) -> tuple[tuple[str, ...], Floats, npt.NDArray[np.bool_]]:
    """The values of each step: control publishes them just before the step's block of ticks.

    If a block has lost a value, all its values are unknown: which one was lost cannot be told.
    """
    if series is None:  # the policy was loaded and never ran
        return (), np.empty((len(block_of_step), 0), np.float32), np.zeros(len(block_of_step), bool)
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
