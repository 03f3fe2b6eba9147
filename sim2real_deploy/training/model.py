"""The twin's model made cheap for training, on flat ground or a tile of terrain.

Every tile compiles to a model of the same sizes, so that one batch can hold them all.
"""

from typing import Any

import mujoco
import numpy as np

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import TerrainLevel, TrainingConfig
from sim2real_deploy.twin.floors import FLOOR_GEOM, Floor, Heights
from sim2real_deploy.twin.model import BASE, build_spec

GRID = 0.05  # m between two points of a tile


def tile_heights(level: TerrainLevel, size: float, seed: int) -> Heights:
    """Heights of a square tile round the origin, rows along y."""
    axis = np.linspace(-size / 2, size / 2, int(size / GRID) + 1)
    x, y = np.meshgrid(axis, axis)
    height = np.zeros_like(x)
    if level.kind in ("rough", "mixed"):
        rough = Floor(kind="rough", roughness=level.height, seed=seed, size=size / 2)
        height = height + rough.height(x, y)
    if level.kind in ("stairs", "mixed"):
        height = height + Floor(kind="stairs", rise=level.height, run=0.4).height(x, y)
    if level.kind == "slope":
        height = height + Floor(kind="slope", slope=float(np.arctan(level.height))).height(x, y)
    return height


def spawn_height(level: TerrainLevel, size: float, seed: int) -> float:
    """The highest ground near the origin, where robots start."""
    heights = tile_heights(level, size, seed)
    middle, near = len(heights) // 2, round(0.3 / GRID)
    return float(heights[middle - near : middle + near, middle - near : middle + near].max())


def training_model(
    robot: RobotSpec, config: TrainingConfig, level: TerrainLevel, seed: int = 0
) -> Any:
    spec = build_spec(
        robot,
        Floor(),
        timestep=config.control.timestep,
        collision="feet",
        actuators="position",
        kp=config.control.kp,
        kd=config.control.kd,
        sensors=False,
    )
    spec.option.iterations, spec.option.ls_iterations = 4, 8
    for geom in spec.body(BASE).find_all(mujoco.mjtObj.mjOBJ_GEOM):
        if not (geom.contype or geom.conaffinity):
            spec.delete(geom)
    heights = tile_heights(level, config.terrain.size, seed)
    low, high = float(heights.min()), float(heights.max())
    spec.add_hfield(
        name=FLOOR_GEOM,
        nrow=len(heights),
        ncol=len(heights),
        size=[config.terrain.size / 2, config.terrain.size / 2, max(high - low, 1e-3), 0.1],
        userdata=((heights - low) / max(high - low, 1e-3)).ravel(),
    )
    if level.kind != "flat":
        floor = spec.geom(FLOOR_GEOM)
        floor.type = mujoco.mjtGeom.mjGEOM_HFIELD
        floor.hfieldname = FLOOR_GEOM
        floor.pos = [0, 0, low]
    _add_sensors(spec, robot)
    return spec.compile()


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
