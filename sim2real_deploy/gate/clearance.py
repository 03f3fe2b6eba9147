"""May this policy walk a real robot at this stage? Every bring-up asks before anything starts.

Above the lowest stage two things are required: a passed gate for this very network, and a good run
at the stage below for which a report was made. So stages rise one at a time.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.cdr import texts
from sim2real_deploy.bags.recorded import Recorded, Series, labelled
from sim2real_deploy.bags.runs import attached
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.stages import stages_up_to
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.record import GateRow, load_record, sha256_of
from sim2real_deploy.gate.scenarios import load_scenarios, needed_for
from sim2real_deploy.policy.contract import bundle_folder
from sim2real_deploy.robots import load_robot
from sim2real_deploy.topics import MODE, SAFETY, STATISTICS, TICKS

WAIVER = "I accept an untested policy"
LEAST_RUNS = 20  # of each scenario
LEAST_RATE = 0.85
WALKED_S = 10.0  # at the stage below
_ERROR = 2  # level of a diagnostic status: a stop is in force
_BEFORE_NS = 200_000_000  # control may report damping before safety reports the stop


class Files(NamedTuple):
    """Digests of the two that a policy is: with other gains or scales it is another one."""

    network: str
    contract: str


def check_clearance(
    policy: str, robot: str, stage: str, runs: Path, last_run: str, waiver: str
) -> None:
    """Returns if it may; otherwise a Refusal says why not."""
    if why := load_robot(robot).twin_only:
        raise Refusal(f"robot '{robot}' is for the twin alone: {why}")
    stages = stages_up_to(stage)
    if len(stages) == 1:
        return
    folder = bundle_folder(policy)
    if waiver != WAIVER:
        _check_gate(folder, robot, stage)
    own = Files(*(sha256_of(folder / name) for name in ("policy.onnx", "policy.yaml")))
    _check_last_run(stages[-2], own, runs, last_run)


def _check_gate(folder: Path, robot: str, stage: str) -> None:
    try:
        record = load_record(folder)
        if record.robot != robot:
            raise Refusal(f"it was tried on {record.robot}, not on {robot}")
        tried = record.judged()
        for scenario in needed_for(stage, load_scenarios()):
            if scenario.name not in tried:
                raise Refusal(f"scenario '{scenario.name}' was not tried")
            _check_row(tried[scenario.name], scenario.digest(robot))
    except Refusal as refusal:
        raise Refusal(
            f"stage '{stage}' on a real robot needs a policy that has passed the gate: {refusal}. "
            f"Run `sim2real eval {folder.name} --stage {stage} --store`, or waive it by writing "
            f'ungated:="{WAIVER}"'
        ) from None


def _check_row(row: GateRow, digest: str) -> None:
    """The bounds are fixed here: a lower `--threshold` does not open the gate."""
    name = f"scenario '{row.scenario}' in {row.engine}"
    if row.content != digest:
        raise Refusal(f"{name}: the scenario or its files have changed since it was tried")
    if row.runs < LEAST_RUNS:
        raise Refusal(f"{name}: {row.runs} runs, {LEAST_RUNS} are needed")
    if row.rate < LEAST_RATE:
        raise Refusal(f"{name}: {row.successes} of {row.runs} succeed")


def _check_last_run(below: str, own: Files, runs: Path, given: str) -> None:
    asked = f"a run of this policy on a real robot at stage '{below}' that went well"
    if given:
        try:
            _check_run(Bag(Path(given)), below, own)
        except Refusal as refusal:
            raise Refusal(f"last_run:={given}: is not {asked}: {refusal}") from None
        return
    newest = next(_runs_at(below, own.network, runs), None)
    if newest is None:
        raise Refusal(
            f"stages rise one at a time: {asked} is asked for, and none is in {runs}. Walk it "
            f"with stage:={below}, or name one in another folder with last_run:=FOLDER"
        )
    try:
        _check_run(newest, below, own)
    except Refusal as refusal:
        raise Refusal(
            f"stages rise one at a time: the last run at stage '{below}', {newest.path}: {refusal}"
        ) from None


def _runs_at(stage: str, sha256: str, runs: Path) -> Iterator[Bag]:
    """Runs of this policy on a real robot, newest first."""
    for folder in sorted(runs.glob("*/metadata.yaml"), reverse=True):
        try:
            bag = Bag(folder.parent)
        except Refusal:
            continue  # empty
        info = bag.information
        if info.get("real") == "true" and info.get("stage") == stage and sha256 in _digests(bag):
            yield bag


def _check_run(bag: Bag, stage: str, own: Files) -> None:
    info = bag.information
    if info.get("real") != "true":
        raise Refusal("it was not on a real robot")
    if info.get("stage") != stage:
        raise Refusal(f"it was at stage '{info.get('stage', '')}'")
    digests = _digests(bag)
    if own.network not in digests:
        raise Refusal("it was another policy's")
    contract = bag.attachments.get(attached("policy.yaml", digests.index(own.network)), b"")
    if hashlib.sha256(contract).hexdigest() != own.contract:
        raise Refusal("policy.yaml has changed since: its gains and scales are another policy's")
    series = Recorded(bag).load((MODE, SAFETY, STATISTICS, TICKS))
    if SAFETY not in series or MODE not in series:
        raise Refusal("it has no topics of modes or of safety")
    stopped = _stopped(series)
    if stopped:
        raise Refusal(f"safety stopped it: {stopped}")
    walked_s = _walked_s(series)
    if len(digests) > 1:  # only what this very policy walked counts for it
        walked_s = min(walked_s, _walked_by(series, digests.index(own.network)))
    if walked_s < WALKED_S:
        raise Refusal(f"it walked {walked_s:.0f} s, at least {WALKED_S:.0f} are asked for")
    report = bag.path / "report.html"
    if not report.is_file():
        raise Refusal(f"it has no report: make and read it with `sim2real report {bag.path}`")


def _stopped(series: dict[str, Series]) -> str:
    """Why a stop ended motion; "" if none did. Stops of a robot at rest do not count."""
    safety, modes = series[SAFETY], texts(series[MODE]["data"])
    stop = safety["level"] >= _ERROR
    begins = np.flatnonzero(stop & ~np.append(False, stop[:-1]))
    before = np.searchsorted(series[MODE].log_ns, safety.log_ns[begins] - _BEFORE_NS) - 1
    for row, mode in zip(begins.tolist(), before.tolist(), strict=True):
        if mode >= 0 and modes[mode] not in (Mode.PASSIVE.words, Mode.DAMPING.words):
            return str(texts(safety["message"])[row])
    return ""


def _digests(bag: Bag) -> list[str]:
    """The sha256 of each policy loaded in this run; older bags hold one."""
    info = bag.information
    return info.get("policies_sha256", info.get("policy_sha256", "")).split(",")


def _walked_by(series: dict[str, Series], place: int) -> float:
    """Seconds that the policy at this index walked, from the rows of control/ticks."""
    if TICKS not in series:
        return 0.0
    names, rows = labelled(series[TICKS])
    if "policy" not in names:
        return 0.0
    column = {name: rows[:, names.index(name)] for name in ("policy", "mode", "gap_ns")}
    own = (column["policy"] == place) & (column["mode"] == Mode.WALKING)
    return float(column["gap_ns"][own].sum()) / 1e9


def _walked_s(series: dict[str, Series]) -> float:
    """A mode lasts until the next one, the last until the end of the recording."""
    modes, start = texts(series[MODE]["data"]), series[MODE].log_ns
    end = np.append(start[1:], max(int(part.log_ns[-1]) for part in series.values()))
    walking = np.array(modes) == Mode.WALKING.words
    return float((end - start)[walking].sum()) / 1e9
