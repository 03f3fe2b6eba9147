"""One particular robot's body: how its trunk and joints differ from the model's."""

from typing import Any

import mujoco

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections, Trunk
from sim2real_deploy.twin.model import BASE
from sim2real_deploy.twin.per_joint import per_joint


def shape_body(model: Any, robot: RobotSpec, made_of: Imperfections) -> None:
    """Give a compiled model the trunk, rotors and bearings of this robot."""
    motors, joints = made_of.motors, robot.joint_count
    if motors.armature is not None:
        model.dof_armature[-joints:] = per_joint(motors.armature, robot, "motors.armature")
    if motors.damping is not None:
        model.dof_damping[-joints:] = per_joint(motors.damping, robot, "motors.damping")
    shape_trunk(model, made_of.trunk)


def shape_trunk(model: Any, trunk: Trunk) -> None:
    """Apply the trunk's differences in mass, centre of mass and inertia."""
    base = model.body(BASE).id
    model.body_mass[base] += trunk.mass
    model.body_ipos[base] += trunk.com
    model.body_inertia[base] *= trunk.inertia
    mujoco.mj_setConst(model, mujoco.MjData(model))
