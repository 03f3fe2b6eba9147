"""Legs rolled out for identification are the twin's own: same commands, same path."""

from dataclasses import replace

import numpy as np
import pytest

from sim2real_deploy.identify.board_gains import obeyed
from sim2real_deploy.identify.figures import figures_of
from sim2real_deploy.identify.legs import Legs, Window, gravity
from sim2real_deploy.identify.recording import from_arrays
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.mount import Mount
from sim2real_deploy.twin.robot import TwinRobot
from support.twin_support import ROBOT, command, decode

KP, KD = 25.0, 1.0
ROWS = 400
MOTORS = {
    "friction": {"hip_joint": 0.3, "thigh_joint": 0.5, "calf_joint": 1.0},
    "armature": 0.01,
    "damping": 0.1,
    "delay": 0.003,
    "speed_feed": {"hip_joint": 0.0, "thigh_joint": 0.0, "calf_joint": 0.2},
}
BOARDS = {
    "motors": MOTORS
    | {
        "torque_bias": {"hip_joint": 0.1, "thigh_joint": -0.1, "calf_joint": 0.2},
        "presliding": {"hip_joint": 0.0, "thigh_joint": 0.001, "calf_joint": 0.004},
        "gain_step": {"hip_joint": 0.0, "thigh_joint": 0.0, "calf_joint": 0.15},
    },
    "encoders": {"speed_offset": 0.03, "speed_gain": 1.1},
}


@pytest.mark.parametrize("terms", [{"motors": MOTORS}, BOARDS])
def test_a_rollout_ends_where_the_clamped_twin_does(terms: dict[str, object]) -> None:
    """With dry friction that sticks and slips, which depends on the solver's every detail."""
    made_of = Imperfections.model_validate(terms)
    mount = Mount(kind="fixed", roll=0.1, pitch=-0.15)
    twin = TwinRobot(ROBOT, imperfections=made_of, mount=mount)
    rows: dict[str, list[np.ndarray]] = {"q": [], "dq": [], "target_q": []}
    for row in range(ROWS):
        target = ROBOT.stand_pose + 0.15 * np.sin(0.03 * row + np.arange(12))
        state = decode(twin.advance(command(target, KP, KD)))
        rows["q"].append(np.array(state.q))
        rows["dq"].append(np.array(state.dq))
        rows["target_q"].append(target)
    columns = {name: np.array(values, float) for name, values in rows.items()}
    columns["target_q"] = np.roll(columns["target_q"], -1, axis=0)  # sent after the state was read
    columns |= {"kp": np.full(ROWS, KP), "kd": np.full(ROWS, KD), "torque": columns["q"] * 0}
    recording = from_arrays("made", ROBOT, columns)
    figures = figures_of(made_of, ROBOT)
    speed = (recording["dq"] - figures.speed_offset) / figures.speed_reading
    starts = {"start_q": recording["q"], "start_dq": speed}
    prepared = replace(recording, columns={**recording.columns, **starts})
    prepared = obeyed(prepared, figures.gain_step)
    legs = Legs(ROBOT, [prepared], lags=False, presliding=bool(figures.presliding.any()))
    window = Window(0, 100, 250)
    down = [gravity(mount.roll, mount.pitch)]
    q, _, _ = legs.run([window], [(figures, down)])
    legs.close()
    off = q[0, 0] - recording["q"][101:351]
    assert np.abs(off).max() < 1e-3
    assert np.ptp(recording["q"][101:351], axis=0).min() > 0.05  # it did move
