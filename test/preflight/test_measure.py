"""The boards of a robot, timed by what is on the wire alone."""

from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.preflight import measure
from sim2real_deploy.preflight.measure import Measured, Watched
from sim2real_deploy.wire.decoders import CommandDecoder
from support.twin_support import PERIOD, ROBOT, command, decode, hung

DECODER = CommandDecoder(ROBOT)


def watched(
    timeout: float, delay: float = 0.0, silent_from: float = 1.0, swing: float = 0.0
) -> Watched:
    """A twin in the air, its legs held, or swung through a chirp, and then left alone."""
    robot = hung(command_timeout=timeout, motors={"delay": delay})
    robot.model.opt.gravity[2] = -9.81
    seen = Watched()
    for step in range(round(2.5 / PERIOD)):
        now = step * PERIOD
        sample = None
        if now < silent_from:
            chirp = np.float32(swing * np.sin(2 * np.pi * (1 + 2 * now) * now))
            sample = command(ROBOT.stand_pose + chirp, kp=60, kd=2.0)
            seen.commands.append((now, DECODER.decode(sample)))
        state = robot.advance(sample)
        if state is not None:
            seen.states.append((now + PERIOD, decode(state)))
    return seen


def test_boards_that_time_out_are_timed() -> None:
    assert 0.2 <= (measure.timeout_s(watched(0.2)) or 0.0) < 0.35


def test_boards_that_never_let_go_are_told_apart() -> None:
    assert measure.timeout_s(watched(0.0)) is None


def test_what_shows_nothing_is_refused() -> None:
    with pytest.raises(Refusal, match="nothing was on the wire"):
        measure.timeout_s(Watched())
    with pytest.raises(Refusal, match="never stopped"):
        measure.timeout_s(watched(0.2, silent_from=9.0))


@pytest.mark.parametrize("delay", [0.0, 0.008])
def test_the_age_of_a_command_is_found(delay: float) -> None:
    seen = watched(0.2, delay, silent_from=9.0, swing=0.3)
    found = measure.delay_ms(seen)
    assert found == pytest.approx(1000 * delay, abs=4.0)
    assert measure.delay_ms(Watched()) is None


def test_a_chord_that_acts_shows_in_the_torque() -> None:
    for timeout in (0.0, 0.2):
        seen = watched(timeout)
        later = Watched([(when, state) for when, state in seen.states if when > 1.1])
        assert measure.lets_go(later) == bool(timeout)
    with pytest.raises(Refusal, match="no state"):
        measure.lets_go(Watched())


def test_a_robot_that_was_limp_already_is_refused() -> None:
    seen = watched(0.2)
    seen.commands[-1] = (seen.commands[-1][0], DECODER.decode(command(kd=3.0)))
    with pytest.raises(Refusal, match="held nothing"):
        measure.timeout_s(seen)


def test_above_the_lowest_stage_somebody_has_measured(tmp_path: Path) -> None:
    measure.check_measured("tether", tmp_path, "go2")
    with pytest.raises(Refusal, match="doctor --measure"):
        measure.check_measured("indoor", tmp_path, "go2")
    measure.store(tmp_path, Measured("go2", 0.2, None, 6.0, measure.now()))
    measure.check_measured("indoor", tmp_path, "go2")
    with pytest.raises(Refusal, match="doctor --measure"):
        measure.check_measured("indoor", tmp_path, "g1")
