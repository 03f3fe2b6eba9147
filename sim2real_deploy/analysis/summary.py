"""The first section of a report: what the run was, and what a person should look at."""

from sim2real_deploy.analysis.run_figures import RunFigures
from sim2real_deploy.robots import RobotSpec

SPEED_ERROR = 0.1  # m/s, and TURN_ERROR rad/s: more is worth a look
TURN_ERROR = 0.15
LIMITED = 0.02  # of the ticks
TORQUE_SHARE = 0.9
LATE = 0.001  # of the ticks
SURPRISE = 2.0
AT_MOST = 6  # things to look at


def sentence(figures: RunFigures) -> str:
    """How far, how well, and how it ended."""
    if figures.walked_s < 0.5:
        told = f"Did not walk; {figures.duration_s:.0f} s were recorded."
    elif figures.distance_m is None:
        told = f"Walked for {figures.walked_s:.1f} s; no odometry says how far."
    else:
        mean = figures.distance_m / figures.walked_s
        told = f"Walked {figures.distance_m:.1f} m in {figures.walked_s:.1f} s ({mean:.2f} m/s)."
    if figures.speed_error is not None:
        vx, vy, wz = figures.speed_error
        told += (
            f" Off its commanded velocity by {vx:.2f} m/s forward, {vy:.2f} m/s sideways and"
            f" {wz:.2f} rad/s turning."
        )
    if figures.stops:
        seconds, words = figures.stops[0]
        more = f" (the first of {len(figures.stops)})" if len(figures.stops) > 1 else ""
        told += f" Safety stopped it at {seconds:.1f} s{more}: {words}."
    else:
        told += " Safety never had to stop it."
    return told


def to_look_at(figures: RunFigures, robot: RobotSpec) -> list[tuple[str, str]]:
    """What looks wrong, most urgent first, and the section that shows it."""
    found: list[tuple[str, str]] = []
    for seconds, words in figures.stops:
        found.append((f"safety at {seconds:.1f} s: {words}", "Timeline"))
    if figures.hottest >= robot.temperature.warn:
        text = f"{figures.hottest_joint} reached {figures.hottest:.0f} °C"
        found.append((f"{text} (warning from {robot.temperature.warn:g})", "Temperature"))
    if figures.late_ticks is not None and figures.late_ticks > LATE:
        text = f"{figures.late_ticks:.2%} of the control ticks came late"
        found.append((f"{text}: is the computer busy with something else?", "Latency"))
    found += _motion(figures)
    if figures.lost_states and not figures.lost_on_purpose:
        found.append((f"{figures.lost_states} states were lost on the wire", "Recording"))
    if figures.dropped:
        found.append((f"{figures.dropped} messages were dropped by the recorder", "Recording"))
    return found[:AT_MOST]


def _motion(figures: RunFigures) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if figures.speed_error is not None:
        vx, vy, wz = figures.speed_error
        if max(vx, vy) > SPEED_ERROR or wz > TURN_ERROR:
            found.append(("the commanded velocity is not reached", "Velocity"))
    if figures.torque_share > TORQUE_SHARE:
        text = f"{figures.torque_joint} reached {figures.torque_share:.0%} of its torque limit"
        found.append((text, "Torque and limits"))
    often = {name: share for name, share in figures.limited.items() if share > LIMITED}
    if often:
        worst = max(often, key=lambda name: often[name])
        others = f" and {len(often) - 1} more" if len(often) > 1 else ""
        text = (
            f"limits changed what the policy asked of {worst}{others}: {often[worst]:.0%} of ticks"
        )
        found.append((text, "Torque and limits"))
    if figures.surprise is not None and figures.surprise > SURPRISE:
        text = f"observations deviate {figures.surprise:.1f} times as much as in training"
        found.append((text, "Observations against training"))
    return found
