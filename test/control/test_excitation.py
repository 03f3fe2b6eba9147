"""The protocol of the hoist: smooth, within limits, against itself, and ended by what is wrong."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim2real_deploy.control.excitation import Excitation, protocol
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.robots import JointCommand, load_robot
from support.twin_support import decode, twin

SPEC = load_robot("go2")
PERIOD_NS = 2_000_000


def path(minutes: float) -> tuple[np.ndarray, np.ndarray]:
    zero = np.zeros(12, np.float32)
    start = JointCommand(SPEC.sit_pose.copy(), zero, SPEC.kp.copy(), SPEC.kd.copy(), zero)
    excitation = Excitation(start, protocol(25.0, 0.5, minutes), SPEC, 0)
    out, targets, gains = start.copy(), [], []
    done, now = False, 0
    while not done:
        done = excitation.fill(now, out)
        targets.append(out.q.copy())
        gains.append((out.kp[0], out.kd[0]))
        now += PERIOD_NS
    assert now / 1e9 == pytest.approx(excitation.duration_s, abs=0.1)
    return np.array(targets[:-1]), np.array(gains[:-1])


def test_targets_are_smooth_and_stay_within_the_joints_range() -> None:
    targets, gains = path(1.0)
    assert (targets > SPEC.position_low).all()
    assert (targets < SPEC.position_high).all()
    assert np.abs(np.diff(targets, axis=0)).max() < 0.05  # rad in a tick
    assert {tuple(g) for g in gains[2000:].tolist()} == {(25.0, 0.5), (60.0, 2.0), (25.0, 2.0)}
    assert (np.ptp(targets[2000:], axis=0) > 0.2).all()


def test_neighbouring_legs_move_against_each_other() -> None:
    targets, _ = path(1.0)
    moved = targets[2000:] - SPEC.stand_pose
    for right, left in ((0, 3), (6, 9), (0, 6)):
        assert np.corrcoef(moved[:, right + 1], moved[:, left + 1])[0, 1] < -0.9


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, ""),
        ({"gyroscope": np.float32([0, 2.0, 0])}, "swings at 2.0 rad/s"),
        ({"foot_force": np.int16([0, 0, 90, 0])}, "a foot presses on something with 90"),
        ({"temperature": np.full(12, 75, np.int16)}, "a motor is at 75 C"),
    ],
)
def test_it_objects_in_words(wrong: dict[str, Any], words: str) -> None:
    zero = np.zeros(12, np.float32)
    start = JointCommand(zero, zero, zero, zero, zero)
    excitation = Excitation(start, protocol(25.0, 0.5), SPEC, 0)
    state = decode(twin().advance(None)).whole()
    calm = replace(
        state.whole(), foot_force=np.zeros(4, np.int16), gyroscope=np.zeros(3, np.float32)
    )
    assert words in excitation.objection(replace(calm, **wrong))
    assert bool(excitation.objection(replace(calm, **wrong))) is bool(words)


def test_only_a_robot_that_stands_may_be_excited_and_any_stop_ends_it() -> None:
    from sim2real_deploy.control.modes import TRANSITIONS

    begins = {mode for mode, event in TRANSITIONS if event is ModeEvent.EXCITE}
    assert begins == {Mode.STANDING}
    for event, after in (
        (ModeEvent.STOP, Mode.SITTING_DOWN),
        (ModeEvent.SIT, Mode.SITTING_DOWN),
        (ModeEvent.DONE, Mode.SITTING_DOWN),
        (ModeEvent.ESTOP, Mode.DAMPING),
        (ModeEvent.DAMP, Mode.DAMPING),
    ):
        assert TRANSITIONS[Mode.EXCITING, event] == (after, ())
