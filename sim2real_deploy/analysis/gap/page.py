"""The gap as one page: the number and its causes at a glance, then what they rest on."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim2real_deploy.analysis.gap.gap import HORIZONS_S, Gap
from sim2real_deploy.analysis.gap.together import Together
from sim2real_deploy.analysis.plots import Bar, Line, bars, lines
from sim2real_deploy.analysis.report import write_page
from sim2real_deploy.analysis.sections import Cell, Section, table

SHOWN_CAUSES = 3
SHOWN_CHANNELS = 15


def write_gap_page(
    path: Path, gaps: Sequence[Gap], twin: str, together: Together | None = None
) -> None:
    newest = gaps[-1]
    sections = [_glance(newest)]
    if len(gaps) > 1:
        sections += [*([_together(together)] if together is not None else []), _trend(gaps)]
    if newest.beliefs:
        sections.append(_beliefs(newest))
    sections += [_closed_loop(newest), _open_loop(newest), _channels(newest), _plots(newest)]
    about = f"{newest.robot.robot.title} · {newest.robot.name} against the twin '{twin}'"
    seconds = len(newest.robot) / newest.robot.rate_hz
    write_page(path, "How far the robot is from its simulator", about, seconds, sections)


def headline(gap: Gap) -> str:
    return (
        f"Gap {gap.number:.2f} standard deviations (classifier AUC {gap.auc:.2f}; "
        f"two walks of the twin {gap.auc_chance:.2f}). "
        f"{gap.verdict()}"
    )


def _glance(gap: Gap) -> Section:
    text = headline(gap)
    if gap.findings is None:
        text += " The bag holds no torque: causes cannot be told from it."
    if gap.twin_fell_s is not None:
        text += f" The twin fell {gap.twin_fell_s:.1f} s into the walk; the robot did not."
    if gap.left is not None:
        text += f" With these causes in the twin {gap.left:.2f} would be left."
    rows = [[c.words, f"{c.explains:.0%}", c.remedy] for c in gap.causes[:SHOWN_CAUSES]]
    if gap.findings is not None:
        rows += [
            [f"{joint} gives {value:.0%} of the twin's torque, unlike the others", "",
             "look at this motor"]
            for joint, value in gap.findings.weak_joints.items()
        ]  # fmt: skip
    rows = rows or [["no cause stands out", "", ""]]
    return Section("At a glance", text, [table(("cause", "explains", "what to do"), rows)])


def _together(together: Together) -> Section:
    rows: list[list[Cell]] = [
        [" ".join(f"{v:+.2f}" for v in c.command), c.walks, f"{c.robot:.3f}", f"{c.twin:.3f}",
         f"{c.error:+.3f}", f"{c.gait:+.2f}"]
        for c in together.commands
    ]  # fmt: skip
    head = ("command", "walks", "robot, m/s", "twin, m/s", "error", "gait, Hz apart")
    tables = [table(head, rows)]
    if together.unlike:
        unlike: list[list[Cell]] = [
            [u.name, f"{u.robot:.3g}", f"{u.twin:.3g}", u.unit] for u in together.unlike
        ]
        tables.append(table(("still differs", "robot", "twin", ""), unlike))
    return Section("All walks together", together.words() + ".", tables)


def _beliefs(gap: Gap) -> Section:
    def cell(value: float | None) -> Cell:
        return "" if value is None else value

    rows: list[list[Cell]] = [
        [b.name, cell(b.adaptation), cell(b.network), cell(b.identified), b.unit]
        for b in gap.beliefs
    ]
    head = ("what", "adaptation", "the policy's network", "identified here", "")
    text = "What the robot believed of itself while it walked, beside what the recording shows."
    return Section("Beliefs", text, [table(head, rows)])


def _trend(gaps: Sequence[Gap]) -> Section:
    most = max(gap.number for gap in gaps) or 1.0
    rows = [
        Bar(gap.robot.name, gap.number, f"{gap.number:.2f}, AUC {gap.auc:.2f}", gap.same)
        for gap in gaps
    ]
    named = [[g.robot.name, ", ".join(c.words for c in g.causes) or "none"] for g in gaps]
    return Section(
        "Trend",
        "In the order given; the rest of the page is the last one.",
        [table(("run", "causes"), named)],
        bars=[bars("gap", rows, most)],
    )


def _closed_loop(gap: Gap) -> Section:
    figures: list[list[Cell]] = [
        [f.name, f.robot, f.twin, f.robot - f.twin, f.unit] for f in gap.figures
    ]
    speeds: list[list[Cell]] = [
        [" ".join(f"{v:+.2f}" for v in s.command), *(
            f"{s.robot[i]:+.3f} / {s.twin[i]:+.3f}" for i in range(3)), s.apart]
        for s in gap.speeds
    ]  # fmt: skip
    head = ("command", "forward, robot / twin", "sideways", "turning", "apart, m/s")
    return Section(
        "Closed loop",
        "The same policy and commands in the twin.",
        [table(("what", "robot", "twin", "difference", ""), figures), table(head, speeds)],
    )


def _open_loop(gap: Gap) -> Section:
    errors = gap.open_loop
    rows: list[list[Cell]] = []
    for horizon in HORIZONS_S:
        at = errors.at(horizon)
        joints = float(np.sqrt(np.mean(errors.joints[at] ** 2)))
        row: list[Cell] = [
            f"{horizon:g} s",
            joints,
            float(errors.tilt[at]),
            float(errors.velocity[at]),
        ]
        rows.append(row)
    head = ("after", "joints, rad rms", "tilt, deg", "speed, m/s")
    return Section(
        "Open loop",
        "The recorded commands into the twin, begun from recorded states each second.",
        [table(head, rows)],
    )


def _channels(gap: Gap) -> Section:
    shown = list(gap.channels.items())[:SHOWN_CHANNELS]
    most = max((value for _, value in shown), default=1.0) or 1.0
    rows = [Bar(name, value, f"{value:.2f}", value < 3 * gap.chance) for name, value in shown]
    return Section(
        "Channels",
        f"Distance of the distributions in standard deviations; chance makes {gap.chance:.2f}.",
        bars=[bars("the furthest apart", rows, most, gap.chance)],
    )


def _plots(gap: Gap) -> Section:
    plots = []
    sides = (("robot", gap.robot), ("twin", gap.twin))
    seconds = [np.arange(len(walk)) / walk.rate_hz for _, walk in sides]
    for axis, name in enumerate(("forward", "sideways")):
        content = [
            Line(side, at, walk["velocity"][:, axis])
            for (side, walk), at in zip(sides, seconds, strict=True)
        ]
        content.append(Line("command", seconds[0], gap.robot["command"][:, axis]))
        plots.append(lines(name, "m/s", content))
    for joint, name in enumerate(gap.robot.robot.joint_names[:3]):
        shown = [("q", "rad"), *([("torque", "Nm")] if gap.robot.torque_known else [])]
        for column, unit in shown:
            content = [
                Line(side, at, walk[column][:, joint])
                for (side, walk), at in zip(sides, seconds, strict=True)
            ]
            plots.append(lines(f"{name} {column}", unit, content))
    return Section("Side by side", "", plots=plots, columns=2)
