"""Training ranges from evidence: centred on an identified twin, as wide as its uncertainty.

The centres, joint by joint, are the twin's own figures: training draws round the twin that its
config names. A range says how far a robot may lie from there. It is as wide as the largest of: the
95 % intervals, the spread between twins identified from single bags, and a floor for what changes
from day to day. What no bag has excited keeps the range that it had.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Range
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.nominal import nominal_of
from sim2real_deploy.twin.files import IdentifiedFigure, TwinFile

IDENTIFIED = "identified"
LEAST_VALUE = 1e-6  # a smaller figure has no relative width


@dataclass(frozen=True, slots=True)
class Rule:
    """How one range of a training config follows from a figure of a twin."""

    figure: str  # of the identified twin
    floor: float  # least half width, whatever the evidence
    why_floor: str
    relative: bool  # the range multiplies the twin's figure; else it is added to it
    centre: float  # of the range, where the robot is the twin


RULES = {
    "motor_strength": Rule(
        "motors.strength", 0.08, "battery and heat take some percent within a run", True, 1.0
    ),
    # The motor law is fitted joint by joint, so with the strength its gains are known, too.
    "kp": Rule("motors.strength", 0.05, "gains are set digitally", True, 1.0),
    "kd": Rule("motors.strength", 0.1, "gains are set digitally, speeds are noisier", True, 1.0),
    "joint_friction": Rule(
        "motors.friction", 0.2, "grease is stiffer when cold, and load adds to it", True, 1.0
    ),
    "joint_damping": Rule("motors.damping", 0.15, "as friction", True, 1.0),
    "armature": Rule("motors.armature", 0.05, "rotors do not change", True, 1.0),
    "joint_offset": Rule(
        "encoders.offset", 0.01, "calibration differs from one boot to the next", False, 0.0
    ),
    "payload": Rule("trunk.mass", 0.3, "a battery weighs more or less, a cable hangs", False, 0.0),
    "centre_of_mass": Rule("trunk.com", 0.01, "what is carried shifts", False, 0.0),
}
SHARE_FLOOR = 0.05  # of a link's mass: castings and cables
DELAY_FLOOR = 0.003  # s: other computers, other loads
FLOOR_MARGIN = 0.8  # of a friction on which it slipped: the next floor may be worse


@dataclass(frozen=True, slots=True)
class RangeEvidence:
    """One range, and why it is what it is."""

    name: str
    range: Range
    before: Range
    reason: str


def ranges_from(
    config: TrainingConfig,
    twin: TwinFile,
    others: Sequence[TwinFile] = (),
    gaps: Sequence[Mapping[str, Any]] = (),
) -> list[RangeEvidence]:
    """A line for every range of the config. `others` are twins of the same robot identified from
    single bags; `gaps` are results of `sim2real gap` ("runs" of its JSON)."""
    if twin.identified is None:
        raise Refusal(
            f"this twin of {twin.robot} was not identified: it holds no intervals to make ranges "
            "of; make one with `sim2real identify BAG... --output NAME`"
        )
    robot = load_robot(config.robot)
    if twin.robot != robot.name:
        raise Refusal(f"the twin is of {twin.robot}, the config trains {robot.name}")
    lines = []
    for name, value in config.randomisation:
        if not (isinstance(value, tuple) and len(value) == 2) or name.startswith("push"):
            continue
        before = (float(value[0]), float(value[1]))
        if name in RULES:
            lines.append(_by_rule(name, before, twin, others))
        elif name == "link_mass":
            lines.append(_link_mass(before, twin))
        elif name == "delay":
            lines.append(_delay(before, robot, twin, others))
        elif name == "friction":
            lines.append(_floor(before, gaps))
        else:
            lines.append(RangeEvidence(name, before, before, "no bag shows it: kept"))
    return lines


def _by_rule(name: str, before: Range, twin: TwinFile, others: Sequence[TwinFile]) -> RangeEvidence:
    rule = RULES[name]
    assert twin.identified is not None
    findings = twin.identified.findings.get(rule.figure, {})
    unknown = [joint for joint, finding in findings.items() if finding.verdict != IDENTIFIED]
    if name == "centre_of_mass":  # its height is never excited, and counts little
        unknown = [axis for axis in unknown if axis != "z"]
    if not findings or unknown:
        which = f" ({', '.join(unknown)})" if unknown and len(unknown) < len(findings) else ""
        hint = next((findings[joint].hint for joint in unknown if findings[joint].hint), "")
        reason = f"{rule.figure} was not excited{which}: kept" + (f"; {hint}" if hint else "")
        return RangeEvidence(name, before, before, reason)
    known = {name: f for name, f in findings.items() if f.verdict == IDENTIFIED}
    interval, joint = _widest(known, rule.relative)
    spread = _spread(rule, known, others)
    half = max(interval, spread, rule.floor)
    low, high = rule.centre - half, rule.centre + half
    if rule.relative:
        low = max(low, 0.0)
    if half == rule.floor:
        reason = f"interval {interval:.2g}, so the floor of {rule.floor:g}: {rule.why_floor}"
    elif half == spread:
        reason = f"bags differ by {spread:.2g}"
    else:
        reason = f"the 95 % interval of {joint} is +-{interval:.2g}"
    unit = "times the twin's, joint by joint" if rule.relative else "beside the twin's"
    return RangeEvidence(
        name, _rounded(low, high), before, f"{rule.figure} identified ({unit}); {reason}"
    )


def _widest(findings: Mapping[str, IdentifiedFigure], relative: bool) -> tuple[float, str]:
    """The largest half width of an interval, and whose it is."""
    widths = {}
    for joint, finding in findings.items():
        assert finding.value is not None
        assert finding.low is not None
        assert finding.high is not None
        half = max(finding.high - finding.value, finding.value - finding.low)
        widths[joint] = half / max(abs(finding.value), LEAST_VALUE) if relative else half
    joint = max(widths, key=lambda key: widths[key])
    return widths[joint], joint


def _spread(rule: Rule, known: Mapping[str, IdentifiedFigure], others: Sequence[TwinFile]) -> float:
    """How far single bags lie from the twin of all of them, at most."""
    found = [0.0]
    for other in others:
        told = other.identified.findings.get(rule.figure, {}) if other.identified else {}
        for joint, finding in told.items():
            if finding.verdict != IDENTIFIED or joint not in known or finding.value is None:
                continue
            centre = known[joint].value or 0.0
            apart = abs(finding.value - centre)
            found.append(apart / max(abs(centre), LEAST_VALUE) if rule.relative else apart)
    return max(found)


def _link_mass(before: Range, twin: TwinFile) -> RangeEvidence:
    """Where the whole robot was weighed, only its shares are open."""
    assert twin.identified is not None
    weighed = twin.identified.findings.get("trunk.mass", {}).values()
    if not weighed or any(finding.verdict != IDENTIFIED for finding in weighed):
        return RangeEvidence("link_mass", before, before, "no bag shows it: kept")
    low, high = max(before[0], 1 - SHARE_FLOOR), min(before[1], 1 + SHARE_FLOOR)
    reason = f"the whole robot was weighed; its parts differ by {SHARE_FLOOR:.0%} at most"
    return RangeEvidence("link_mass", _rounded(low, high), before, reason)


def _delay(
    before: Range, robot: RobotSpec, twin: TwinFile, others: Sequence[TwinFile]
) -> RangeEvidence:
    """Absolute, unlike the others: from the policy's target to its torque."""
    assert twin.identified is not None
    findings = twin.identified.findings.get("motors.delay", {})
    known = {name: f for name, f in findings.items() if f.verdict == IDENTIFIED}
    if not known:
        return RangeEvidence("delay", before, before, "motors.delay was not excited: kept")
    centre = nominal_of(twin.twin, robot).delay
    interval, joint = _widest(known, relative=False)
    spread = max((abs(nominal_of(o.twin, robot).delay - centre) for o in others), default=0.0)
    half = max(interval, spread, DELAY_FLOOR)
    reason = (
        f"centred on {1e3 * centre:.1f} ms, from a command to its torque; interval "
        f"of {joint} {1e3 * interval:.1f} ms, bags differ by {1e3 * spread:.1f} ms, floor "
        f"{1e3 * DELAY_FLOOR:g} ms"
    )
    return RangeEvidence("delay", _rounded(max(centre - half, 0.0), centre + half), before, reason)


def _floor(before: Range, gaps: Sequence[Mapping[str, Any]]) -> RangeEvidence:
    """Only a walk in which feet slipped shows the friction of its floor."""
    slippery = [
        cause["size"]
        for gap in gaps
        for cause in gap.get("causes", ())
        if cause["name"] == "slippery floor"
    ]
    if not slippery:
        return RangeEvidence(
            "friction", before, before, "feet did not slip, so nothing is known: kept"
        )
    least = FLOOR_MARGIN * min(slippery)
    reason = f"feet slipped as on {min(slippery):.2f}: the range reaches below it"
    return RangeEvidence("friction", _rounded(min(before[0], least), before[1]), before, reason)


def _rounded(low: float, high: float) -> Range:
    return float(np.round(low, 5)), float(np.round(high, 5))


def with_ranges(
    config: TrainingConfig, twin: str, lines: Sequence[RangeEvidence]
) -> TrainingConfig:
    """The config round another twin, with these ranges."""
    ranges = config.randomisation.model_copy(update={line.name: line.range for line in lines})
    return config.model_copy(update={"twin": twin, "randomisation": ranges})


def as_yaml(config: TrainingConfig, lines: Sequence[RangeEvidence], about: str) -> str:
    """The whole config as a file, every range with its reason."""
    import yaml

    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, width=100)
    reasons = {line.name: line for line in lines}
    written, inside, skip = [f"# {about}"], False, 0
    rows = text.splitlines()
    for number, row in enumerate(rows):
        if skip:
            skip -= 1
            continue
        if not row.startswith(" "):
            inside = row == "randomisation:"
        name = row.strip().rstrip(":")
        if inside and row == f"  {name}:" and name in reasons:
            line = reasons[name]
            low, high = line.range
            written.append(f"  # {line.reason} (was {line.before[0]:g} to {line.before[1]:g})")
            written.append(f"  {name}: [{low:g}, {high:g}]")
            skip = 2  # the two numbers, one a row
            assert rows[number + 1].strip().startswith("- ")
        else:
            written.append(row)
    return "\n".join(written) + "\n"
