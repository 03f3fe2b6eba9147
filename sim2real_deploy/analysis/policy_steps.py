"""The steps of each policy in a recording: what it was given, what it gave, where it began."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags.recorded import Recorded, Series, labelled
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.topics import ACTION, LOW_STATE, OBSERVATION, TICKS, action, observation

FRESH = -1  # in `Steps.begins`: reset, with nobody's clock to go on from
GOES_ON = -2  # no reset


@dataclass(frozen=True, slots=True)
class Steps:
    """Inputs and outputs of one policy in each of its steps."""

    rows: npt.NDArray[np.intp]  # which steps of the run these are, counting every policy's
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
class Run:
    """All steps of a run, in their order, and those of each policy."""

    now_ns: npt.NDArray[np.int64]
    state_tick: npt.NDArray[np.int64]
    policies: tuple[Steps, ...]
    ticks_missing: int

    def __len__(self) -> int:
        return len(self.now_ns)


def recorded_run(recorded: Recorded, names: Sequence[str] = ("",)) -> Run:
    """The steps of the policies of these names, in the order of the bring-up's list."""
    for name in (LOW_STATE, TICKS, OBSERVATION, ACTION):
        recorded.bag.require(name)
    places = list(enumerate(names))
    topics = [topic(name, k) for k, name in places for topic in (observation, action)]
    loaded = recorded.load((TICKS, *topics))
    series = {topic: _as_published(part) for topic, part in loaded.items()}
    ticks = series[TICKS]
    labels, rows = labelled(ticks)
    column = {label: rows[:, index] for index, label in enumerate(labels)}
    stepped = np.flatnonzero(column["policy_stepped"] > 0)
    now_ns, state_tick = (column[c][stepped].astype(np.int64) for c in ("now_ns", "state_tick"))
    command = np.stack([column[axis][stepped] for axis in ("vx", "vy", "wz")], axis=1)
    block_of_row = np.repeat(np.arange(len(ticks)), ticks["layout.dim.0.size"])
    policies = []
    for k, name in places:
        begins = _begins(column, stepped, k)
        of = np.flatnonzero(column["policy_stepped"][stepped].astype(np.int64) >> k & 1)
        block = block_of_row[stepped[of]]
        seen_names, seen, seen_known = _matched(series.get(observation(name, k)), ticks, block)
        given_names, given, given_known = _matched(series.get(action(name, k)), ticks, block)
        policies.append(
            Steps(
                rows=of,
                now_ns=now_ns[of],
                state_tick=state_tick[of],
                command=command[of].astype(np.float32),
                begins=begins[of],
                observation=seen,
                action=given,
                known=seen_known & given_known,
                observation_names=seen_names,
                action_names=given_names,
            )
        )
    missing = int(column["tick"][-1] - column["tick"][0]) + 1 - len(rows)
    return Run(now_ns, state_tick, tuple(policies), missing)


def _as_published(series: Series) -> Series:
    """In the order of publishing: on a busy computer messages may be received in another."""
    order = np.argsort(series.publish_ns, kind="stable")
    columns = {name: values[order] for name, values in series.columns.items()}
    return Series(series.log_ns[order], series.publish_ns[order], columns)


def _begins(
    column: dict[str, npt.NDArray[np.float64]], stepped: npt.NDArray[np.intp], place: int
) -> npt.NDArray[np.int64]:
    """Of each step of the run, how the policy at this place begins, if it does. A walk begins it
    afresh; one that did not run in the step before takes over from the one that was active."""
    walking = column["mode"] == Mode.WALKING
    entered = walking & ~np.concatenate(([False], walking[:-1]))
    walk = np.cumsum(entered)[stepped]
    ran = column["policy_stepped"][stepped].astype(np.int64)
    active = column.get("policy", np.zeros(len(walking)))[stepped].astype(np.int64)
    begins = np.full(len(stepped), GOES_ON, np.int64)
    for j in np.flatnonzero(ran >> place & 1).tolist():
        if j == 0 or walk[j] != walk[j - 1]:
            begins[j] = FRESH
        elif not ran[j - 1] >> place & 1:
            others = [k for k in range(int(ran[j - 1]).bit_length()) if ran[j - 1] >> k & 1]
            begins[j] = active[j - 1] if active[j - 1] != place else others[0]
    return begins


def _matched(
    series: Series | None, ticks: Series, block_of_step: npt.NDArray[np.intp]
) -> tuple[tuple[str, ...], Floats, npt.NDArray[np.bool_]]:
    """The values of each step: control publishes them just before the block of ticks it is in.

    If a block has lost one, all its values are unknown: nobody can tell which it was.
    """
    if series is None:  # it was loaded and never ran
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
