"""The twin's model made cheap for training, on flat ground or a tile of terrain.

Every tile compiles to a model of the same sizes, so that one batch can hold them all.
"""

from typing import Any

import mujoco
import numpy as np

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import Motors, TrainingConfig
from sim2real_deploy.training.terrain import BOXES, Tile
from sim2real_deploy.twin.floors import FLOOR_GEOM, Box, Floor
from sim2real_deploy.twin.model import BASE, build_spec

FAR_BELOW = -20.0  # m: where boxes lie that a tile does not need


def training_model(robot: RobotSpec, config: TrainingConfig, tile: Tile) -> Any:
    spec = build_spec(
        robot,
        Floor(),
        timestep=config.control.timestep,
        collision="shanks",
        actuators="position",
        kp=config.control.kp,
        kd=config.control.kd,
        sensors=False,
    )
    spec.option.iterations, spec.option.ls_iterations = 4, 8
    for geom in spec.body(BASE).find_all(mujoco.mjtObj.mjOBJ_GEOM):
        if not (geom.contype or geom.conaffinity):
            spec.delete(geom)
    _set_motors(spec, robot, config.motors)
    _add_ground(spec, tile)
    _add_sensors(spec, robot)
    return spec.compile()


def _set_motors(spec: Any, robot: RobotSpec, motors: Motors) -> None:
    names = robot.joint_names
    columns = (
        motors.by_joint(v, names) for v in (motors.friction, motors.damping, motors.armature)
    )
    for name, friction, damping, armature in zip(names, *columns, strict=True):
        joint = spec.joint(name)
        joint.frictionloss, joint.armature = friction, armature
        joint.damping = [damping, 0, 0]  # it could grow with speed, too


def _add_ground(spec: Any, tile: Tile) -> None:
    floor = spec.geom(FLOOR_GEOM)
    floor.pos = [0, 0, tile.plane]
    floor.quat = [np.cos(tile.slope / 2), 0, -np.sin(tile.slope / 2), 0]
    heights = np.zeros((2, 2)) if tile.rough is None else tile.rough
    low, high = float(heights.min()), float(heights.max())
    spec.add_hfield(
        name=FLOOR_GEOM,
        nrow=len(heights),
        ncol=len(heights),
        size=[tile.size / 2, tile.size / 2, max(high - low, 1e-3), 0.1],
        userdata=((heights - low) / max(high - low, 1e-3)).ravel(),
    )
    if tile.rough is not None:
        floor.type = mujoco.mjtGeom.mjGEOM_HFIELD
        floor.hfieldname = FLOOR_GEOM
        floor.pos = [0, 0, low]
    unused = Box((-0.1, 0.1), (-0.1, 0.1), (FAR_BELOW - 0.2, FAR_BELOW))
    for number in range(BOXES):
        box = tile.boxes[number] if number < len(tile.boxes) else unused
        sides = np.array([box.x, box.y, box.z])
        spec.worldbody.add_geom(
            name=f"{FLOOR_GEOM}_{number}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=sides.mean(1),
            size=np.ptp(sides, 1) / 2,
            contype=floor.contype,
            conaffinity=floor.conaffinity,
            condim=floor.condim,
            priority=floor.priority,
            friction=floor.friction,
        )


def _add_sensors(spec: Any, robot: RobotSpec) -> None:
    """Per leg: force, place and speed of the foot, and place of the knee."""
    kinds, objects = mujoco.mjtSensor, mujoco.mjtObj
    for leg, part in robot.legs.items():
        foot = spec.geom(part.foot)
        foot.parent.add_site(name=part.foot, pos=foot.pos, size=[foot.size[0] * 1.1] * 3)
        for kind, name in (
            (kinds.mjSENS_TOUCH, "touch"),
            (kinds.mjSENS_FRAMEPOS, "position"),
            (kinds.mjSENS_FRAMELINVEL, "velocity"),
        ):
            spec.add_sensor(
                name=f"{leg}_{name}", type=kind, objtype=objects.mjOBJ_SITE, objname=part.foot
            )
        spec.add_sensor(
            name=f"{leg}_knee",
            type=kinds.mjSENS_FRAMEPOS,
            objtype=objects.mjOBJ_XBODY,
            objname=foot.parent.name,
        )
