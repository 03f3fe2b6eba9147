"""The gate's result as one HTML file: bars, tables, failures, and a film of each scenario."""

import base64
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim2real_deploy.analysis.plots import Bar, Line, bars, lines
from sim2real_deploy.analysis.report import write_page
from sim2real_deploy.analysis.sections import Cell, Section, table
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import heading_velocity
from sim2real_deploy.gate.episodes import AXES, UNITS, Episode, watch_episode
from sim2real_deploy.gate.figures import Record
from sim2real_deploy.gate.scenarios import Scenario
from sim2real_deploy.gate.verdict import Row
from sim2real_deploy.gate.workers import Task
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.twin.views import write_video

VIDEO_S, VIDEO_SIZE = 5.0, (480, 272)
VIDEO_EVERY = 3  # samples per frame
FILM_S, FILM_SIZE = 6.0, (320, 180)  # of each scenario
FILM_EVERY = 8
FAILURES_SHOWN = 100
FIGURES = {
    "cost_of_transport": "cost of transport",
    "smoothness": "smoothness, rad",
    "slip": "slip, m/m",
    "lift": "foot lift, m",
    "clearance": "swing clearance, m",
    "surprise": "surprise",
}


def write_gate_report(
    path: Path,
    bundle: Bundle,
    rows: Sequence[Row],
    runs: Sequence[tuple[Task, Episode]],
    threshold: float,
) -> None:
    task, worst = worst_run(rows, runs)
    _, record = watch_episode(bundle, *task)
    sections = [
        _success(rows, threshold),
        _flags(rows),
        _engines(rows),
        _figures(rows),
        _peaks(rows, bundle),
        _limits(rows),
        _failures([episode for _, episode in runs]),
        _worst(bundle, task, worst, record),
        _films(bundle, runs),
    ]
    about = (
        f"{bundle.spec.title} · sha256 {bundle.contract.sha256[:12]} · "
        f"{len(runs)} episodes · a scenario asks for {threshold:.0%}"
    )
    seconds = max(len(record.truths) / record.rate_hz, 1.0)
    write_page(path, f"Gate: {bundle.contract.name}", about, seconds, sections)


def worst_run(rows: Sequence[Row], runs: Sequence[tuple[Task, Episode]]) -> tuple[Task, Episode]:
    """In the scenario with the lowest success rate: the earliest fall, else the largest error."""
    least = min(rows, key=lambda row: row.rate)

    def badness(run: tuple[Task, Episode]) -> tuple[bool, bool, float]:
        (engine, scenario, _), episode = run
        here = (scenario.name, engine) == (least.scenario, least.engine)
        error = max(episode.figures.error) if episode.figures else 0.0
        soon = -episode.ended_s if episode.ended_s is not None else 0.0
        return here and not episode.success, here, soon if episode.fell else error - 1000

    return max(runs, key=badness)


def _name(row: Row) -> str:
    return f"{row.scenario} · {row.engine}"


def _success(rows: Sequence[Row], threshold: float) -> Section:
    shown = [
        Bar(
            _name(row),
            row.rate,
            f"{row.successes}/{row.runs}  {row.why}",
            row.passes(threshold),
            row.interval,
        )
        for row in rows
    ]
    passed = sum(row.passes(threshold) for row in rows)
    text = f"{passed} of {len(rows)} pass. Whiskers: 95 % interval; dashed: what is asked for."
    return Section("Success", text, bars=[bars("share of the runs", shown, 1.0, threshold)])


def _flags(rows: Sequence[Row]) -> Section | None:
    flagged: list[list[Cell]] = [[_name(row), flag] for row in rows for flag in row.flags]
    return Section("Red flags", "", [table(("where", "what"), flagged)]) if flagged else None


def _figures(rows: Sequence[Row]) -> Section:
    walked = [row for row in rows if row.error is not None and row.velocity is not None]
    content: list[list[Cell]] = []
    for row in walked:
        speeds = [round(value, 3) for value in (*(row.velocity or ()), *(row.error or ()))]
        figures = [getattr(row, name) for name in FIGURES]
        known = [float("nan") if value is None else round(value, 3) for value in figures]
        content.append([_name(row), *speeds, *known])
    head = [f"{axis}, {unit}" for axis, unit in zip(AXES, UNITS, strict=True)]
    head += [*(f"error {axis}" for axis in AXES), *FIGURES.values()]
    errors = [(row, max(row.error or (0.0,))) for row in walked]
    most = max((error for _, error in errors), default=0.0) or 1.0
    shown = [Bar(_name(row), error, f"{error:.2f}") for row, error in errors]
    return Section(
        "Tracking and gait",
        "Medians over the trials.",
        [table(["", *head], content)],
        bars=[bars("largest error of the three speeds, m/s or rad/s", shown, most)],
    )


def _engines(rows: Sequence[Row]) -> Section | None:
    """The same scenarios in two engines: a difference hints that a policy learnt its simulator."""
    engines = list(dict.fromkeys(row.engine for row in rows))
    if len(engines) < 2:
        return None
    by_name = {(row.scenario, row.engine): row for row in rows}
    content: list[list[Cell]] = []
    for name in dict.fromkeys(row.scenario for row in rows):
        one, other = (by_name[name, engine] for engine in engines[:2])
        cells: list[Cell] = [name, 100 * one.rate, 100 * other.rate, 100 * (other.rate - one.rate)]
        if one.error is not None and other.error is not None:
            cells += [round(b - a, 3) for a, b in zip(one.error, other.error, strict=True)]
        content.append(cells)
    head = ["", *(f"{engine}, %" for engine in engines[:2]), "difference"]
    head += [f"difference of error {axis}" for axis in AXES]
    return Section("Side by side", "", [table(head, content)])


def _peaks(rows: Sequence[Row], bundle: Bundle) -> Section:
    tiers = bundle.spec.temperature
    torque = [
        Bar(_name(row), row.torque, f"{row.torque:.0%}", row.torque < 1)
        for row in rows
        if row.torque is not None
    ]
    heat = [
        Bar(_name(row), row.temperature, f"{row.temperature:.0f} °C", row.temperature < tiers.sit)
        for row in rows
        if row.temperature is not None
    ]
    return Section(
        "Peaks",
        "The worst of all trials.",
        bars=[
            bars("torque, share of the joint's limit", torque, 1.0),
            bars("motor temperature; dashed: torque is reduced", heat, tiers.stop, tiers.derate),
        ],
    )


def _limits(rows: Sequence[Row]) -> Section | None:
    acted: list[list[Cell]] = [
        [_name(row), kind, 100 * share] for row in rows for kind, share in row.limits.items()
    ]
    head = ("where", "limit", "acted, % of ticks")
    return Section("Limits that acted", "", [table(head, acted)]) if acted else None


def _failures(episodes: Sequence[Episode]) -> Section | None:
    failed: list[list[Cell]] = [
        [
            run.scenario,
            str(run.trial),
            "-" if run.ended_s is None else run.ended_s,
            run.reason,
        ]
        for run in episodes
        if not run.success
    ]
    if not failed:
        return None
    text = f"{len(failed)} of {len(episodes)} runs" + (
        f"; the first {FAILURES_SHOWN} are shown." if len(failed) > FAILURES_SHOWN else "."
    )
    head = ("scenario", "trial", "ended, s", "why")
    return Section("Failures", text, [table(head, failed[:FAILURES_SHOWN])])


def _worst(bundle: Bundle, task: Task, episode: Episode, record: Record) -> Section | None:
    engine, scenario, trial = task
    if not record.truths:
        return None
    seconds = np.arange(len(record.truths)) / record.rate_hz
    reached = np.array([heading_velocity(truth) for truth in record.truths])
    asked = np.array(record.commands)
    plots = [
        lines(
            axis, unit, [Line("told", seconds, asked[:, i]), Line("does", seconds, reached[:, i])]
        )
        for i, (axis, unit) in enumerate(zip(AXES, UNITS, strict=True))
    ]
    outcome = episode.reason or "it succeeded, like all others"
    text = f"{scenario.name}, trial {trial}, in {engine}: {outcome}."
    try:
        film = _film(bundle, scenario, trial, record, VIDEO_S, VIDEO_EVERY, VIDEO_SIZE)
    except Refusal as refusal:
        film, text = "", f"{text} No film: {refusal}"
    return Section("The worst run", text, plots=plots, columns=3, video=film)


def _films(bundle: Bundle, runs: Sequence[tuple[Task, Episode]]) -> Section | None:
    """One run of each scenario: the first that failed, else the first."""
    chosen: dict[tuple[str, str], tuple[Task, Episode]] = {}
    for task, episode in runs:
        place = (task[1].name, task[0])
        if place not in chosen or (chosen[place][1].success and not episode.success):
            chosen[place] = (task, episode)
    films = []
    for (name, engine), (task, episode) in chosen.items():
        _, record = watch_episode(bundle, *task)
        if not record.truths:
            continue
        outcome = episode.reason or "succeeds"
        try:
            film = _film(bundle, task[1], task[2], record, FILM_S, FILM_EVERY, FILM_SIZE)
        except Refusal as refusal:
            return Section("Films", f"None could be drawn: {refusal}")
        films.append({"caption": f"{name}, trial {task[2]}, {engine}: {outcome}", "source": film})
    text = "The last seconds of a run of each scenario: one that failed, if any did."
    return Section("Films", text, films=films) if films else None


def _film(
    bundle: Bundle,
    scenario: Scenario,
    trial: int,
    record: Record,
    seconds: float,
    every: int,
    size: tuple[int, int],
) -> str:
    """The last seconds as a data URI; MuJoCo draws it, whichever engine ran."""
    kept = record.truths[-round(seconds * record.rate_hz) :: every]
    poses = [np.concatenate((t.position, t.quaternion, t.joint_position)) for t in kept]
    model = TwinRobot(bundle.spec, scenario.conditions(bundle.spec, trial).floor).model
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        write_video(path, model, poses, record.rate_hz / every, size)
        return "data:video/mp4;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
