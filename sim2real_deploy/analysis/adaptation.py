"""The report's section on adaptation: its last estimates, and how they changed."""

from sim2real_deploy.analysis.plots import Line, Times, lines
from sim2real_deploy.analysis.sections import Cell, Section, table
from sim2real_deploy.analysis.view import View
from sim2real_deploy.bags.recorded import labelled
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.topics import ADAPTATION, ESTIMATES

TEXT = (
    "Strength is relative to config/adaptation, friction is in addition to it. A standard error of "
    "1 for strength, or of 10 for friction, means not known."
)

ESTIMATES_TEXT = (
    "The network's estimates of the robot from a few steps of history, in the units of its "
    "contract. docs/adaptation.md says how accurate those of go2_walk are."
)


def adaptation(view: View) -> Section | None:
    series = view.series.get(ADAPTATION)
    if series is None or not len(series):
        return None
    names, rows = labelled(series)
    seconds, last = view.seconds(series), dict(zip(names, rows[-1].tolist(), strict=True))
    joints = view.robot.joint_names
    fields = {
        "strength": "strength",
        "strength_error": "standard error",
        "gain": "factor on gains",
        "torque": "torque added, Nm",
        "friction": "friction, Nm",
        "friction_error": "its standard error",
    }
    told = {field: title for field, title in fields.items() if f"{field}.{joints[0]}" in last}
    head = ("joint", *told.values())
    by_joint = [[joint, *(last[f"{field}.{joint}"] for field in told)] for joint in joints]
    whole = [
        ["payload", last["payload_kg"], last["payload_error_kg"], "kg"],
        ["command delay", last["delay_ms"], "", "ms"],
        ["largest share of its bounds that it wanted", last["strain"], "", ""],
    ]
    plots = [
        lines(title, unit, [_line(name, names, rows, seconds) for name in shown])
        for title, unit, shown in (
            ("motor strength", "of the expected", [f"strength.{joint}" for joint in joints]),
            ("payload", "kg", ["payload_kg"]),
            ("torque added", "Nm", [f"torque.{joint}" for joint in joints]),
            ("velocity command, shifted by", "m/s, rad/s", [n for n in names if "trim_" in n]),
        )
    ]
    tables = [table(("what", "value", "standard error", "unit"), whole), table(head, by_joint)]
    return Section("Adaptation", TEXT, tables, plots)


def estimates(view: View) -> Section | None:
    """The policy network's own estimates while it walked."""
    series = view.series.get(ESTIMATES)
    if series is None or not len(series):
        return None
    names, rows = labelled(series)
    seconds = view.seconds(series)
    means: list[list[Cell]] = [
        [name, float(values.mean()), float(values.std())]
        for name, values in zip(names, rows.T, strict=True)
    ]
    plots = [lines(name, "", [_line(name, names, rows, seconds)]) for name in names]
    head = ("estimate", "mean", "spread from step to step")
    return Section("The policy's estimates", ESTIMATES_TEXT, [table(head, means)], plots)


def _line(name: str, names: tuple[str, ...], rows: Floats, seconds: Times) -> Line:
    return Line(name.partition(".")[2] or name, seconds, rows[:, names.index(name)])
