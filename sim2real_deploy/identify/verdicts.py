"""The verdict on each figure: a value with its interval, not excited, or confounded."""

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy import __version__
from sim2real_deploy.identify.pipeline import LEG_JOINTS, UNTOLD_DELAY, Identified
from sim2real_deploy.identify.smoothing import smooth
from sim2real_deploy.identify.trunk import TrunkFinding
from sim2real_deploy.twin.config import Bus, Imperfections, Trunk
from sim2real_deploy.twin.files import IdentifiedFigure, Provenance, TwinFile

Array = npt.NDArray[np.float64]

EXCITE = "record `sim2real excite` with the robot on its hoist"
WALK = "record a walk of half a minute, with the IMU"
Share = tuple[float, float]  # a half width: relative to the value, and absolute


@dataclass(frozen=True, slots=True)
class Rule:
    """How a figure is judged."""

    key: str  # in a twin's file
    telling: Share = (0.0, 0.0)  # a wider interval counts as not excited
    grain: Share = (0.0, 0.0)  # error of the fit itself, which no bootstrap sees


RULES = {
    "armature": Rule("motors.armature", (0.5, 0.003), (0.02, 0.0003)),
    "damping": Rule("motors.damping", (0.5, 0.15), (0.03, 0.01)),
    "friction": Rule("motors.friction", (0.5, 0.1), (0.03, 0.01)),
    "offset": Rule("encoders.offset", (0.0, 0.04), (0.0, 0.003)),
    "strength": Rule("motors.strength", (0.15, 0.0), (0.01, 0.0)),
    "delay": Rule("motors.delay", (0.0, 0.003), (0.0, 0.0005)),
    "lag": Rule("motors.lag", (0.5, 0.003), (0.05, 0.0005)),
    "speed_feed": Rule("motors.speed_feed", (0.5, 0.06), (0.1, 0.05)),
    "torque_bias": Rule("motors.torque_bias", (0.5, 0.05), (0.1, 0.02)),
    "presliding": Rule("motors.presliding", (0.5, 0.002), (0.1, 0.0003)),
    "gain_step": Rule("motors.gain_step"),
    "speed_gain": Rule("encoders.speed_gain"),
    "speed_offset": Rule("encoders.speed_offset"),
}
OF_LAW = ("strength", "delay", "lag", "speed_feed", "torque_bias")
OF_FIT = ("armature", "damping", "friction", "offset", "presliding")
MASS_GRAIN, COM_GRAIN = 0.1, (0.003, 0.003, 0.005)  # the same for the trunk, kg and m
TELLING_COM = 0.015  # m, half width
TRUNK_GIVES = "a trunk that gives way when the legs move in step"
CONFOUNDED = 0.97  # correlation
FALLS_SHORT = 1.8  # times the readings' noise, where a correct model has 1.2;
NAMED_SHORT = 1.5  # enough if the torque balance names a cause
LEAST_SHARE = 0.1  # of the torque: with less unexplained, a joint is in balance
LEAST_ERROR = 0.0008  # rad


def findings(found: Identified) -> dict[str, dict[str, IdentifiedFigure]]:
    names = found.robot.joint_names
    of_fit = [n for n in OF_FIT if n != "presliding" or found.figures.presliding.any()]
    judges = [(_of_law, name) for name in OF_LAW] + [(_of_fit, name) for name in of_fit]
    return {
        RULES[name].key: {joint: judge(found, name, k) for k, joint in enumerate(names)}
        for judge, name in judges
    } | _of_trunk(found)


def _of_law(found: Identified, name: str, joint: int) -> IdentifiedFigure:
    law = found.laws[joint]
    value = float(getattr(found.figures, name)[joint])
    if not law.excited:
        hint = f"the joint's torque hardly follows its targets: {EXCITE}"
        return IdentifiedFigure(verdict="not excited", value=value, hint=hint)
    low, high = getattr(law, f"{name}_interval")
    if name == "delay":  # the reported torque is that of the period before
        low, high = low - 1 / found.robot.wire.rate_hz, high - 1 / found.robot.wire.rate_hz
        high += UNTOLD_DELAY
    return _judged(name, value, value - low, high - value)


def _of_fit(found: Identified, name: str, joint: int) -> IdentifiedFigure:
    value = float(getattr(found.figures, name)[joint])
    fit = found.fit
    if fit is None:
        return IdentifiedFigure(
            verdict="not excited", value=value, hint=f"no recording hangs: {EXCITE}"
        )
    row = fit.column(name).start + joint
    low, high = np.percentile(fit.spread[row], (2.5, 97.5))
    other = np.abs(fit.correlation[row]).copy()
    other[row] = 0.0
    worst = int(np.argmax(other))
    judged = _judged(name, value, -float(low), float(high))
    if name == "armature" and value < 0:
        return judged.model_copy(update={"verdict": f"confounded with {TRUNK_GIVES}"})
    if judged.verdict == "not excited" and other[worst] > CONFOUNDED:
        joints = found.robot.joint_count
        if worst < len(fit.names) * joints:
            with_ = f"{fit.names[worst // joints]} of {found.robot.joint_names[worst % joints]}"
        else:
            with_ = "the attitude of the trunk"
        return judged.model_copy(update={"verdict": f"confounded with {with_}"})
    return judged


def _judged(name: str, value: float, below: float, above: float) -> IdentifiedFigure:
    rule = RULES[name]
    grain = rule.grain[0] * abs(value) + rule.grain[1]
    low = value - np.hypot(max(below, 0.0), grain)
    high = value + np.hypot(max(above, 0.0), grain)
    telling = (high - low) / 2 <= max(rule.telling[0] * abs(value), rule.telling[1])
    hint = f"the interval is too wide to be of use: {EXCITE}"
    return _figure(round(value, 6), round(float(low), 6), round(float(high), 6), telling, hint)


def _figure(value: float, low: float, high: float, telling: bool, hint: str) -> IdentifiedFigure:
    verdict = "identified" if telling else "not excited"
    hint = "" if telling else hint
    return IdentifiedFigure(verdict=verdict, value=value, low=low, high=high, hint=hint)


def _of_trunk(found: Identified) -> dict[str, dict[str, IdentifiedFigure]]:
    if found.trunk is None:
        nothing = IdentifiedFigure(
            verdict="not excited", hint=f"no recording on the ground: {WALK}"
        )
        return {"trunk.mass": {"trunk": nothing}, "trunk.com": dict.fromkeys("xyz", nothing)}
    trunk = found.trunk
    low, high = trunk.mass_interval
    mass = _figure(trunk.mass, low - MASS_GRAIN, high + MASS_GRAIN, True, "")
    com = {axis: _of_com(trunk, k) for k, axis in enumerate("xyz")}
    return {"trunk.mass": {"trunk": mass}, "trunk.com": com}


def _of_com(trunk: TrunkFinding, axis: int) -> IdentifiedFigure:
    low, high = trunk.com_interval[axis] + (-COM_GRAIN[axis], COM_GRAIN[axis])
    telling = (high - low) / 2 < TELLING_COM
    hint = "a trunk that stays level tells little about its height: let it walk and turn"
    return _figure(float(trunk.com[axis]), float(low), float(high), telling, hint)


def residual_words(found: Identified) -> dict[str, str]:
    """For each joint that the model does not explain: by how much, and what the rest resembles."""
    if found.fit is None:
        return {}
    words = {}
    for joint, name in enumerate(found.robot.joint_names):
        noise = _noise(found, joint)
        error = float(found.fit.q_rms[joint])
        left = found.unexplained[joint]
        if left.share < LEAST_SHARE and _another_is_to_blame(found, joint):
            continue
        named = bool(left.words) and left.share > LEAST_SHARE and error > NAMED_SHORT * noise
        if error < max(FALLS_SHORT * noise, LEAST_ERROR) and not named:
            continue
        text = (
            f"after 0.3 s the twin is {1e3 * error:.1f} mrad off (the readings' own noise is "
            f"{1e3 * noise:.1f}); {left.torque:.2f} Nm of torque stay unexplained"
        )
        words[name] = text + (f", most like {left.words}" if left.words else "")
    return words


def _another_is_to_blame(found: Identified, joint: int) -> bool:
    """Whether another joint of this leg is out of balance. In a rollout its error moves the whole
    leg, so joints that are in balance deviate as well."""
    first = joint - joint % LEG_JOINTS
    leg = range(first, first + LEG_JOINTS)
    return any(found.unexplained[other].share > LEAST_SHARE for other in leg if other != joint)


def _noise(found: Identified, joint: int) -> float:
    spread = [
        float((r["q"][:, joint] - smooth(r["q"][:, joint : joint + 1])[:, 0]).std())
        for r in found.recordings
    ]
    return max(spread)


def twin_file(found: Identified, start: Imperfections, about: str) -> TwinFile:
    """The initial twin with all identified figures in place."""
    told = findings(found)
    joints = found.robot.joint_names
    figures = found.figures

    def each(name: str) -> dict[str, float]:
        """As found. Figures that were not excited kept their initial values, and fitted ones are
        only valid together."""
        return {
            joint: round(float(x), 6)
            for joint, x in zip(joints, getattr(figures, name), strict=True)
        }

    parts: dict[str, dict[str, Any]] = {"motors": {"weak": {}}, "encoders": {}}
    for name, rule in RULES.items():
        part, _, field = rule.key.partition(".")
        parts[part][field] = each(name)
    armature = parts["motors"]["armature"]
    parts["motors"]["armature"] = {joint: max(x, 0.0) for joint, x in armature.items()}
    motors = start.motors.model_copy(update=parts["motors"])
    encoders = start.encoders.model_copy(update=parts["encoders"])
    trunk = start.trunk
    if found.trunk is not None:
        x, y, z = (
            round(float(value), 5) if told["trunk.com"][axis].verdict == "identified" else before
            for axis, value, before in zip("xyz", found.trunk.com, trunk.com, strict=True)
        )
        trunk = Trunk(mass=round(found.trunk.mass, 4), com=(x, y, z), inertia=trunk.inertia)
    bus = Bus(loss=start.command_bus.loss, duplication=start.command_bus.duplication)
    twin = start.model_copy(
        update={"motors": motors, "encoders": encoders, "trunk": trunk, "command_bus": bus}
    )
    provenance = Provenance(
        date=datetime.now(timezone.utc).date().isoformat(),
        version=__version__,
        recordings={recording.name: recording.digest for recording in found.recordings},
        findings=told,
        residual=residual_words(found),
    )
    sources = {
        "motors": "Identified from the recordings below; the rest is the initial twin's.",
        "encoders": "Offsets and velocity scale as identified; noise is the initial twin's.",
        "trunk": "Identified if a recording is on the ground.",
        "others": "The twin that identification started from.",
    }
    checked = Imperfections.model_validate(twin.model_dump())
    return TwinFile(
        robot=found.robot.name, about=about, sources=sources, twin=checked, identified=provenance
    )


def summary(found: Identified, file: TwinFile) -> list[tuple[str, str, str, str, str, str]]:
    """Rows of a table: figure, joint, before, found, interval, verdict."""
    assert file.identified is not None
    names = {rule.key: name for name, rule in RULES.items()}
    joints = list(found.robot.joint_names)
    rows = []
    for key, by_joint in file.identified.findings.items():
        for joint, finding in by_joint.items():
            before = ""
            if key in names and joint in joints:
                before = f"{getattr(found.before, names[key])[joints.index(joint)]:.4g}"
            value = "" if finding.value is None else f"{finding.value:.4g}"
            interval = "" if finding.low is None else f"{finding.low:.4g} to {finding.high:.4g}"
            rows.append((key, joint, before, value, interval, finding.verdict))
    return rows
