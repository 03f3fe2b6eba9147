"""What was learnt beyond identification, as one HTML file: figures first, then measured torque
beside the identified and the learnt torque."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim2real_deploy.analysis.plots import Bar, Line, bars, lines
from sim2real_deploy.analysis.report import write_page
from sim2real_deploy.analysis.sections import Cell, Section, table
from sim2real_deploy.identify.learn import summary
from sim2real_deploy.identify.learn.actuator import ActuatorErrors, ActuatorResult, predict
from sim2real_deploy.identify.learn.delta import DeltaResult
from sim2real_deploy.identify.recording import Recording, named
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.actuator_net import FRICTION, TORQUE

SHOWN_S = 20.0
SHOWN_JOINTS = 3  # of the first leg
STEPS = ("ideal motor", "identified", "+ network")
NAMES = {
    "torque": "PD torque and speed, now, 10 and 20 ms ago",
    "history": "position error, speed and command of 50 steps",
}


def write_actuator_report(
    path: Path, twin: str, recordings: Sequence[Recording], found: Sequence[ActuatorResult]
) -> None:
    """The first of `found` is the network that is kept; the others are for comparison."""
    kept = found[0]
    sections = [_summary(kept), _side_by_side(found), _gains(kept), *_by_joint(kept), _traces(kept)]
    write_page(path, "Actuator network", _about(kept.robot, twin, recordings), SHOWN_S, sections)


def _about(robot: RobotSpec, twin: str, recordings: Sequence[Recording]) -> str:
    return f"{robot.title} · learnt on twin {twin} from {named(recordings)}"


def _summary(found: ActuatorResult) -> Section:
    errors = {"reported torque": found.reported, "torque that moves the leg": found.carried}
    rows: list[list[Cell]] = []
    charts = []
    for name, by_joint in errors.items():
        if not by_joint:
            continue
        e = summary.pooled(by_joint)
        rows.append([name, e.torque, *_values(e), 100 * summary.explained(e)])
        content = [Bar(s, v, f"{v:.3f} Nm") for s, v in zip(STEPS, _values(e), strict=True)]
        charts.append(bars(f"Error of the {name}, Nm rms", content, max(_values(e)) * 1.15))
    text = (
        "In blocks of time that were used neither to fit nor to choose the network. The share is "
        "of the squared error that identification left. The torque that moves the leg comes from "
        "inverse dynamics of a hung robot; only there does friction behind the motor show."
    )
    head = ("held-out error, Nm rms", "torque", *STEPS, "network explains, %")
    return Section("What each step explains", text, [table(head, rows)], bars=charts)


def _side_by_side(found: Sequence[ActuatorResult]) -> Section:
    rows: list[list[Cell]] = []
    for one in found:
        unseen = list(one.unseen_gains.values())
        identified, without, seen = (
            float(np.sqrt(np.mean(np.square([u[k] for u in unseen])))) if unseen else float("nan")
            for k in range(3)
        )
        kept = " (kept)" if one is found[0] else ""
        learned = summary.pooled(one.reported).learned
        rows.append([NAMES[one.weights.inputs] + kept, learned, identified, without, seen])
    text = (
        "The same data and the same splits. Unseen gains: each set of gains was left out once, and "
        "the network trained on the rest was judged on it."
    )
    head = (
        "inputs",
        "reported torque, Nm rms",
        "at unseen gains: identified",
        "with the network",
        "had it seen them",
    )
    return Section("Inputs side by side", text, [table(head, rows)])


def _gains(found: ActuatorResult) -> Section:
    rows: list[list[Cell]] = [
        [name, *values, 100 * (values[1] / values[2] - 1)]
        for name, values in found.unseen_gains.items()
    ]
    head = ("gains left out", "identified", "network without them", "network with them", "worse, %")
    return Section("At unseen gains", "", [table(head, rows)] if rows else [])


def _by_joint(found: ActuatorResult) -> list[Section]:
    sections = []
    for title, errors, output in (
        ("Reported torque, joint by joint", found.reported, TORQUE),
        ("Torque that moves the leg, joint by joint", found.carried, FRICTION),
    ):
        if errors:
            rows: list[list[Cell]] = [list(row) for row in summary.rows(found, errors, output)]
            sections.append(Section(title, "", [table(summary.HEAD, rows)]))
    return sections


def _traces(found: ActuatorResult) -> Section:
    part = found.samples[0]
    rows = np.flatnonzero(part.usable & (np.arange(len(part.usable)) * part.period < SHOWN_S))
    seconds = rows * np.float64(part.period)
    plots = []
    for joint in range(min(SHOWN_JOINTS, found.robot.joint_count)):
        learned = predict(found.weights, part, rows, joint)[:, TORQUE]
        law = part.law[rows, joint]
        content = [
            Line("measured", seconds, part.torque[rows, joint]),
            Line("identified", seconds, law),
            Line("+ network", seconds, law + learned),
        ]
        plots.append(lines(f"{found.robot.joint_names[joint]} torque", "Nm", content))
        content = [
            Line("left by identification", seconds, part.torque[rows, joint] - law),
            Line("network", seconds, learned),
        ]
        plots.append(lines(f"{found.robot.joint_names[joint]} residual", "Nm", content))
    return Section(f"Reported torque in {part.name}", "", [], plots, columns=2)


def _values(errors: ActuatorErrors) -> tuple[float, float, float]:
    return errors.ideal, errors.identified, errors.learned


def write_action_report(
    path: Path, twin: str, recordings: Sequence[Recording], found: DeltaResult
) -> None:
    charts = []
    for k, horizon in enumerate(found.horizons):
        rms = {name: 1e3 * float(np.sqrt(np.mean(e[k] ** 2))) for name, e in found.errors.items()}
        steps = [Bar(name, value, f"{value:.1f} mrad") for name, value in rms.items()]
        charts.append(bars(f"After {horizon:g} s, mrad rms", steps, 1.15 * max(rms.values())))
    text = (
        "Windows that start in a recorded state and follow the recorded commands, in held-out "
        "blocks of time. " + found.verdict
    )
    joints: list[list[Cell]] = [
        [name, 1e3 * plain, 1e3 * learned, "" if learned < plain else "does not help here"]
        for name, plain, learned in zip(
            found.robot.joint_names, *(e[-1] for e in list(found.errors.values())[-2:]), strict=True
        )
    ]
    head = ("joint", "without, mrad", "with delta action, mrad", "")
    sections = [
        Section("What each step explains", text, [table(found.head, found.rows())], bars=charts),
        Section(f"Joint by joint, after {found.horizons[-1]:g} s", "", [table(head, joints)]),
        Section(
            "The changes themselves",
            f"The search found changes of {1e3 * found.search_rms:.0f} mrad rms. They act in the "
            "simulator only and are never sent to a robot.",
        ),
    ]
    write_page(path, "Delta action", _about(found.robot, twin, recordings), SHOWN_S, sections)
