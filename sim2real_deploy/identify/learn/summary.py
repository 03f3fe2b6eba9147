"""What a learnt network explains: tables for the terminal, its card and the report."""

from collections.abc import Sequence
from dataclasses import asdict, astuple

import numpy as np

from sim2real_deploy.identify.learn.actuator import ActuatorErrors, ActuatorResult
from sim2real_deploy.identify.learn.store import card_of, learnt_from
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.twin.actuator_net import kinds_of

Row = tuple[str, float, float, float, float, float, str]
HEAD = ("joint", "torque", "ideal motor", "identified", "+ network", "explains, %", "")


def pooled(errors: Sequence[ActuatorErrors]) -> ActuatorErrors:
    """rms over the joints."""
    rows = np.array([astuple(e) for e in errors])
    return ActuatorErrors(*np.sqrt(np.mean(rows**2, axis=0)).tolist())


def explained(errors: ActuatorErrors) -> float:
    """Explained share of the squared error that identification left."""
    return 1 - (errors.learned / max(errors.identified, 1e-9)) ** 2


def rows(found: ActuatorResult, errors: Sequence[ActuatorErrors], output: int) -> list[Row]:
    """One row per joint, then one for all; the last column marks joints without a benefit."""
    table: list[Row] = []
    for joint, name in enumerate(found.robot.joint_names[: len(errors)]):
        off = not found.weights.on[joint, output]
        words = "does not help here: left out" if off else ""
        table.append(_row(name, errors[joint], words))
    table.append(_row("all joints", pooled(errors), ""))
    return table


def _row(name: str, errors: ActuatorErrors, words: str) -> Row:
    share = 100 * explained(errors)
    return name, errors.torque, errors.ideal, errors.identified, errors.learned, share, words


def card(found: ActuatorResult, twin: str, recordings: Sequence[Recording]) -> dict[str, object]:
    """Stored in the network's file."""
    return card_of("actuator network", found.robot, twin, recordings) | {
        "kinds": list(kinds_of(found.robot)[0]),
        "gain_sets": list(found.gain_sets),
        "held_out_rms_nm": {
            key: {name: round(value, 5) for name, value in asdict(pooled(errors)).items()}
            for key, errors in (("reported", found.reported), ("carried", found.carried))
            if errors
        },
    }


def source(found: ActuatorResult, recordings: Sequence[Recording]) -> str:
    """One sentence for the twin's file."""
    e = pooled(found.reported)
    return (
        f"{learnt_from(recordings)} Error of the reported torque in held-out blocks: "
        f"{e.learned:.3f} Nm, {e.identified:.3f} as identified, {e.ideal:.3f} with ideal motors, "
        f"of {e.torque:.2f} Nm of torque."
    )
