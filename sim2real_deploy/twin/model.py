"""The robot's MuJoCo model: its MJCF, a floor, and actuators made from the RobotSpec.

The twin and training use the same MJCF; this module chooses what differs between the twin (motors,
all contacts, sensors) and training (position actuators, few contacts).
"""

from pathlib import Path
from typing import Any, Literal

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.spec import Joint
from sim2real_deploy.twin.config import Imperfections, Trunk
from sim2real_deploy.twin.floor_geometry import add_floor
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.per_joint import per_joint

ASSETS = Path(__file__).parent / "assets"
BASE = "base"  # the trunk's body in every robot's MJCF
IMU_SITE = "imu"

# What collides with the floor. "full": all geoms, also with each other; "floor": all geoms;
# "shanks": feet, shanks and trunk; "feet": feet and trunk.
Collision = Literal["full", "floor", "shanks", "feet"]
Actuators = Literal["motor", "position"]
Floats64 = npt.NDArray[np.float64]

# A motor is MuJoCo's dcmotor with a motor constant of one: current is torque, voltage is speed.
# Indices of its variable parameters in actuator_gainprm, and the number of its inputs in ctrl:
RESISTANCE, KP, KD, SUPPLY = 0, 4, 6, 7
MOTOR_INPUTS = 3  # target position, target velocity, torque
_INPUT = mujoco.mjtCtrlInput
_SIGNATURE = int(_INPUT.mjINPUT_POS) | int(_INPUT.mjINPUT_VEL) | int(_INPUT.mjINPUT_FF)
_COULOMB, _STATIC, _STIFFNESS = 3, 4, 5  # of its friction, in actuator_biasprm and _dynprm
_NO_BACK_EMF = 1e9  # resistance
_LEAST_FRICTION = 1e-6  # Nm: to MuJoCo a motor without friction has no state
_LEAST_LAG = 1e-4  # s: negligible within a physics step
_FARTHEST = 1e6  # largest input; from 1e10 on MuJoCo would ignore the inputs of all motors


def build_spec(
    robot: RobotSpec,
    floor: Floor,
    *,
    timestep: float = 0.002,
    collision: Collision = "full",
    actuators: Actuators = "motor",
    kp: float | Floats64 = 0.0,
    kd: float | Floats64 = 0.0,
    lag: float | Floats64 = 0.0,
    presliding: bool = False,
    sensors: bool = True,
) -> Any:
    """The MjSpec, still open to additions, with actuators in SDK order.

    `kp` and `kd` are for position actuators; motors get theirs with each command, and their torque
    has a first-order `lag` (s). With `presliding`, a second, passive actuator behind those of the
    motors gives each joint friction by `set_presliding`.
    """
    path = ASSETS / robot.model
    if not path.is_file():
        raise Refusal(f"robot '{robot.name}': its model {robot.model} is not in {ASSETS}")
    spec = mujoco.MjSpec.from_file(str(path))
    spec.option.timestep = timestep
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    spec.option.iterations = 10
    spec.option.ls_iterations = 10
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1080
    spec.visual.quality.shadowsize = 1024  # small, because it is often rendered in software
    add_floor(spec, floor)
    _limit_collisions(spec, robot, collision)
    if actuators == "motor":
        for joint in robot.joints:  # measured stops, where known
            spec.joint(joint.name).range = joint.stops or joint.position
        _add_motors(spec, robot, lag)
        if presliding:
            _add_bristles(spec, robot)
    else:
        _add_position_actuators(spec, robot, kp, kd)
    if sensors:
        _add_sensors(spec, robot)
    return spec


def build_model(robot: RobotSpec, floor: Floor, **options: Any) -> Any:
    """Compile an MjModel; the options are those of `build_spec`."""
    return build_spec(robot, floor, **options).compile()


def _limit_collisions(spec: Any, robot: RobotSpec, collision: Collision) -> None:
    if collision == "full":
        return
    kept = {*robot.foot_names, "trunk"}
    if collision == "shanks":
        kept |= {g.name for foot in robot.foot_names for g in spec.geom(foot).parent.geoms}
    for geom in spec.body(BASE).find_all(mujoco.mjtObj.mjOBJ_GEOM):
        if geom.contype:
            geom.contype = 0
            geom.conaffinity = 1 if collision == "floor" or geom.name in kept else 0


def _add_motors(spec: Any, robot: RobotSpec, lag: float | Floats64) -> None:
    lags = np.broadcast_to(np.asarray(lag, float), len(robot.joints))
    if lags.any():  # all motors have the current as a state, or none
        lags = np.maximum(lags, _LEAST_LAG)
    for joint, seconds in zip(robot.joints, lags.tolist(), strict=True):
        motor = _add_actuator(spec, joint)
        motor.ctrllimited, motor.ctrlrange = True, [-_FARTHEST, _FARTHEST]
        motor.set_to_dcmotor(
            motorconst=[1, 0], resistance=1, inductance=[0, seconds], ctrlspec=_SIGNATURE
        )


def _add_bristles(spec: Any, robot: RobotSpec) -> None:
    """Friction with a memory (Dahl): a dcmotor without input or back-EMF, which has only its LuGre
    friction. Its state is the bristles' deflection (rad)."""
    for joint in robot.joints:
        bristle = spec.add_actuator(
            name=f"friction of {joint.name}",
            target=joint.name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
        )
        bristle.set_to_dcmotor(
            motorconst=[1, 0],
            resistance=_NO_BACK_EMF,
            lugre=[1.0, 0.0, 1.0, 1.0, 1.0],
            ctrlspec=int(_INPUT.mjINPUT_NONE),
        )


def set_presliding(model: Any, friction: Floats64, reach: Floats64) -> None:
    """Let dry friction (Nm) build up over `reach` (rad) after each reversal, in a model that was
    built with `presliding`. Joints whose reach is 0 have no such friction."""
    here = slice(-len(friction), None)
    friction = np.where(reach > 0, np.maximum(friction, _LEAST_FRICTION), _LEAST_FRICTION)
    model.actuator_biasprm[here, _COULOMB] = friction
    model.actuator_biasprm[here, _STATIC] = friction
    model.actuator_dynprm[here, _STIFFNESS] = friction / np.where(reach > 0, reach, 1.0)


def _add_position_actuators(
    spec: Any, robot: RobotSpec, kp: float | Floats64, kd: float | Floats64
) -> None:
    stiffness = np.broadcast_to(np.asarray(kp, float), len(robot.joints))
    damping = np.broadcast_to(np.asarray(kd, float), len(robot.joints))
    for index, joint in enumerate(robot.joints):
        actuator = _add_actuator(spec, joint)
        actuator.set_to_position(kp=float(stiffness[index]), kv=float(damping[index]))


def _add_actuator(spec: Any, joint: Joint) -> Any:
    return spec.add_actuator(
        name=joint.name,
        target=joint.name,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        forcelimited=True,
        forcerange=[-joint.torque, joint.torque],
    )


def _add_sensors(spec: Any, robot: RobotSpec) -> None:
    """Only what is not in qpos and qvel: acceleration, and the force under each foot."""
    site = mujoco.mjtObj.mjOBJ_SITE
    spec.add_sensor(
        name="accelerometer",
        type=mujoco.mjtSensor.mjSENS_ACCELEROMETER,
        objtype=site,
        objname=IMU_SITE,
    )
    for foot in robot.foot_names:
        geom = spec.geom(foot)
        if geom is None:
            raise Refusal(f"robot '{robot.name}': {robot.model} has no geom '{foot}' for a foot")
        geom.parent.add_site(name=foot, pos=geom.pos, size=[geom.size[0] * 1.1] * 3, group=5)
        spec.add_sensor(name=foot, type=mujoco.mjtSensor.mjSENS_TOUCH, objtype=site, objname=foot)


def shape_body(model: Any, robot: RobotSpec, imperfections: Imperfections) -> None:
    """Give a compiled model the trunk, rotors and bearings of this particular robot."""
    motors, joints = imperfections.motors, robot.joint_count
    if motors.armature is not None:
        model.dof_armature[-joints:] = per_joint(motors.armature, robot, "motors.armature")
    if motors.damping is not None:
        model.dof_damping[-joints:] = per_joint(motors.damping, robot, "motors.damping")
    shape_trunk(model, imperfections.trunk)


def shape_trunk(model: Any, trunk: Trunk) -> None:
    """Apply the trunk's differences in mass, centre of mass and inertia."""
    base = model.body(BASE).id
    model.body_mass[base] += trunk.mass
    model.body_ipos[base] += trunk.com
    model.body_inertia[base] *= trunk.inertia
    mujoco.mj_setConst(model, mujoco.MjData(model))
