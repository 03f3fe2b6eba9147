"""The gains that the motors' boards really use.

Unitree's protocol sends a motor kp and kd as 16-bit numbers in steps of 25.6 / 32768 at the rotor
and truncates the rest. Behind a gear the step grows with the square of the ratio: 0.115 Nms/rad at
a Go2's calf, where a kd of 0.5 acts as 0.46 and one of 1.25 as 1.15.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.boards import whole_steps
from sim2real_deploy.twin.per_joint import per_joint

Array = npt.NDArray[np.float64]

ROTOR_STEP = 25.6 / 32768  # Nm/rad and Nms/rad; the range of the protocol in 15 bits


def steps(robot: RobotSpec) -> Array | None:
    """The step of each joint's gains; None for a robot whose gears are not known."""
    if not robot.gears:
        return None
    return ROTOR_STEP * per_joint(dict(robot.gears), robot, "gears") ** 2


def obeyed(recording: Recording, step: Array) -> Recording:
    """The recording with the gains that its boards used; at a step of zero, those sent."""
    if not step.any():
        return recording
    columns = dict(recording.columns)
    columns |= {name: whole_steps(columns[name], step) for name in ("kp", "kd")}
    return replace(recording, columns=columns)
