"""What identification found, as one HTML file: figures, intervals, measured against simulated."""

from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.analysis.plots import Line, lines
from sim2real_deploy.analysis.report import write_page
from sim2real_deploy.analysis.sections import Cell, Section, table
from sim2real_deploy.identify.check import replay_hung
from sim2real_deploy.identify.pipeline import Identified
from sim2real_deploy.identify.recording import named
from sim2real_deploy.identify.verdicts import summary
from sim2real_deploy.twin.files import TwinFile

SHOWN_S = 20.0
SHOWN_JOINTS = 3  # of the first leg


def write_identify_report(path: Path, found: Identified, file: TwinFile) -> None:
    provenance = file.identified
    assert provenance is not None
    about = f"{found.robot.title} · {provenance.date} · {named(found.recordings)}"
    sections = [_figures(found, file), _unexplained(file), *_replays(found)]
    write_page(path, "Identified twin", about, SHOWN_S, sections)


def _figures(found: Identified, file: TwinFile) -> Section:
    head = ("figure", "joint", "before", "found", "95 %", "verdict")
    text = (
        "Intervals come from a bootstrap over stretches of the recordings. A figure that is not "
        "excited may be anywhere in its interval. The figures of one joint are valid together only."
    )
    return Section("Figures", text, [table(head, summary(found, file))])


def _unexplained(file: TwinFile) -> Section:
    assert file.identified is not None
    rows = [[joint, words] for joint, words in file.identified.residual.items()]
    text = "" if rows else "The model explains the recordings to about their noise."
    tables = [table(("joint", "what remains"), rows)] if rows else []
    return Section("What the model does not explain", text, tables)


def _replays(found: Identified) -> list[Section]:
    """Each whole recording replayed from its first state, with the figures before and after."""
    if found.fit is None:
        return []
    sections = []
    for number, index in enumerate(found.hung[:4]):
        recording = found.recordings[index]
        attitude = found.fit.point.attitudes[number]
        before = replay_hung(recording, found.before, attitude)
        after = replay_hung(recording, found.figures, attitude)
        rows: list[list[Cell]] = [
            ["joints, mrad rms", 1e3 * before.q_rms, 1e3 * after.q_rms],
            ["torque error, % of the torque", 100 * before.torque_share, 100 * after.torque_share],
            ["same below 20 Hz, %", 100 * before.slow_torque_share, 100 * after.slow_torque_share],
        ]
        plots: list[dict[str, Any]] = []
        count = round(SHOWN_S / recording.period)
        for joint in range(min(SHOWN_JOINTS, found.robot.joint_count)):
            for title, unit, column in (("position", "rad", "q"), ("torque", "Nm", "torque")):
                seconds = np.arange(min(len(after.q), count)) * np.float64(recording.period)
                shown = {
                    "measured": recording[column][after.first :],
                    "before": getattr(before, column),
                    "after": getattr(after, column),
                }
                content = [
                    Line(name, seconds, values[: len(seconds), joint])
                    for name, values in shown.items()
                ]
                plots.append(lines(f"{found.robot.joint_names[joint]} {title}", unit, content))
        head = ("open loop to the end", "before", "after")
        sections.append(
            Section(f"Replay of {recording.name}", "", [table(head, rows)], plots, columns=2)
        )
    return sections
