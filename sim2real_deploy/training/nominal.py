"""The robot round which training randomises: its twin, as far as training's cheap model has it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections, Learned, Trunk
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.per_joint import per_joint

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Nominal:
    """By joint, but for the delay; None: the model's own."""

    delay: float  # s, from the policy's target to the torque it makes
    strength: Array  # torque delivered by torque commanded
    friction: Array  # Nm, dry
    damping: Array | None  # Nms/rad
    armature: Array | None  # kg m^2
    offset: Array  # rad, read beyond where the joint is
    trunk: Trunk  # how it differs from the model's
    learned: Learned  # what its figures leave over


def load_nominal(twin: str, robot: RobotSpec) -> Nominal:
    return nominal_of(load_imperfections(twin, robot.name), robot)


def nominal_of(made_of: Imperfections, robot: RobotSpec) -> Nominal:
    """A first-order lag delays a slow signal by its time constant: it counts as delay."""
    motors, bus = made_of.motors, made_of.command_bus
    late = per_joint(motors.delay, robot, "motors.delay") + per_joint(
        motors.lag, robot, "motors.lag"
    )
    return Nominal(
        delay=float(late.mean()) + bus.wait(robot.wire.rate_hz),
        strength=motors.strengths(robot),
        friction=per_joint(motors.friction, robot, "motors.friction"),
        damping=_or_own(motors.damping, robot, "motors.damping"),
        armature=_or_own(motors.armature, robot, "motors.armature"),
        offset=per_joint(made_of.encoders.offset, robot, "encoders.offset"),
        trunk=made_of.trunk,
        learned=made_of.learned,
    )


def _or_own(value: float | dict[str, float] | None, robot: RobotSpec, key: str) -> Array | None:
    return None if value is None else per_joint(value, robot, key)
