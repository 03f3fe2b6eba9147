"""The sections of a report, one function each; a section without data is left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.plots import Line, bands, lines, spans
from sim2real_deploy.analysis.run_figures import figures_of, lost_by_design, lost_states
from sim2real_deploy.analysis.summary import sentence, to_look_at
from sim2real_deploy.analysis.view import View
from sim2real_deploy.bags.cdr import texts
from sim2real_deploy.bags.recorded import labelled
from sim2real_deploy.bags.recording import COUNTS
from sim2real_deploy.control.limits import Limit
from sim2real_deploy.control.modes import POLICY_MODES, Mode
from sim2real_deploy.safety.thermal import HeatPredictor
from sim2real_deploy.topics import MODE, OBSERVATION, ODOMETRY, SAFETY, TRUTH

Cell = str | float
IMPACT_S = 0.03  # smoothing: a foot bounces for this long when it lands
LEVELS = ("ok", "warning", "error", "stale")
LEVEL_COLORS = {"ok": "#059669", "warning": "#d97706", "error": "#dc2626", "stale": "#64748b"}
MODE_COLORS = {
    "passive": "#94a3b8",
    "damping": "#64748b",
    "standing_up": "#d97706",
    "standing": "#0891b2",
    "walking": "#059669",
    "slowing_down": "#65a30d",
    "sitting_down": "#7c3aed",
    "exciting": "#be185d",
    "recovering": "#db2777",
}


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    text: str = ""
    tables: list[dict[str, Any]] = field(default_factory=list)
    plots: list[dict[str, Any]] = field(default_factory=list)
    columns: int = 1
    bars: list[dict[str, Any]] = field(default_factory=list)
    video: str = ""  # data URI
    films: list[dict[str, str]] = field(default_factory=list)  # of `caption` and `source`


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> dict[str, Any]:
    tidy = [
        [cell if isinstance(cell, str) or np.isfinite(cell) else "-" for cell in r] for r in rows
    ]
    return {"head": list(head), "rows": tidy}


def summary(view: View) -> Section:
    """For a reader who reads nothing else."""
    figures = figures_of(view)
    rows = to_look_at(figures, view.robot) or [("nothing out of the ordinary", "")]
    return Section("Summary", sentence(figures), [table(("look at", "section"), rows)])


def completeness(view: View) -> Section:
    """Whether all that was received is in the bag, and no state is missing."""
    counts = view.bag.metadata.get(COUNTS, {})
    lost = lost_states(view)
    by_design = 0 < lost <= lost_by_design(view)
    verdict = "NOT OK" if lost else "ok"
    if by_design:
        verdict = "ok: this twin loses some on purpose"
    rows: list[list[Cell]] = [["states lost on the wire, by tick", float(lost), verdict]]
    for key, value in counts.items():
        if key.startswith("dropped"):
            rows.append([f"dropped by the recorder: {key[7:]}", float(value), "NOT OK"])
    rows += [[problem, "", "NOT OK"] for problem in view.bag.problems]
    total = sum(int(value) for key, value in counts.items() if key.startswith("received"))
    text = f"{total} messages received and recorded." if total else ""
    return Section("Recording", text, [table(("what", "count", ""), rows)])


def timeline(view: View) -> Section:
    events: list[list[Cell]] = []
    end = view.duration_s
    if view.ticks:
        words = np.array([mode.words for mode in Mode])
        seconds = view.ticks["seconds"]
        modes = spans(seconds, words[view.ticks["mode"].astype(int)], float(seconds[-1]))
    elif MODE in view.series:
        series = view.series[MODE]
        modes = spans(view.seconds(series), texts(series["data"]), end)
    else:
        modes = []
    rows = [("mode", modes)]
    if policies := _policies(view):
        rows.append(("policy", policies))
    for kind, named in rows:
        events += [[start, kind, name] for start, _, name in named]
    if SAFETY in view.series:
        safety = view.series[SAFETY]
        seconds = view.seconds(safety)
        levels = [LEVELS[min(int(level), 3)] for level in safety["level"]]
        rows.append(("safety", spans(seconds, levels, end)))
        messages = spans(seconds, texts(safety["message"]), end)
        events += [[start, "safety", text] for start, _, text in messages]
    events.sort(key=lambda row: row[0])
    return Section(
        "Timeline",
        "All time plots share one range: drag or scroll to zoom, double click to see all.",
        [table(("s", "", "what"), events[:200])],
        [bands("modes and safety", rows, MODE_COLORS | LEVEL_COLORS)],
    )


def _policies(view: View) -> list[tuple[float, float, str]]:
    """Which policy walked when, if several were loaded."""
    names = view.bag.information.get("policies", "").split(",")
    if len(names) < 2 or "policy" not in view.ticks:
        return []
    ticks = view.ticks
    walks = np.isin(ticks["mode"], POLICY_MODES)
    labels = np.where(walks, np.array(names)[ticks["policy"].astype(int)], "")
    return spans(ticks["seconds"], labels, float(ticks["seconds"][-1]))


def velocity(view: View) -> Section | None:
    """Command against measured, for the three planar axes."""
    if not view.ticks:
        return None
    axes = (
        ("forward", "vx", "twist.twist.linear.x", "m/s"),
        ("sideways", "vy", "twist.twist.linear.y", "m/s"),
        ("turning", "wz", "twist.twist.angular.z", "rad/s"),
    )
    plots = []
    walking = view.ticks["mode"] == Mode.WALKING
    rows: list[list[Cell]] = []
    for title, command, measured, unit in axes:
        asked = np.where(walking, view.ticks[command], np.nan)
        content = [Line("command", view.ticks["seconds"], asked)]
        for name, topic in (("odometry", ODOMETRY), ("truth", TRUTH)):
            if topic in view.series:
                series = view.series[topic]
                seconds, values = view.seconds(series), series[measured]
                content.append(Line(name, seconds, values))
                at = np.interp(view.ticks["seconds"], seconds, values, left=np.nan, right=np.nan)
                error = (at - asked)[walking]
                error = error[np.isfinite(error)]
                if len(error):
                    rows.append([title, name, float(error.mean()), float(error.std()), unit])
        plots.append(lines(title, unit, content))
    head = ("axis", "measured by", "mean error while walking", "spread", "")
    return Section("Velocity: command against measured", "", [table(head, rows)], plots)


def gait(view: View) -> Section | None:
    if "foot_force" not in view.states or not len(view.robot.legs):
        return None
    force = _smooth(view.states["foot_force"], round(IMPACT_S * view.robot.wire.rate_hz))
    threshold = np.maximum(5.0, 0.15 * np.percentile(force, 95, axis=0))
    contact = _with_hysteresis(force, threshold / 2, threshold)
    content = []
    rows: list[list[Cell]] = []
    walking = _walking_at_states(view)
    for leg, name in enumerate(view.robot.legs):
        touching = np.where(contact[:, leg], "stance", "")
        content.append((name, spans(view.state_s, touching, view.duration_s)))
        down = contact[walking, leg]
        steps = int(np.count_nonzero(down[1:] & ~down[:-1])) if len(down) else 0
        walked_s = np.count_nonzero(walking) / view.robot.wire.rate_hz
        if walked_s > 1:
            rows.append([name, steps / walked_s, float(down.mean()), float(threshold[leg])])
    head = ("leg", "steps a second", "share on the ground", "threshold, sensor units")
    return Section(
        "Gait",
        "When each foot carries weight.",
        [table(head, rows)] if rows else [],
        [bands("stance", content, {"stance": "#2563eb"})],
    )


def tracking(view: View) -> Section | None:
    commands = view.commands
    if commands is None:
        return None
    held = commands["kp"] > 0
    rows: list[list[Cell]] = []
    plots = []
    for joint, name in enumerate(view.robot.joint_names):
        target = np.where(held[:, joint], commands["q"][:, joint], np.nan)
        measured = view.states["q"][:, joint]
        error = (measured - target)[held[:, joint]]
        if len(error):
            rows.append([name, float(np.sqrt(np.mean(error**2))), float(np.abs(error).max())])
        content = [Line("target", view.state_s, target), Line("measured", view.state_s, measured)]
        plots.append(lines(name, "rad", content))
    head = ("joint", "rms error, rad", "largest, rad")
    return Section("Joint tracking", "", [table(head, rows)], plots, columns=3)


def torque(view: View) -> Section:
    rows: list[list[Cell]] = []
    plots = []
    limits = view.robot.torque_limit
    for joint, name in enumerate(view.robot.joint_names):
        values = view.states["torque"][:, joint]
        peak = float(np.abs(values).max())
        bits = view.ticks.get(f"limit.{name}")
        acted = "-"
        if bits is not None:
            shares = {kind: float(np.mean(bits.astype(int) & kind > 0)) for kind in Limit}
            parts = [f"{kind.name.lower()} {share:.2%}" for kind, share in shares.items() if share]
            acted = ", ".join(parts) or "none"
        rms = float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))
        rows.append([name, rms, peak, 100 * peak / float(limits[joint]), acted])
        bounds = (-limits[joint], limits[joint]) if peak > 0.6 * limits[joint] else ()
        plots.append(lines(name, "Nm", [Line("measured", view.state_s, values)], bounds))
    head = ("joint", "rms, Nm", "peak, Nm", "peak, % of limit", "limits that acted, share of ticks")
    return Section("Torque and limits", "", [table(head, rows)], plots, columns=3)


def temperature(view: View) -> Section:
    tiers = view.robot.temperature
    every = max(1, int(view.robot.wire.rate_hz / 10))  # ten readings per second suffice
    seconds, readings = view.state_s[::every], view.states["temperature"][::every]
    rows: list[list[Cell]] = []
    for joint, name in enumerate(view.robot.joint_names):
        predictor = HeatPredictor()
        for now_s, value in zip(seconds.tolist(), readings[:, joint].tolist(), strict=True):
            predictor.update(value, now_s)
        left = predictor.time_left_s(tiers.sit, float(seconds[-1]))
        told = f"in {left:.0f} s" if np.isfinite(left) else "not at this load"
        start, end = float(readings[0, joint]), float(readings[-1, joint])
        rows.append([name, start, end, float(readings[:, joint].max()), told])
    content = [
        Line(name, seconds, readings[:, joint]) for joint, name in enumerate(view.robot.joint_names)
    ]
    hottest = float(readings.max())
    shown = [tier for tier in (tiers.warn, tiers.derate, tiers.sit) if hottest > tier - 15]
    head = ("joint", "start, °C", "end, °C", "highest, °C", f"reaches {tiers.sit:g} °C")
    plot = lines("motors", "°C", content, shown, 220)
    return Section(
        "Temperature", "Dashed: the tiers at which safety acts.", [table(head, rows)], [plot]
    )


def battery(view: View) -> Section | None:
    units = {"battery_percent": "%", "voltage": "V", "current": "A"}
    every = max(1, int(view.robot.wire.rate_hz / 50))
    plots = [
        lines(
            name.replace("_", " "),
            unit,
            [Line(name, view.state_s[::every], view.states[name][::every])],
        )
        for name, unit in units.items()
        if name in view.states
    ]
    return Section("Battery", plots=plots, columns=3) if plots else None


def latency(view: View) -> Section | None:
    if not view.ticks:
        return None
    names = {
        "age_ns": "state received to command sent",
        "gap_ns": "between two ticks",
        "work_ns": "work of a tick",
        "observe_ns": "observation",
        "infer_ns": "network",
        "write_ns": "write",
    }
    stepped = view.ticks["policy_stepped"] > 0
    rows: list[list[Cell]] = []
    plots = []
    for key, name in names.items():
        used = stepped if key in ("observe_ns", "infer_ns") else np.ones_like(stepped)
        values = view.ticks[key][used] / 1e6
        if len(values):
            shares = np.percentile(values, (50, 90, 99, 100)).tolist()
            rows.append([name, *shares])
        if key in ("age_ns", "gap_ns", "work_ns"):
            plots.append(lines(name, "ms", [Line(name, view.ticks["seconds"][used], values)]))
    late = int(view.ticks["missed"].sum())
    text = f"{late} of {len(stepped)} ticks came late: over a period after they were due."
    if lost := lost_states(view):
        text += f" {lost} states were lost; the ticks that waited for them are not counted as late."
    stood_ms = float(np.ptp(view.ticks.get("stood_still_ns", np.zeros(1)))) / 1e6
    if stood_ms:
        text += f" The computer stood still for {stood_ms:.0f} ms, and the twin's world with it."
    head = ("ms", "p50", "p90", "p99", "max")
    return Section("Latency", text, [table(head, rows)], plots, columns=3)


def distribution(view: View) -> Section | None:
    """Observations as z-scores against those of training."""
    from sim2real_deploy.analysis.policy_replay import bundle_of

    if OBSERVATION not in view.series or "policy.yaml" not in view.bag.attachments:
        return None
    contract = bundle_of(view.bag, view.robot).contract
    names, values = labelled(view.series[OBSERVATION])
    mean = np.array([value for item in contract.statistics for value in item.mean])
    std = np.array([value for item in contract.statistics for value in item.std])
    if len(mean) != len(names):
        return None
    rows: list[list[Cell]] = []
    for index, name in enumerate(names):
        scores = (values[:, index] - mean[index]) / max(std[index], 1e-3)
        beyond = 100 * float(np.mean(np.abs(scores) > 3))
        rows.append([name, float(scores.mean()), float(scores.std()), beyond])
    rows.sort(key=lambda row: -abs(float(row[1])) - float(row[3]))
    plots = []
    if view.ticks:
        stepped = view.ticks["policy_stepped"] > 0
        content = [
            Line("surprise", view.ticks["seconds"][stepped], view.ticks["surprise"][stepped])
        ]
        plots.append(lines("root mean square of all z-scores", "1 = as in training", content))
    head = ("observation, the furthest first", "shift, std", "spread, std", "beyond 3 std, %")
    return Section("Observations against training", "", [table(head, rows[:24])], plots)


def parameters(view: View) -> Section:
    rows = [[key, value] for key, value in view.bag.information.items()]
    for record, values in sorted(view.bag.metadata.items()):
        if record.startswith("parameters"):
            node = record.removeprefix("parameters")
            rows += [[f"{node}: {key}", value] for key, value in values.items()]
    return Section("What ran", "", [table(("what", "value"), rows)])


ALL: tuple[Callable[[View], Section | None], ...] = (
    summary,
    completeness,
    timeline,
    velocity,
    gait,
    tracking,
    torque,
    temperature,
    battery,
    latency,
    distribution,
    parameters,
)


def _smooth(values: npt.NDArray[Any], width: int) -> npt.NDArray[np.float64]:
    """A moving mean down each column."""
    kernel = np.ones(width) / width
    return np.stack([np.convolve(column, kernel, "same") for column in values.T], axis=1)


def _with_hysteresis(
    values: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """On above `high`, off below `low`, unchanged in between."""
    clear = (values > high) | (values < low)
    clear[0] = True
    rows = np.arange(len(values))[:, None]
    last_clear = np.maximum.accumulate(np.where(clear, rows, 0), axis=0)
    return np.take_along_axis(values > high, last_clear, axis=0)


def _walking_at_states(view: View) -> npt.NDArray[np.bool_]:
    if not view.ticks:
        return np.zeros(len(view.states), np.bool_)
    index = np.searchsorted(view.ticks["seconds"], view.state_s, side="right") - 1
    walking: npt.NDArray[np.bool_] = view.ticks["mode"][np.maximum(index, 0)] == Mode.WALKING
    return walking & (index >= 0)
