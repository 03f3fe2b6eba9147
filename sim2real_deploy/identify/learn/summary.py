"""What a learnt network explains: tables for people, for its card and for the report."""

from collections.abc import Sequence
from datetime import datetime, timezone

import numpy as np

from sim2real_deploy import __version__
from sim2real_deploy.identify.learn.actuator import ActuatorErrors, ActuatorResult
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.twin.actuator_net import kinds_of

Row = tuple[str, float, float, float, float, float, str]
HEAD = ("joint", "torque", "ideal motor", "identified", "+ network", "explains, %", "")


def pooled(errors: Sequence[ActuatorErrors]) -> ActuatorErrors:
    """rms over the joints."""
    rows = np.array([(e.torque, e.ideal, e.identified, e.learned) for e in errors])
    return ActuatorErrors(*np.sqrt(np.mean(rows**2, axis=0)).tolist())


def explained(errors: ActuatorErrors) -> float:
    """Explained share of the squared error that identification left."""
    return 1 - (errors.learned / max(errors.identified, 1e-9)) ** 2


def rows(found: ActuatorResult, errors: Sequence[ActuatorErrors], output: int) -> list[Row]:
    """One row per joint, then all; the last column marks joints that the network does not help."""
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
    """Stored in the network's file; without a date, so that the same data give the same bytes."""
    return {
        "kind": "actuator network",
        "robot": found.robot.name,
        "joints": list(found.robot.joint_names),
        "kinds": list(kinds_of(found.robot)[0]),
        "twin": twin,
        "version": __version__,
        "recordings": {recording.name: recording.digest for recording in recordings},
        "gain_sets": list(found.gain_sets),
        "held_out_rms_nm": {
            key: dict(zip(("torque", "ideal", "identified", "learned"), _rounded(e), strict=True))
            for key, errors in (("reported", found.reported), ("carried", found.carried))
            for e in ([pooled(errors)] if errors else [])
        },
    }


def source(found: ActuatorResult, recordings: Sequence[Recording]) -> str:
    """One sentence for the twin's file."""
    e = pooled(found.reported)
    names = ", ".join(f"{recording.name} ({recording.digest})" for recording in recordings)
    return (
        f"Learnt on {datetime.now(timezone.utc).date().isoformat()} from {names}. Error of the "
        f"reported torque in held-out blocks: {e.learned:.3f} Nm, {e.identified:.3f} as "
        f"identified, {e.ideal:.3f} with ideal motors, of {e.torque:.2f} Nm of torque."
    )


def _rounded(errors: ActuatorErrors) -> tuple[float, float, float, float]:
    return tuple(
        round(x, 5) for x in (errors.torque, errors.ideal, errors.identified, errors.learned)
    )  # type: ignore[return-value]
