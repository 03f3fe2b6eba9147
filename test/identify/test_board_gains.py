"""Boards that cut gains off are told from boards that take them as sent."""

from dataclasses import replace

import numpy as np
import pytest
from identify.test_motor_law import recorded

from sim2real_deploy.identify import board_gains
from sim2real_deploy.identify.figures import figures_of
from sim2real_deploy.identify.pipeline import _gain_steps
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.files import load_imperfections

ROBOT = load_robot("go2")
STEP = board_gains.steps(ROBOT)
SENT = (1.25, 3.0, 5.0)


def sent_and_obeyed(kd: float, calf_kd: float) -> Recording:
    """Hips and thighs obey `kd`, calves `calf_kd`; `kd` was sent to all."""
    made, calves = recorded(0.9, 4, 0.02, kd=kd), recorded(0.9, 4, 0.02, kd=calf_kd)
    columns = dict(made.columns)
    for name in ("q", "dq", "torque"):
        columns[name] = columns[name].copy()
        columns[name][:, 2::3] = calves[name][:, 2::3]
    return replace(made, columns=columns)


def test_a_step_of_the_protocol_cuts_off_a_twelfth_of_a_calfs_damping() -> None:
    assert STEP is not None
    assert STEP[:3] == pytest.approx([0.0313, 0.0313, 0.1150], abs=1e-4)
    kept = board_gains.obeyed(recorded(1.0, 4, 0.0, kd=1.25), STEP)
    assert kept["kd"][0, :3] == pytest.approx([1.2208, 1.2208, 1.1504], abs=1e-3)


@pytest.mark.parametrize("cuts", [True, False])
def test_the_kind_of_joint_whose_boards_cut_gains_off_is_found(cuts: bool) -> None:
    assert STEP is not None
    recordings = [
        sent_and_obeyed(kd, float(np.floor(kd / STEP[2]) * STEP[2]) if cuts else kd) for kd in SENT
    ]
    before = figures_of(load_imperfections(), ROBOT)
    found = _gain_steps(recordings, before)
    assert not found[0::3].any()
    assert not found[1::3].any()
    assert found[2::3] == pytest.approx(STEP[2::3] if cuts else np.zeros(4))
    assert not _gain_steps(recordings[:1], before).any()  # one kd cannot tell
