"""The twin's model made cheap for training, on flat ground or a tile of terrain.

Every tile compiles to a model of the same sizes, so that one batch can hold them all.
"""

from typing import Any

import mujoco
import numpy as np

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.nominal import Nominal
from sim2real_deploy.training.terrain import Tile
from sim2real_deploy.twin.floors import FLOOR_GEOM, Box, Floor
from sim2real_deploy.twin.model import BASE, build_spec, shape_trunk

FAR_BELOW = -20.0  # m: where boxes lie that a tile does not need


def training_model(
    robot: RobotSpec, config: TrainingConfig, nominal: Nominal, tile: Tile, boxes: int
) -> Any:
    """`boxes` is the number for all tiles: models of one batch must have the same sizes."""
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
    _set_joints(spec, robot, nominal)
    _add_ground(spec, tile, boxes)
    _add_sensors(spec, robot)
    model = spec.compile()
    shape_trunk(model, nominal.trunk)
    return model


def _set_joints(spec: Any, robot: RobotSpec, nominal: Nominal) -> None:
    for number, name in enumerate(robot.joint_names):
        joint = spec.joint(name)
        joint.frictionloss = nominal.friction[number]
        if nominal.damping is not None:
            joint.damping = [nominal.damping[number], 0, 0]  # it could grow with speed, too
        if nominal.armature is not None:
            joint.armature = nominal.armature[number]


def _add_ground(spec: Any, tile: Tile, boxes: int) -> None:
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
    for number in range(boxes):
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
