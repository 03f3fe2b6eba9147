"""The loop as one page: before and after at a glance, then every step and what it decided."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.analysis.loop.finetuning import GAINS, TUNED
from sim2real_deploy.analysis.loop.loop import Loop
from sim2real_deploy.analysis.plots import Bar, bars
from sim2real_deploy.analysis.report import write_page
from sim2real_deploy.analysis.sections import Cell, Section, table

POLICIES = {"before": "before", GAINS: "with gains for its motors", TUNED: "fine-tuned as well"}
TRACKED = {
    "velocity": "velocity error on the identified twin, once a command has settled",
    "settling": "the same while it settles: in part beyond any policy",
}


def write_loop_page(path: Path, loop: Loop) -> None:
    sections = [
        _glance(loop),
        _gaps(loop),
        _learnt(loop),
        _policies(loop),
        _ranges(loop),
        _gate(loop),
        _steps(loop),
    ]
    bags = ", ".join(bag.name for bag in loop.settings.bags)
    title = f"Before and after: {loop.settings.name}"
    write_page(path, title, f"From {bags}", loop.seconds, sections)


def headline(loop: Loop) -> str:
    before, after = _mean_gap(loop["gap_before"].result), _mean_gap(loop["gap_after"].result)
    tracked = loop["track"].result
    one, other = tracked["before"], tracked["after"]
    return (
        f"Gap between robot and twin {before:.2f} before, {after:.2f} after. On the identified "
        f"twin the policy misses its velocity by {one['velocity']:.3f} m/s before, "
        f"{other['velocity']:.3f} after{_change(one['velocity'], other['velocity'])}; falls "
        f"{one['falls']} and {other['falls']}, stops {one['stops']} and {other['stops']}, in "
        f"{one['walks']} walks each."
    )


def _change(before: float, after: float) -> str:
    return f" ({(after - before) / before:+.0%})" if before > 0 else ""


def _mean_gap(result: Mapping[str, Any]) -> float:
    return float(np.mean([run["gap"] for run in result["runs"]]))


def _glance(loop: Loop) -> Section:
    tracked = loop["track"].result
    shown = []
    for name, title in TRACKED.items():
        errors = {words: float(tracked[who][name]) for who, words in POLICIES.items()}
        chosen = POLICIES[tracked["chosen"]]
        rows = [Bar(w, error, f"{error:.3f} m/s", w == chosen) for w, error in errors.items()]
        shown.append(bars(title, rows, max(errors.values()) or 1.0))
    return Section("At a glance", headline(loop), bars=shown)


def _gaps(loop: Loop) -> Section:
    rows: list[list[Cell]] = []
    pairs = zip(loop["gap_before"].result["runs"], loop["gap_after"].result["runs"], strict=True)
    for before, after in pairs:
        causes = [", ".join(c["words"] for c in run["causes"]) or "none" for run in (before, after)]
        rows.append(
            [before["bag"], f"{before['gap']:.2f} / {after['gap']:.2f}",
             f"{before['auc']:.2f} / {after['auc']:.2f}", *causes]
        )  # fmt: skip
    head = ("walk", "gap before / after", "AUC", "causes before", "causes after")
    text = "The recorded walks against the initial twin, and against the identified one."
    return Section("Robot and twin", text, [table(head, rows)])


def _learnt(loop: Loop) -> Section:
    result = loop["learn"].result
    rows: list[list[Cell]] = [
        ["actuator network", result["actuator"]],
        ["delta action", result["action"]],
        *(["gap", words] for words in result["added_by_gap"]),
    ]
    text = "What the identified figures leave unexplained, and which networks went into the twin."
    return Section("Learnt", text, [table(("what", "found"), rows)])


def _policies(loop: Loop) -> Section:
    tracked = loop["track"].result
    rows: list[list[Cell]] = [
        [words, *(f"{tracked[who][name]:.3f}" for name in ("velocity", "turning", "settling")),
         f"{tracked[who]['falls']} and {tracked[who]['stops']} of {tracked[who]['walks']}"]
        for who, words in POLICIES.items()
    ]  # fmt: skip
    times = loop["finetune"].result["gains"]
    low, high = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
    text = (
        f"Its gains are those of the policy before, times {times[low]:.2f} ({low}) to "
        f"{times[high]:.2f} ({high}): what the motors give less or more than the twin it was "
        f"trained on. The best on the identified twin is kept: {POLICIES[tracked['chosen']]}."
    )
    head = ("policy", "velocity error, m/s", "turning error, rad/s", "while settling, m/s",
            "falls and stops")  # fmt: skip
    return Section("Policies", text, [table(head, rows)])


def _ranges(loop: Loop) -> Section:
    result = loop["randomise"].result
    rows: list[list[Cell]] = [
        [line["name"], _range(line["was"]), _range(line["now"]), line["why"]]
        for line in result["ranges"]
    ]
    text = "Training draws robots from these."
    return Section("Randomisation", text, [table(("range", "was", "now", "why"), rows)])


def _range(values: list[float]) -> str:
    low, high = values
    return f"{low:g} to {high:g}"


def _gate(loop: Loop) -> Section:
    result = loop["gate"].result
    rows: list[list[Cell]] = [
        [name, f"{count} of {result['trials']}"] for name, count in result["succeeded"].items()
    ]
    total = sum(result["succeeded"].values())
    text = f"{total} of {result['trials'] * len(result['succeeded'])} runs succeed."
    return Section("Gate", text, [table(("scenario", "succeeded"), rows)])


def _steps(loop: Loop) -> Section:
    rows: list[list[Cell]] = [
        [step.name, step.digest[:12], "before" if step.cached else "now", str(step.folder.name)]
        for step in loop.steps
    ]
    tuned = loop["finetune"].result
    text = (
        f"Fine-tuned for {tuned['steps']:,} steps in {tuned['seconds'] / 60:.1f} min. The bundle "
        f"{loop.bundle} names the bags it was made from."
    )
    return Section("Steps", text, [table(("step", "digest", "done", "folder"), rows)])
