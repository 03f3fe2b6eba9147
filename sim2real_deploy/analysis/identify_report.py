"""What identification found, as one HTML file: figures, intervals, measured against simulated."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.analysis.plots import Line, lines
from sim2real_deploy.analysis.report import write_page
from sim2real_deploy.analysis.sections import Cell, Section, table
from sim2real_deploy.identify.check import replay_hung
from sim2real_deploy.identify.pipeline import Identified
from sim2real_deploy.identify.verdicts import summary
from sim2real_deploy.twin.files import TwinFile

SHOWN_S = 20.0
SHOWN_JOINTS = 3  # of the first leg


def write_identify_report(path: Path, found: Identified, file: TwinFile) -> None:
    sections = [_figures(found, file), _unexplained(file), *_replays(found)]
    provenance = file.identified
    assert provenance is not None
    about = f"{found.robot.title} · {provenance.date} · " + ", ".join(
        f"{name} ({digest})" for name, digest in provenance.recordings.items()
    )
    content = {"duration": SHOWN_S, "sections": [asdict(section) for section in sections]}
    write_page(path, "Identified twin", about, content)


def _figures(found: Identified, file: TwinFile) -> Section:
    head = ("figure", "joint", "before", "found", "95 %", "verdict")
    text = (
        "Intervals come from a bootstrap over stretches of the recordings; a figure that is not "
        "excited may be anything within its interval; the values of a joint belong together."
    )
    return Section("Figures", text, [table(head, summary(found, file))])


def _unexplained(file: TwinFile) -> Section:
    assert file.identified is not None
    rows = [[joint, words] for joint, words in file.identified.residual.items()]
    text = "" if rows else "The model explains the recordings to about their noise."
    tables = [table(("joint", "what stays"), rows)] if rows else []
    return Section("What the model does not explain", text, tables)


def _replays(found: Identified) -> list[Section]:
    """The whole recording from its first state on, with the figures of before and after."""
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
            [
                "the same below 20 Hz, %",
                100 * before.slow_torque_share,
                100 * after.slow_torque_share,
            ],
        ]
        plots: list[dict[str, Any]] = []
        count = round(SHOWN_S / recording.period)
        for joint in range(min(SHOWN_JOINTS, found.robot.joint_count)):
            for title, unit, column, part in (
                ("position", "rad", "q", "q"),
                ("torque", "Nm", "torque", "torque"),
            ):
                seconds = np.arange(min(len(after.q), count)) * np.float64(recording.period)
                content = [
                    Line(
                        "measured", seconds, recording[column][after.first :][: len(seconds), joint]
                    ),
                    Line("before", seconds, getattr(before, part)[: len(seconds), joint]),
                    Line("after", seconds, getattr(after, part)[: len(seconds), joint]),
                ]
                plots.append(lines(f"{found.robot.joint_names[joint]} {title}", unit, content))
        head = ("open loop to the end", "before", "after")
        sections.append(
            Section(f"Replay of {recording.name}", "", [table(head, rows)], plots, columns=2)
        )
    return sections
