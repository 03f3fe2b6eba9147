"""How well figures explain a recording: a hung robot is replayed open loop from start to end."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.board_gains import obeyed
from sim2real_deploy.identify.figures import JointFigures
from sim2real_deploy.identify.legs import Legs, Window, gravity
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.identify.smoothing import smooth

Array = npt.NDArray[np.float64]

LEAD_IN = 20  # rows before the replay begins
SLOW_HZ = 20.0  # above it is vibration and noise that no chirp commands


@dataclass(frozen=True, slots=True)
class ReplayedMotion:
    q: Array
    torque: Array
    first: int  # row of the recording that corresponds to the first row here
    q_rms: float  # rad, over all joints
    torque_share: float  # rms error over rms torque
    slow_torque_share: float  # the same below SLOW_HZ


def replay_hung(recording: Recording, figures: JointFigures, attitude: Array) -> ReplayedMotion:
    recording = obeyed(recording, figures.gain_step)
    columns = dict(recording.columns)
    columns["start_q"] = smooth(columns["q"])
    columns["start_dq"] = smooth((columns["dq"] - figures.speed_offset) / figures.speed_reading)
    torque = columns.get("torque", np.zeros_like(columns["q"]))
    columns["torque"], columns["start_torque"] = torque, smooth(torque)
    prepared = replace(recording, columns=columns)
    lags, presliding = bool(figures.lag.any()), bool(figures.presliding.any())
    legs = Legs(recording.robot, [prepared], lags, presliding)
    rows = len(recording) - LEAD_IN - 1
    try:
        q, _, made = legs.run([Window(0, LEAD_IN, rows)], [(figures, [gravity(*attitude)])])
    finally:
        legs.close()
    here = slice(LEAD_IN + 1, LEAD_IN + 1 + rows)
    fresh = recording.fresh[here]
    error = (q[0, 0] - recording["q"][here])[fresh]
    wrong, true = (made[0, 0] - torque[here])[fresh], torque[here][fresh]
    return ReplayedMotion(
        q=q[0, 0],
        torque=made[0, 0],
        first=here.start,
        q_rms=float(np.sqrt(np.mean(error**2))),
        torque_share=_share(wrong, true),
        slow_torque_share=_share(below(wrong, recording.period, SLOW_HZ), true),
    )


def _share(wrong: Array, true: Array) -> float:
    size = float(np.sqrt(np.mean(true**2)))
    return float(np.sqrt(np.mean(wrong**2))) / size if size > 0 else float("nan")


def below(values: Array, period: float, hz: float) -> Array:
    """The part of each column below a frequency."""
    spectrum = np.fft.rfft(values, axis=0)
    spectrum[np.fft.rfftfreq(len(values), period) > hz] = 0.0
    return np.asarray(np.fft.irfft(spectrum, len(values), axis=0))
