"""The figures that are identified for each joint, with their bounds."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import build_model
from sim2real_deploy.twin.per_joint import per_joint

Array = npt.NDArray[np.float64]

BOUNDS = {  # wider than any known robot
    "strength": (0.4, 1.5),
    "delay": (0.0, 0.05),
    "lag": (0.0, 0.05),
    "armature": (-0.02, 0.3),  # below zero: a trunk that moves reduces the inertia a joint feels
    "damping": (0.0, 3.0),
    "friction": (0.0, 4.0),
    "offset": (-0.15, 0.15),
    "speed_gain": (0.5, 1.5),
    "speed_feed": (0.0, 0.5),
    "torque_bias": (-2.0, 2.0),
    "presliding": (0.0003, 0.03),
}


@dataclass(frozen=True, slots=True)
class JointFigures:
    """One number per joint in SDK order."""

    strength: Array
    delay: Array  # s, from sending a command to its torque
    lag: Array  # s
    armature: Array
    damping: Array
    friction: Array
    offset: Array
    speed_gain: Array  # velocity in the board's PD law over the true one
    speed_reading: Array  # velocity in the recordings over the true one
    speed_feed: Array  # Nms/rad, torque that the motor's board adds along its velocity
    torque_bias: Array  # Nm, constant torque that the motor's board adds
    speed_offset: Array  # rad/s, velocity that the board reads at rest
    presliding: Array  # rad, motion after a reversal over which dry friction builds up
    gain_step: Array  # Nm/rad and Nms/rad to which the motor's board cuts gains off; 0: it does not
    backlash: Array  # rad, full play; from the initial twin, never fitted

    def with_(self, **changed: Array) -> "JointFigures":
        return replace(self, **changed)


def figures_of(twin: Imperfections, robot: RobotSpec) -> JointFigures:
    """The figures of a twin; what it does not set comes from the MuJoCo model."""
    model, motors, joints = build_model(robot, Floor()), twin.motors, robot.joint_count
    bus = twin.command_bus
    wait = bus.wait(robot.wire.rate_hz)

    def of(value: Any, key: str, own: Array | None = None) -> Array:
        if value is None:
            assert own is not None
            return np.array(own, np.float64)
        return per_joint(value, robot, key)

    return JointFigures(
        strength=motors.strengths(robot),
        delay=of(motors.delay, "motors.delay") + wait,
        lag=of(motors.lag, "motors.lag"),
        armature=of(motors.armature, "motors.armature", model.dof_armature[-joints:]),
        damping=of(motors.damping, "motors.damping", model.dof_damping[-joints:]),
        friction=of(motors.friction, "motors.friction"),
        offset=of(twin.encoders.offset, "encoders.offset"),
        speed_gain=of(twin.encoders.speed_gain, "encoders.speed_gain"),
        speed_reading=of(twin.encoders.speed_gain, "encoders.speed_gain"),
        speed_feed=of(motors.speed_feed, "motors.speed_feed"),
        torque_bias=of(motors.torque_bias, "motors.torque_bias"),
        speed_offset=of(twin.encoders.speed_offset, "encoders.speed_offset"),
        presliding=of(motors.presliding, "motors.presliding"),
        gain_step=of(motors.gain_step, "motors.gain_step"),
        backlash=of(motors.backlash, "motors.backlash"),
    )
