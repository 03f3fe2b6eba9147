"""A run in a few figures: how far it walked, how well, and what went wrong.

The report's summary, the list of runs and the gap report all read these.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.view import View
from sim2real_deploy.bags.cdr import texts
from sim2real_deploy.bags.recording import COUNTS
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.topics import ODOMETRY, SAFETY, TRUTH
from sim2real_deploy.twin.files import load_imperfections

AXES = ("linear.x", "linear.y", "angular.z")
SETTLE_S = 1.5  # after a change of command, before tracking counts
AVERAGE_S = 1.0  # a gait sways: velocity is averaged this long before it is compared
ERROR_LEVEL = 2  # of diagnostic_msgs/DiagnosticStatus
WALKING_MODES = (Mode.WALKING, Mode.SLOWING_DOWN)

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures that need a walk, odometry or the control loop's ticks are None without them."""

    duration_s: float
    walked_s: float
    distance_m: float | None
    speed_error: tuple[float, float, float] | None  # vx, vy (m/s), wz (rad/s): mean magnitude
    stops: tuple[tuple[float, str], ...]  # when, and the words of the safety supervisor
    torque_share: float  # the highest torque, as a share of its joint's limit
    torque_joint: str
    hottest: float  # degrees C
    hottest_joint: str
    limited: dict[str, float]  # joints whose command a limit changed: share of the walking ticks
    late_ticks: float | None  # share of ticks that came over a period after they were due
    surprise: float | None  # observations against training: about 1 is as in training
    lost_states: int  # counted by the robot, but not in the recording
    lost_on_purpose: bool  # not more than the twin is configured to lose
    dropped: int  # by the recorder


def figures_of(view: View) -> RunFigures:
    torque = np.abs(view.states["torque"]) / view.robot.torque_limit
    strongest = int(torque.max(axis=0).argmax())
    heat = view.states["temperature"].max(axis=0)
    hottest = int(heat.argmax())
    ticks = view.ticks
    walking = np.isin(ticks["mode"], WALKING_MODES) if ticks else np.zeros(0, np.bool_)
    rate = view.robot.wire.rate_hz
    counts = view.bag.metadata.get(COUNTS, {})
    stepped = walking & (ticks["policy_stepped"] > 0) if ticks else walking
    lost = lost_states(view)
    return RunFigures(
        duration_s=view.duration_s,
        walked_s=float(walking.sum()) / rate,
        distance_m=_distance(view, walking),
        speed_error=_speed_error(view, walking),
        stops=_stops(view),
        torque_share=float(torque.max()),
        torque_joint=view.robot.joint_names[strongest],
        hottest=float(heat[hottest]),
        hottest_joint=view.robot.joint_names[hottest],
        limited=_limited(view, walking),
        late_ticks=float(ticks["missed"].mean()) if ticks else None,
        surprise=float(ticks["surprise"][stepped].mean()) if stepped.any() else None,
        lost_states=lost,
        lost_on_purpose=lost <= lost_by_design(view),
        dropped=sum(int(n) for key, n in counts.items() if key.startswith("dropped")),
    )


def lost_states(view: View) -> int:
    """States that the robot counted and the recording lacks."""
    period_ms = 1000 / view.robot.wire.rate_hz
    steps = np.diff(view.states["tick"].astype(np.int64))
    return int(np.maximum(0, np.rint(steps / period_ms) - 1)[steps < 60_000].sum())


def preset_of(view: View) -> str | None:
    """The preset of the twin that was recorded, if the bag tells."""
    for record, values in view.bag.metadata.items():
        if record.startswith("parameters") and record.endswith("twin") and "preset" in values:
            return str(values["preset"])
    return None


def lost_by_design(view: View) -> float:
    """Upper bound of the states lost by the twin's own message loss; zero on a robot."""
    preset = preset_of(view)
    if preset is None:
        return 0.0
    mean = load_imperfections(preset, view.robot.name).state_bus.loss * len(view.states)
    return float(mean + 4 * np.sqrt(mean))


def _measured(view: View) -> tuple[Array, Array] | None:
    """Times and the body's vx, vy, wz: the twin's truth where there is one, else odometry."""
    topic = TRUTH if TRUTH in view.series else ODOMETRY
    if topic not in view.series:
        return None
    series = view.series[topic]
    return view.seconds(series), np.stack([series[f"twist.twist.{a}"] for a in AXES], axis=1)


def _at_ticks(view: View, measured: tuple[Array, Array]) -> Array:
    seconds, values = measured
    return np.stack([np.interp(view.ticks["seconds"], seconds, v) for v in values.T], axis=1)


def _distance(view: View, walking: npt.NDArray[np.bool_]) -> float | None:
    measured = _measured(view)
    if measured is None or not walking.any():
        return None
    speed = np.hypot(*_at_ticks(view, measured)[walking, :2].T)
    return float(speed.sum() / view.robot.wire.rate_hz)


def _speed_error(view: View, walking: npt.NDArray[np.bool_]) -> tuple[float, float, float] | None:
    """Mean |one-second average - command| while the command has held for a while."""
    measured = _measured(view)
    if measured is None or not walking.any():
        return None
    rate = view.robot.wire.rate_hz
    asked = np.stack([view.ticks[name] for name in ("vx", "vy", "wz")], axis=1)
    changed = np.append(True, np.abs(np.diff(asked, axis=0)).max(axis=1) > 1e-6) | ~walking
    rows = np.arange(len(asked))
    age = rows - np.maximum.accumulate(np.where(changed, rows, 0))
    settled = walking & (age >= (SETTLE_S + AVERAGE_S) * rate)
    if not settled.any():
        return None
    width = round(AVERAGE_S * rate)
    sums = np.cumsum(np.vstack([np.zeros(3), _at_ticks(view, measured)]), axis=0)
    ends = np.flatnonzero(settled) + 1
    means = (sums[ends] - sums[ends - width]) / width
    vx, vy, wz = np.abs(means - asked[ends - 1]).mean(axis=0).tolist()
    return vx, vy, wz


def _stops(view: View) -> tuple[tuple[float, str], ...]:
    """Each time that a safety stop began."""
    if SAFETY not in view.series:
        return ()
    safety = view.series[SAFETY]
    bad = safety["level"].astype(int) >= ERROR_LEVEL
    begins = np.flatnonzero(bad & ~np.append(False, bad[:-1]))
    seconds, words = view.seconds(safety), texts(safety["message"])
    return tuple((float(seconds[i]), words[i]) for i in begins)


def _limited(view: View, walking: npt.NDArray[np.bool_]) -> dict[str, float]:
    shares = {
        name: float((view.ticks[f"limit.{name}"][walking] > 0).mean())
        for name in view.robot.joint_names
        if walking.any() and f"limit.{name}" in view.ticks
    }
    return {name: share for name, share in shares.items() if share > 0}
