"""Stage A finds a motor's strength, delay and lag through the noise of its readings."""

import numpy as np
import pytest

from sim2real_deploy.identify.motor_law import fit_motor_law
from sim2real_deploy.identify.recording import Recording, from_arrays
from sim2real_deploy.robots import load_robot

ROBOT = load_robot("go2")
KP, KD = 25.0, 2.0
JOINT = 4


def recorded(
    strength: float,
    late: int,
    noise: float,
    lag: float = 0.0,
    kd: float = KD,
    speed_feed: float = 0.0,
    torque_bias: float = 0.0,
    speed_offset: float = 0.0,
    seconds: float = 16.0,
) -> Recording:
    """Joints of 0.05 kg m^2 that follow a chirp; velocity is read with noise."""
    rng = np.random.default_rng(0)
    rows = round(seconds * 500)
    t = np.arange(rows) / 500
    target = 0.3 * np.sin(2 * np.pi * (0.2 * t + 4.0 * t * t / (2 * seconds)))
    q = dq = torque = 0.0
    columns: dict[str, list[float]] = {"q": [], "dq": [], "torque": []}
    for row in range(rows):
        for name, value in (
            ("q", q),
            ("dq", dq + speed_offset + noise * rng.standard_normal()),
            ("torque", torque),
        ):
            columns[name].append(value)
        asked = strength * (KP * (target[max(row - late + 1, 0)] - q) - kd * (dq + speed_offset))
        asked += speed_feed * dq + torque_bias
        share = 1.0 if lag == 0 else 1 - np.exp(-0.002 / lag)
        before = torque
        torque = before + share * (asked - before)
        dq += 0.002 * (torque - 0.3 * np.tanh(dq / 0.05)) / 0.05
        q += 0.002 * dq
    wide = {name: np.repeat(np.array(v)[:, None], 12, axis=1) for name, v in columns.items()}
    gains = {"kp": np.full(rows, KP), "kd": np.full(rows, kd)}
    return from_arrays(
        "made", ROBOT, {**wide, "target_q": np.repeat(target[:, None], 12, 1), **gains}
    )


@pytest.mark.parametrize(("strength", "late"), [(1.0, 4), (0.7, 2), (1.2, 9)])
def test_strength_and_delay_are_found_through_noisy_velocities(strength: float, late: int) -> None:
    recording = recorded(strength, late, noise=0.3)
    law = fit_motor_law([recording], JOINT, np.random.default_rng(0))
    assert law.strength == pytest.approx(strength, rel=0.025)
    assert law.delay == pytest.approx(late * 0.002, abs=0.0011)
    assert law.lag == 0.0
    assert law.excited


def test_a_lag_is_told_from_a_delay() -> None:
    law = fit_motor_law([recorded(0.9, 3, 0.05, lag=0.012)], JOINT, np.random.default_rng(0))
    assert law.lag == pytest.approx(0.012, rel=0.2)
    assert law.strength == pytest.approx(0.9, rel=0.02)


@pytest.mark.parametrize("speed_feed", [0.0, 0.15])
def test_torque_along_the_velocity_shows_at_several_gains(speed_feed: float) -> None:
    at = [recorded(0.85, 4, 0.02, kd=kd, speed_feed=speed_feed) for kd in (1.25, 5.0)]
    law = fit_motor_law(at, JOINT, np.random.default_rng(0))
    assert law.speed_feed == pytest.approx(speed_feed, abs=0.03)
    assert law.strength == pytest.approx(0.85, rel=0.025)
    assert fit_motor_law(at[:1], JOINT, np.random.default_rng(0)).speed_feed == 0.0  # one gain


@pytest.mark.parametrize(("bias", "offset"), [(0.0, 0.0), (-0.12, 0.02)])
def test_constant_errors_of_a_board_are_found(bias: float, offset: float) -> None:
    recording = recorded(0.9, 4, 0.02, torque_bias=bias, speed_offset=offset)
    law = fit_motor_law([recording], JOINT, np.random.default_rng(0))
    assert law.torque_bias == pytest.approx(bias, abs=0.015)
    assert law.speed_offset == pytest.approx(offset, abs=0.004)
    assert law.strength == pytest.approx(0.9, rel=0.025)


def test_a_joint_that_is_not_asked_to_move_is_not_excited() -> None:
    still = recorded(1.0, 4, 0.02)
    columns = dict(still.columns)
    columns["target_q"] = np.zeros_like(columns["target_q"])
    law = fit_motor_law([from_arrays("still", ROBOT, columns)], JOINT, np.random.default_rng(0))
    assert not law.excited
