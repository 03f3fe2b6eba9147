"""A floor as MuJoCo geometry, with light and sky."""

from typing import Any

import mujoco
import numpy as np

from sim2real_deploy.twin.floors import FLOOR_GEOM, Floor

_CONTACT = {"contype": 1, "conaffinity": 1, "condim": 3, "priority": 1, "material": FLOOR_GEOM}
_ICY = 0.4  # friction below which a floor is drawn as ice


def add_floor(spec: Any, floor: Floor) -> None:
    """Add the floor's geometry to an MjSpec."""
    _add_looks(spec, icy=floor.friction < _ICY)
    contact = {**_CONTACT, "friction": [floor.friction, 0.02, 0.01]}
    world = spec.worldbody
    if floor.kind == "rough":
        _add_rough(spec, floor, contact)
        return
    world.add_geom(
        name=FLOOR_GEOM,
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[0, 0, 0.5],
        pos=[0, 0, floor.plane],
        quat=floor.attitude,
        **contact,
    )
    for number, box in enumerate(floor.boxes):
        faces = np.array([box.x, box.y, box.z])
        world.add_geom(
            name=f"{FLOOR_GEOM}_box_{number}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=faces.mean(1),
            size=np.ptp(faces, 1) / 2,
            **contact,
        )


def _add_rough(spec: Any, floor: Floor, contact: dict[str, Any]) -> None:
    low, high = float(floor.grid.min()), float(floor.grid.max())
    spec.add_hfield(
        name=FLOOR_GEOM,
        nrow=len(floor.grid),
        ncol=len(floor.grid),
        size=[floor.size, floor.size, high - low, 0.1],
        userdata=((floor.grid - low) / (high - low)).ravel(),
    )
    spec.worldbody.add_geom(
        name=FLOOR_GEOM,
        type=mujoco.mjtGeom.mjGEOM_HFIELD,
        hfieldname=FLOOR_GEOM,
        pos=[0, 0, low],
        **contact,
    )


def _add_looks(spec: Any, icy: bool) -> None:
    """Daylight, a sky, and tiles of half a metre to judge distance by."""
    spec.visual.headlight.ambient[:] = 0.35
    spec.visual.headlight.diffuse[:] = 0.35
    spec.body("base").add_light(
        pos=[-0.5, -0.8, 3],
        dir=[0.15, 0.25, -1],
        diffuse=[0.55, 0.55, 0.55],
        mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM,  # so that the robot keeps its shadow
        cutoff=80,
    )
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.72, 0.82, 0.92],
        rgb2=[0.95, 0.96, 0.97],
        width=256,
        height=256,
    )
    spec.add_texture(
        name=FLOOR_GEOM,
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.62, 0.64, 0.66],
        rgb2=[0.54, 0.56, 0.58],
        width=256,
        height=256,
    )
    material = spec.add_material(name=FLOOR_GEOM, texuniform=True, texrepeat=[1, 1], specular=0.1)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = FLOOR_GEOM
    if icy:
        material.rgba, material.reflectance = [0.75, 0.92, 1.0, 1.0], 0.3
