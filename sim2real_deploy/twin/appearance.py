"""Shapes and poses of the robot's links, for drawing it, from the twin's own model."""

from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.floors import named_floor
from sim2real_deploy.twin.model import BASE, build_model

Array = npt.NDArray[np.float64]
Colour = tuple[int, int, int]
Kind = Literal["box", "cylinder", "capsule", "ellipsoid"]
VISIBLE_GROUP = 2
_KINDS: dict[int, Kind] = {
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
}


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive shape of a link; `size` as in MuJoCo: half lengths, radii first."""

    kind: Kind
    size: Array
    place: Array  # 4 x 4, in the link's frame
    colour: Colour


@dataclass(frozen=True, slots=True)
class BodyLook:
    name: str
    parts: tuple[Primitive, ...]
    joint: int  # that moves it, in SDK order; -1 for none


class Appearance:
    """`pose` moves the links to joint positions; positions and attitudes are by link."""

    def __init__(self, robot: RobotSpec) -> None:
        self._robot = robot
        self._model = build_model(robot, named_floor("flat", 0), sensors=False)
        self._data = mujoco.MjData(self._model)
        self._joint_at = [self._model.joint(name).qposadr[0] for name in robot.joint_names]
        self._first = self._model.body(BASE).id
        self.links = tuple(self._link(body) for body in range(self._first, self._model.nbody))

    def pose(self, q: Array, quaternion: tuple[float, ...]) -> None:
        data = self._data
        data.qpos[:3], data.qpos[3:7] = 0.0, quaternion
        data.qpos[self._joint_at] = q
        mujoco.mj_kinematics(self._model, data)

    @property
    def positions(self) -> Array:
        return np.asarray(self._data.xpos[self._first :])

    @property
    def attitudes(self) -> Array:
        """w, x, y, z."""
        return np.asarray(self._data.xquat[self._first :])

    @property
    def rotations(self) -> Array:
        return np.asarray(self._data.xmat[self._first :]).reshape(-1, 3, 3)

    def _link(self, body: int) -> BodyLook:
        model, robot = self._model, self._robot
        geoms = np.flatnonzero((model.geom_bodyid == body) & (model.geom_group == VISIBLE_GROUP))
        names = [model.joint(joint).name for joint in np.flatnonzero(model.jnt_bodyid == body)]
        moved = [robot.joint_names.index(n) for n in names if n in robot.joint_names]
        parts = tuple(self._part(int(geom)) for geom in geoms)
        return BodyLook(model.body(body).name, parts, moved[0] if moved else -1)

    def _part(self, geom: int) -> Primitive:
        model = self._model
        material = model.geom_matid[geom]
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
        red, green, blue = (int(channel * 255) for channel in rgba[:3])
        rotation, place = np.empty(9), np.eye(4)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        place[:3, :3], place[:3, 3] = rotation.reshape(3, 3), model.geom_pos[geom]
        kind = _KINDS.get(int(model.geom_type[geom]), "ellipsoid")
        size = model.geom_size[geom].copy()
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE:
            size[:] = size[0]
        return Primitive(kind, size, place, (red, green, blue))
