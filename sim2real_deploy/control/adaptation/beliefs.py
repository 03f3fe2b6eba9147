"""What adaptation believes, how sure it is, and what it does about it: as numbers and as words."""

import numpy as np

from sim2real_deploy.control.adaptation.adaptation import Adaptation
from sim2real_deploy.control.adaptation.payload import UNKNOWN_KG
from sim2real_deploy.robots.state import Floats

# One of each per joint, and then one for the robot.
PER_JOINT = ("strength", "strength_error", "gain", "torque", "friction", "friction_error")
WHOLE = ("payload_kg", "payload_error_kg", "delay_ms", "strain", "level")
HOLD = ("off_vx", "off_vy", "off_wz", "trim_vx", "trim_vy", "trim_wz")  # velocity hold
APART = 0.03  # strength this far from the expected is worth a word


def names(adaptation: Adaptation) -> tuple[str, ...]:
    """`strength` is relative to what is expected of the joint, `friction` what is beyond that."""
    by_joint = [f"{field}.{joint}" for field in PER_JOINT for joint in adaptation.joint_names]
    return (*by_joint, *WHOLE, *HOLD)


def values(adaptation: Adaptation) -> Floats:
    """In the order of `names`."""
    motors, load, nominal = adaptation.motors, adaptation.load, adaptation.nominal
    friction = adaptation.friction
    strengths = motors.strength / nominal, motors.error / nominal
    rows = *strengths, adaptation.gain, adaptation.torque, friction.found, friction.error
    delay_ms = 1000.0 * motors.delay_ticks * adaptation.period_s
    whole = (load.payload_kg, load.error_kg, delay_ms, adaptation.strain, adaptation.level)
    hold = (*adaptation.hold.deviation, *adaptation.hold.trim)
    return np.concatenate([*rows, whole, hold]).astype(np.float32)


def words(adaptation: Adaptation) -> dict[str, str]:
    """For a person; nothing of what is not known yet."""
    motors, load = adaptation.motors, adaptation.load
    facts = {"adaptation": f"{adaptation.adapts.value}, {_in_force(adaptation)}"}
    if motors.delay_ticks:
        facts["command delay"] = f"{1000.0 * motors.delay_ticks * adaptation.period_s:.0f} ms"
        facts["motor strength"] = _strengths(adaptation)
    if any(rubbing := adaptation.friction.believed):
        joints = zip(adaptation.joint_names, rubbing.tolist(), strict=True)
        facts["more friction"] = ", ".join(f"{name} {nm:.1f} Nm" for name, nm in joints if nm)
    if load.error_kg < UNKNOWN_KG:
        facts["payload"] = f"{load.payload_kg:+.1f} kg, give or take {load.error_kg:.1f}"
    return facts


def _in_force(adaptation: Adaptation) -> str:
    if not adaptation.level:
        return "off"
    changed = int(np.count_nonzero(adaptation.gain != 1.0))
    most = float(np.abs(adaptation.torque).max())
    done = [f"gains of {changed} joints changed"] if changed else []
    done += [f"up to {most:.1f} Nm added"] if most else []
    vx, vy, wz = adaptation.hold.trim
    if vx or vy or wz:
        done.append(f"command shifted by {vx:+.2f}, {vy:+.2f} m/s, {wz:+.2f} rad/s")
    return ", ".join(done) or "nothing to correct"


def _strengths(adaptation: Adaptation) -> str:
    relative = adaptation.motors.strength / adaptation.nominal
    error = adaptation.motors.error / adaptation.nominal
    apart = [
        f"{name} {value:.2f} +- {spread:.2f}"
        for name, value, spread in zip(adaptation.joint_names, relative, error, strict=True)
        if abs(value - 1.0) > APART
    ]
    return ", ".join(apart) or "as expected"
