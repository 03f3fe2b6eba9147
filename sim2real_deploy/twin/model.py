"""The robot's MuJoCo model: its MJCF, a floor, and actuators made from the RobotSpec.

One file describes the body for everyone; what differs between the twin (torques, every contact,
sensors) and training (position actuators, cheap contacts) is chosen here.
"""

from pathlib import Path
from typing import Any, Literal

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.floors import Floor

ASSETS = Path(__file__).parent / "assets"
BASE = "base"  # the trunk's body in every robot's MJCF
IMU_SITE = "imu"

# What meets: full, robot and floor and itself; floor, robot and floor; feet, feet and trunk alone.
Collision = Literal["full", "floor", "feet"]
Actuators = Literal["torque", "position"]
Floats64 = npt.NDArray[np.float64]


def build_spec(
    robot: RobotSpec,
    floor: Floor,
    *,
    timestep: float = 0.002,
    collision: Collision = "full",
    actuators: Actuators = "torque",
    kp: float | Floats64 = 0.0,
    kd: float | Floats64 = 0.0,
    lag: float = 0.0,
    sensors: bool = True,
) -> Any:
    """The model still open to additions, its actuators in SDK order.

    `kp` and `kd` are for position actuators; torque actuators take torques as they are, which
    arrive with a first-order `lag` (s).
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
    spec.visual.quality.shadowsize = 1024  # drawn in software more often than not
    floor.add_to(spec)
    _limit_collisions(spec, robot, collision)
    _add_actuators(spec, robot, actuators, kp, kd)
    if lag:
        for actuator in spec.actuators:
            actuator.dyntype = mujoco.mjtDyn.mjDYN_FILTEREXACT
            actuator.dynprm[0] = lag
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
    for geom in spec.body(BASE).find_all(mujoco.mjtObj.mjOBJ_GEOM):
        if geom.contype:
            geom.contype = 0
            geom.conaffinity = 1 if collision == "floor" or geom.name in kept else 0


def _add_actuators(
    spec: Any, robot: RobotSpec, kind: Actuators, kp: float | Floats64, kd: float | Floats64
) -> None:
    stiffness = np.broadcast_to(np.asarray(kp, float), len(robot.joints))
    damping = np.broadcast_to(np.asarray(kd, float), len(robot.joints))
    for index, joint in enumerate(robot.joints):
        actuator = spec.add_actuator(
            name=joint.name,
            target=joint.name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            forcelimited=True,
            forcerange=[-joint.torque, joint.torque],
        )
        if kind == "position":
            actuator.set_to_position(kp=float(stiffness[index]), kv=float(damping[index]))
        else:
            actuator.set_to_motor()
            actuator.ctrllimited = True
            actuator.ctrlrange = [-joint.torque, joint.torque]


def _add_sensors(spec: Any, robot: RobotSpec) -> None:
    """Only what the state itself does not hold: acceleration, and the force under each foot."""
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
