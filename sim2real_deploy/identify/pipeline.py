"""From recordings to a robot's figures: stages A to D in turn, each on what it can use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify import board_gains, dynamics
from sim2real_deploy.identify.board_gains import obeyed
from sim2real_deploy.identify.figures import JointFigures, figures_of
from sim2real_deploy.identify.legs import Legs, Window
from sim2real_deploy.identify.motor_law import SEVERAL, MotorLaw, fit_motor_law
from sim2real_deploy.identify.recording import Recording, check_robot, check_torque
from sim2real_deploy.identify.rollout_fit import Fit, Point, RolloutFit
from sim2real_deploy.identify.smoothing import smooth
from sim2real_deploy.identify.trunk import TrunkFinding, identify_trunk
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections

Array = npt.NDArray[np.float64]

LEG_JOINTS = 3
WINDOW = 150  # rows, 0.3 s
WINDOWS = 100  # in the fit, spread over all hung recordings
FIRST_WINDOWS = 30  # of them while searching for delay and kind of friction
MOST_SECONDS = 120.0  # of a recording for stage A
STEP_SECONDS = 40.0  # of a recording, to test whether boards cut gains off
STEP_EVIDENCE = 0.95  # boards cut gains off if that leaves less than this share of squared torque
FITTED = ("armature", "damping", "friction", "offset", "strength", "speed_gain")
OFFSET_SIGMA = 0.1  # rad: joints were calibrated
BLIND_OFFSET_SIGMA = 0.03  # rad, without an IMU: else offsets absorb what is not modelled
OFFSET_TRUST = 4.0  # factor on the deviations of stage B's offsets, which are too small
LEAST_OFFSET_SIGMA = 0.005  # rad
LEAST_SIGMA = 0.004  # of strength, however certain stage A is
SPEED_SIGMA = 0.01
LEAST_FEED_SIGMA = 0.015  # Nms/rad, of speed feed likewise
BIAS_SIGMA = 0.02  # Nm
PRESLIDING, PRESLIDING_SIGMA = 0.0015, 0.001  # rad, of geared joints
SLIDING_EVIDENCE = 0.1  # gain in log likelihood per row that presliding must bring
LAG_SIGMA = 0.002  # s, of stage A's lag
# The reported torque is that of the last millisecond of a period. A command that takes effect a
# millisecond later looks the same in it; only rollouts can tell.
UNTOLD_DELAY = 0.001  # s
LAGGING_SHARE = 0.7  # of the joints: if fewer show a lag, none has one
LATER_STEPS = 3  # physics steps beyond stage A's delay to try
FIRST_ITERATIONS, LATER_ITERATIONS = 4, 3


@dataclass(frozen=True, slots=True)
class Identified:
    """The results of all stages; None or empty for a stage without suitable recordings."""

    robot: RobotSpec
    before: JointFigures
    figures: JointFigures
    recordings: tuple[Recording, ...]
    laws: tuple[MotorLaw, ...]
    fit: Fit | None
    unexplained: tuple[dynamics.Unexplained, ...]
    trunk: TrunkFinding | None
    hung: tuple[int, ...]  # recordings in which no foot touches anything


def identify(
    robot: RobotSpec,
    recordings: Sequence[Recording],
    start: Imperfections,
    progress: Progress,
) -> Identified:
    check(robot, recordings)
    before = figures_of(start, robot)
    step = _gain_steps(recordings, before)
    recordings = [obeyed(recording, step) for recording in recordings]
    laws = _motor_laws(recordings, progress)
    figures = _with_laws(before.with_(gain_step=step), laws, robot)
    hung = tuple(k for k, r in enumerate(recordings) if r.hangs and _moves(r))
    fit: Fit | None = None
    left: tuple[dynamics.Unexplained, ...] = ()
    if hung and all(len(leg.joints) == LEG_JOINTS for leg in robot.legs.values()):
        chosen = [_prepared(recordings[k], figures) for k in hung]
        fit = _fit(robot, chosen, figures, laws, progress)
        figures = fit.point.figures
        found = dynamics.balance(robot, chosen, fit.point.attitudes, figures)
        left = tuple(dynamics.unexplained(found, figures, robot))
    else:
        figures = figures.with_(delay=figures.delay + UNTOLD_DELAY / 2)
    progress("weighing the trunk", 0.95)
    grounded = [r for r in recordings if not r.hangs]
    trunk = identify_trunk(robot, grounded, figures) if grounded else None
    return Identified(robot, before, figures, tuple(recordings), laws, fit, left, trunk, hung)


def check(robot: RobotSpec, recordings: Sequence[Recording]) -> None:
    """Refuse recordings that cannot be identified, saying what is missing."""
    if not recordings:
        raise Refusal("identify: no recording was given")
    check_robot(robot, recordings)
    check_torque(recordings)
    if not any(_moves(recording) for recording in recordings):
        names = ", ".join(recording.name for recording in recordings)
        raise Refusal(
            f"the joints hardly move in {names}: a robot that stands still tells nothing about its "
            "motors; record `sim2real excite`, or a walk"
        )


def _moves(recording: Recording) -> bool:
    return bool((recording["target_q"].std(axis=0) > 0.02).any())


def _gain_steps(recordings: Sequence[Recording], before: JointFigures) -> Array:
    """The steps to which boards cut gains off, for each kind of joint whose torque they explain
    better. Only recordings at several kd can tell; without them the steps stay as before."""
    robot = recordings[0].robot
    known = board_gains.steps(robot)
    parts = [_busiest(r, STEP_SECONDS) for r in recordings if _moves(r)]
    gains = np.concatenate([part["kd"][part["kp"].min(axis=1) > 0] for part in parts])
    if known is None or before.gain_step.any() or not len(gains):
        return before.gain_step
    if gains.max() < SEVERAL * gains.min():
        return before.gain_step
    step: Array = before.gain_step.copy()
    cut = [obeyed(part, known) for part in parts]
    for kind in range(LEG_JOINTS):
        joints = range(kind, robot.joint_count, LEG_JOINTS)
        as_sent, as_cut = (sum(_law_leaves(p, j) ** 2 for j in joints) for p in (parts, cut))
        if as_cut < STEP_EVIDENCE * as_sent:
            step[kind::LEG_JOINTS] = known[kind::LEG_JOINTS]
    return step


def _law_leaves(parts: Sequence[Recording], joint: int) -> float:
    """Torque (Nm rms) that the motor law without a lag does not explain."""
    return fit_motor_law(parts, joint, np.random.default_rng(0), lags=np.zeros(1)).residual


def _motor_laws(recordings: Sequence[Recording], progress: Progress) -> tuple[MotorLaw, ...]:
    rng = np.random.default_rng(0)
    parts = [_busiest(recording) for recording in recordings if _moves(recording)]
    joints = parts[0].robot.joint_count
    laws = []
    for joint in range(joints):
        progress("motor laws", 0.3 * joint / joints)
        laws.append(fit_motor_law(parts, joint, rng))
    # Motors of one type lag alike. A lag at a few joints only is a loss that grows with the load.
    lagging = [joint for joint, law in enumerate(laws) if law.lag > 0]
    if len(lagging) < LAGGING_SHARE * joints:
        for joint in lagging:
            laws[joint] = fit_motor_law(parts, joint, rng, lags=np.zeros(1))
    return tuple(laws)


def _busiest(recording: Recording, seconds: float = MOST_SECONDS) -> Recording:
    """The stretch of this length in which the targets move most."""
    rows = round(seconds / recording.period)
    if len(recording) <= rows:
        return recording
    moved = np.abs(np.diff(recording["target_q"], axis=0)).sum(axis=1)
    total = np.concatenate(([0.0], np.cumsum(moved)))
    starts = np.arange(0, len(recording) - rows, 500)
    best = int(starts[np.argmax(total[starts + rows - 1] - total[starts])])
    return recording.part(slice(best, best + rows))


def _with_laws(before: JointFigures, laws: Sequence[MotorLaw], robot: RobotSpec) -> JointFigures:
    """Stage A's results: joints that were not excited keep their figures; all share one delay."""
    period = 1 / robot.wire.rate_hz
    known = np.array([law.excited for law in laws])

    def of(name: str, old: Array) -> Array:
        return np.where(known, [getattr(law, name) for law in laws], old)

    # A reported torque belongs to the period before: a command of the row before has no delay.
    seen = np.array([law.delay for law in laws]) - period
    lag = of("lag", before.lag)
    if known.any():
        width = np.array([np.ptp(law.delay_interval) for law in laws])
        weight = known / np.maximum(width, 1e-4) ** 2
        seen = np.full(robot.joint_count, _weighted_median(seen, weight))
    delay = np.where(known.any(), np.maximum(seen, 0.0), before.delay)
    share = of("speed_share", np.ones_like(lag)) * of("speed_gain", before.speed_gain)
    return before.with_(
        strength=of("strength", before.strength),
        delay=delay,
        lag=lag,
        speed_gain=share,
        speed_reading=of("speed_gain", before.speed_reading),
        speed_feed=of("speed_feed", before.speed_feed),
        torque_bias=of("torque_bias", before.torque_bias),
        speed_offset=of("speed_offset", before.speed_offset),
    )


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _prepared(recording: Recording, figures: JointFigures) -> Recording:
    """The recording with smoothed states, in which windows begin."""
    columns = dict(recording.columns)
    columns["start_q"] = smooth(columns["q"])
    columns["start_dq"] = smooth((columns["dq"] - figures.speed_offset) / figures.speed_reading)
    columns["start_torque"] = smooth(columns["torque"])
    return replace(recording, columns=columns)


def _windows(recordings: Sequence[Recording]) -> list[Window]:
    """Up to WINDOWS windows, spread over all stretches with motion at unchanged gains."""
    found = []
    for number, recording in enumerate(recordings):
        moving = np.abs(np.diff(recording["target_q"], axis=0)).sum(axis=1) > 1e-4
        for start in range(60, len(recording) - WINDOW - 2, WINDOW):
            rows = slice(start - 40, start + WINDOW)
            kp, kd = recording["kp"][rows], recording["kd"][rows]
            steady = kp.min() > 0 and not np.ptp(kp, axis=0).any() and not np.ptp(kd, axis=0).any()
            if steady and moving[rows].mean() > 0.5:
                found.append(Window(number, start, WINDOW))
    if not found:
        raise Refusal("no stretch of 0.3 s with moving joints at unchanged gains was found")
    chosen = np.unique(np.linspace(0, len(found) - 1, WINDOWS).round().astype(int))
    return [found[k] for k in chosen]


def _fit(
    robot: RobotSpec,
    recordings: Sequence[Recording],
    figures: JointFigures,
    laws: Sequence[MotorLaw],
    progress: Progress,
) -> Fit:
    """Stage B for initial values, then stage C at the delays that stage A cannot tell apart."""
    attitudes, known = _attitudes(recordings)
    priors = _priors(figures, laws)
    balance = dynamics.balance(robot, recordings, attitudes, figures)
    if known:  # without the attitude, gravity tells nothing about encoders
        offset, sigma = dynamics.offsets(balance)
        sure = sigma < OFFSET_SIGMA
        figures = figures.with_(offset=np.where(sure, offset, figures.offset))
        priors["offset"] = (
            np.where(sure, offset, 0.0),
            np.where(sure, np.maximum(OFFSET_TRUST * sigma, LEAST_OFFSET_SIGMA), OFFSET_SIGMA),
        )
        balance = dynamics.balance(robot, recordings, attitudes, figures)
    else:
        joints = robot.joint_count
        priors["offset"] = (np.zeros(joints), np.full(joints, BLIND_OFFSET_SIGMA))
    guess = dynamics.first_guess(balance, figures)
    windows = _windows(recordings)
    lags = bool(figures.lag.any())
    fitted: tuple[str, ...] = (*FITTED, "lag") if lags else FITTED
    fitted += tuple(name for name in ("speed_feed", "torque_bias") if getattr(figures, name).any())
    legs = Legs(robot, recordings, lags=lags)
    step = 1 / robot.wire.rate_hz / 2
    whole = np.floor(figures.delay / step + 0.5) * step
    try:
        few = RolloutFit(
            legs, windows[:: len(windows) // FIRST_WINDOWS or 1], fitted, not known, priors
        )
        told = partial(_shifted, progress, 0.3)
        point = _best_delay(few, Point(guess.with_(delay=whole), attitudes), step, told)
        sliding = _with_presliding(few, point, told)
        if sliding is not None:
            few, point = sliding
        search = RolloutFit(few.legs, windows, few.names, not known, priors)
        told = partial(_shifted, progress, 0.6)
        return search.run(replace(point, starts_off=None), told, 2)
    finally:
        few.legs.close()


def _with_presliding(
    few: RolloutFit, point: Point, progress: Progress
) -> tuple[RolloutFit, Point] | None:
    """The fit with friction that builds up over a distance; None if it does not explain more."""
    joints = point.figures.friction.size
    start = replace(point, figures=point.figures.with_(presliding=np.full(joints, PRESLIDING)))
    sliding = few.with_presliding()
    tried = sliding.improve(start, progress, FIRST_ITERATIONS)
    if sliding.misfit(tried) < few.misfit(point) - SLIDING_EVIDENCE:
        few.legs.close()
        return sliding, tried
    sliding.legs.close()
    return None


def _best_delay(few: RolloutFit, start: Point, step: float, progress: Progress) -> Point:
    """The fit at the most likely delay, in whole physics steps from stage A's upwards.

    Rotor inertia makes up for a delay that is a step too short. Each delay has its own optimum, so
    the fit is repeated at each until the likelihood falls.
    """
    best = few.improve(start, progress, FIRST_ITERATIONS)
    least = few.misfit(best)
    for later in range(1, LATER_STEPS + 1):
        delay = start.figures.delay + later * step
        tried = replace(best, figures=best.figures.with_(delay=delay))
        tried = few.improve(tried, progress, LATER_ITERATIONS)
        misfit = few.misfit(tried)
        if misfit > least:
            break
        best, least = tried, misfit
    return best


def _priors(figures: JointFigures, laws: Sequence[MotorLaw]) -> dict[str, tuple[Array, Array]]:
    """Stage A's results with their uncertainty, as priors of stage C."""
    width = np.array([np.ptp(law.strength_interval) if law.excited else 1.0 for law in laws])
    feed = np.array([np.ptp(law.speed_feed_interval) if law.speed_feed else 0.0 for law in laws])
    joints = len(laws)
    return {
        "strength": (figures.strength, np.maximum(width / 4, LEAST_SIGMA)),
        "speed_gain": (figures.speed_gain, np.full(joints, SPEED_SIGMA)),
        "offset": (np.zeros(joints), np.full(joints, OFFSET_SIGMA)),
        "lag": (figures.lag, np.full(joints, LAG_SIGMA)),
        "speed_feed": (figures.speed_feed, np.maximum(feed / 4, LEAST_FEED_SIGMA)),
        "torque_bias": (figures.torque_bias, np.full(joints, BIAS_SIGMA)),
        "presliding": (np.full(joints, PRESLIDING), np.full(joints, PRESLIDING_SIGMA)),
    }


def _shifted(progress: Progress, begin: float, what: str, done: float) -> None:
    progress(what, begin + 0.3 * done)


def _attitudes(recordings: Sequence[Recording]) -> tuple[Array, bool]:
    """Roll and pitch in each recording, and whether an IMU measured them."""
    known, found = True, []
    for recording in recordings:
        quaternion = recording["quaternion"] if "quaternion" in recording else np.zeros((1, 4))
        w, x, y, z = np.median(quaternion, axis=0)
        if not 0.9 < w * w + x * x + y * y + z * z < 1.1:
            known = False
            found.append((0.0, 0.0))
            continue
        roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
        found.append((float(roll), float(np.arcsin(np.clip(2 * (w * y - z * x), -1, 1)))))
    return np.array(found), known
