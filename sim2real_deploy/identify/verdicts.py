"""The verdict on each figure: a value with its interval, not excited, or confounded."""

from datetime import datetime, timezone

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
# Half widths above which a figure counts as not excited: relative and absolute.
TELLING = {
    "armature": (0.5, 0.003),
    "damping": (0.5, 0.15),
    "friction": (0.5, 0.1),
    "offset": (0.0, 0.04),
    "strength": (0.15, 0.0),
    "delay": (0.0, 0.003),
    "lag": (0.5, 0.003),
    "speed_feed": (0.5, 0.06),
    "torque_bias": (0.5, 0.05),
    "presliding": (0.5, 0.002),
}
# Errors of the fit itself, which no bootstrap sees: relative and absolute.
GRAIN = {
    "armature": (0.02, 0.0003),
    "damping": (0.03, 0.01),
    "friction": (0.03, 0.01),
    "offset": (0.0, 0.003),
    "strength": (0.01, 0.0),
    "delay": (0.0, 0.0005),
    "lag": (0.05, 0.0005),
    "speed_feed": (0.1, 0.05),
    "torque_bias": (0.1, 0.02),
    "presliding": (0.1, 0.0003),
}
KEYS = {
    "armature": "motors.armature",
    "damping": "motors.damping",
    "friction": "motors.friction",
    "offset": "encoders.offset",
    "strength": "motors.strength",
    "delay": "motors.delay",
    "lag": "motors.lag",
    "speed_feed": "motors.speed_feed",
    "speed_gain": "encoders.speed_gain",
    "torque_bias": "motors.torque_bias",
    "speed_offset": "encoders.speed_offset",
    "presliding": "motors.presliding",
}
MASS_GRAIN, COM_GRAIN = 0.1, (0.003, 0.003, 0.005)  # the same for the trunk, kg and m
TELLING_COM = 0.015  # m, half width
TRUNK_GIVES = "a trunk that gives way as the legs move in step"
CONFOUNDED = 0.97  # correlation
FALLS_SHORT = 1.8  # times the readings' noise (1.2 if the model is right),
NAMED_SHORT = 1.5  # or this if the torque balance names a cause
LEAST_SHARE = 0.1  # of the torque: with less unexplained, a joint balances
LEAST_ERROR = 0.0008  # rad


def findings(found: Identified) -> dict[str, dict[str, IdentifiedFigure]]:
    names = found.robot.joint_names
    result: dict[str, dict[str, IdentifiedFigure]] = {}
    for name in ("strength", "delay", "lag", "speed_feed", "torque_bias"):
        result[KEYS[name]] = {
            joint: _of_law(found, name, number) for number, joint in enumerate(names)
        }
    of_fit = ["armature", "damping", "friction", "offset"]
    if found.figures.presliding.any():
        of_fit.append("presliding")
    for name in of_fit:
        result[KEYS[name]] = {
            joint: _of_fit(found, name, number) for number, joint in enumerate(names)
        }
    result |= _of_trunk(found)
    return result


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
    share, least = GRAIN[name]
    grain = share * abs(value) + least
    low = value - np.hypot(max(below, 0.0), grain)
    high = value + np.hypot(max(above, 0.0), grain)
    share, least = TELLING[name]
    telling = (high - low) / 2 <= max(share * abs(value), least)
    return IdentifiedFigure(
        verdict="identified" if telling else "not excited",
        value=round(value, 6),
        low=round(float(low), 6),
        high=round(float(high), 6),
        hint="" if telling else f"the interval is too wide to be of use: {EXCITE}",
    )


def _of_trunk(found: Identified) -> dict[str, dict[str, IdentifiedFigure]]:
    if found.trunk is None:
        nothing = IdentifiedFigure(
            verdict="not excited", hint=f"no recording on the ground: {WALK}"
        )
        return {"trunk.mass": {"trunk": nothing}, "trunk.com": dict.fromkeys("xyz", nothing)}
    trunk = found.trunk
    low, high = trunk.mass_interval
    mass = IdentifiedFigure(
        verdict="identified", value=trunk.mass, low=low - MASS_GRAIN, high=high + MASS_GRAIN
    )
    com = {axis: _of_com(trunk, k) for k, axis in enumerate("xyz")}
    return {"trunk.mass": {"trunk": mass}, "trunk.com": com}


def _of_com(trunk: TrunkFinding, axis: int) -> IdentifiedFigure:
    low, high = trunk.com_interval[axis] + (-COM_GRAIN[axis], COM_GRAIN[axis])
    telling = (high - low) / 2 < TELLING_COM
    hint = "a trunk that stays level tells little about its height: let it walk and turn"
    return IdentifiedFigure(
        verdict="identified" if telling else "not excited",
        value=float(trunk.com[axis]),
        low=float(low),
        high=float(high),
        hint="" if telling else hint,
    )


def residual_words(found: Identified) -> dict[str, str]:
    """For each joint where the identified model falls short: by how much, and what it is like."""
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
    """Whether the torques of another joint of this leg do not balance. In a rollout its error moves
    the whole leg, so joints whose own torques balance are off, too."""
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

    motors = start.motors.model_copy(
        update={
            "strength": each("strength"),
            "weak": {},
            "delay": each("delay"),
            "lag": each("lag"),
            "speed_feed": each("speed_feed"),
            "torque_bias": each("torque_bias"),
            "presliding": each("presliding"),
            "gain_step": each("gain_step"),
            "armature": {name: max(x, 0.0) for name, x in each("armature").items()},
            "damping": each("damping"),
            "friction": each("friction"),
        }
    )
    encoders = start.encoders.model_copy(
        update={
            "offset": each("offset"),
            "speed_gain": each("speed_gain"),
            "speed_offset": each("speed_offset"),
        }
    )
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
    names = {key: name for name, key in KEYS.items()}
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
