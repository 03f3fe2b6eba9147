"""The robot in 3D: the twin's own model as meshes, posed by the joints, coloured by their heat."""

from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
import trimesh
import viser

from sim2real_deploy.dashboard.snapshot import Snapshot
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.floors import named_floor
from sim2real_deploy.twin.model import BASE, build_model

Array = npt.NDArray[np.float64]
Colour = tuple[int, int, int]
VISIBLE_GROUP = 2
COOL_MARGIN = 30.0  # degrees below the warning at which a joint begins to change colour
WARM, HOT = np.array((255.0, 190.0, 0.0)), np.array((230.0, 0.0, 0.0))
CELL, CELLS = 0.5, 12  # m, and how many of them either way


def heat_colour(natural: Array, temperature: float, robot: RobotSpec) -> Array:
    """From its own colour when cool, over amber at the warning, to red at the stop."""
    tiers = robot.temperature
    steps = (tiers.warn - COOL_MARGIN, tiers.warn, tiers.stop)
    colours = np.stack((natural, WARM, HOT), axis=1)
    return np.array([np.interp(temperature, steps, channel) for channel in colours])


class RobotView:
    """The robot stays in the middle and the floor slides by, so that it is never out of sight."""

    def __init__(self, server: viser.ViserServer, robot: RobotSpec) -> None:
        self._server = server
        self._robot = robot
        self._model = build_model(robot, named_floor("flat", 0), sensors=False)
        self._data = mujoco.MjData(self._model)
        self._joint_at = [self._model.joint(name).qposadr[0] for name in robot.joint_names]
        self._bodies = {
            body: server.scene.add_frame(f"/robot/{body}", show_axes=False)
            for body in range(self._model.body(BASE).id, self._model.nbody)
        }
        self._points: dict[int, Array] = {}
        self._parts: list[tuple[Any, Array, int]] = []  # mesh, its own colour, its joint or -1
        self._shown_heat: list[int | None] = []
        for body in self._bodies:
            self._add_body(body)
        self._floor = server.scene.add_line_segments(
            "/floor", _floor_lines(), (205, 205, 205), thickness=0.006
        )
        # Plain lights: an environment map costs a machine without a graphics card 20 times more.
        server.scene.configure_environment_map(None)
        server.scene.configure_default_lights(cast_shadow=False)
        server.scene.add_light_hemisphere("/sky", ground_color=(200, 200, 205), intensity=1.6)
        server.initial_camera.position = (1.1, -1.3, 0.75)
        server.initial_camera.look_at = (0.0, 0.0, 0.22)
        self._pose(np.array(robot.sit_pose, np.float64), (1.0, 0.0, 0.0, 0.0), (0.0, 0.0))

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.q is None:
            return
        with self._server.atomic():
            self._pose(snapshot.q.astype(np.float64), snapshot.quaternion, snapshot.position[:2])
            if snapshot.temperature is not None:
                self._colour(snapshot.temperature.astype(int))

    def _pose(self, q: Array, quaternion: tuple[float, ...], place: tuple[float, ...]) -> None:
        data = self._data
        data.qpos[:3], data.qpos[3:7] = 0.0, quaternion
        data.qpos[self._joint_at] = q
        mujoco.mj_kinematics(self._model, data)
        lowest = min(
            float((points @ data.xmat[body].reshape(3, 3)[2]).min() + data.xpos[body][2])
            for body, points in self._points.items()
        )
        for body, frame in self._bodies.items():
            frame.position = data.xpos[body] - (0.0, 0.0, lowest)
            frame.wxyz = data.xquat[body]
        x, y = place
        self._floor.position = (-x % CELL, -y % CELL, 0.0)

    def _colour(self, temperatures: npt.NDArray[np.int_]) -> None:
        for index, (mesh, natural, joint) in enumerate(self._parts):
            if joint >= 0 and self._shown_heat[index] != temperatures[joint]:
                self._shown_heat[index] = int(temperatures[joint])
                heat = heat_colour(natural, float(temperatures[joint]), self._robot)
                mesh.color = tuple(int(channel) for channel in heat)

    def _add_body(self, body: int) -> None:
        """One mesh per colour of the body, so that a link is few draws."""
        model = self._model
        shapes: dict[Colour, list[Any]] = {}
        for geom in map(int, np.flatnonzero(model.geom_bodyid == body)):
            if model.geom_group[geom] == VISIBLE_GROUP:
                shapes.setdefault(_colour_of(model, geom), []).append(_shape(model, geom))
        if not shapes:
            return
        joint = self._joint_of(body)
        for colour, pieces in shapes.items():
            whole: Any = trimesh.util.concatenate(pieces)
            name = f"/robot/{body}/{len(self._parts)}"
            mesh = self._server.scene.add_mesh_simple(
                name,
                whole.vertices,
                whole.faces,
                color=colour,
                cast_shadow=False,
                receive_shadow=False,
            )
            self._parts.append((mesh, np.array(colour, float), joint))
            self._shown_heat.append(None)
        self._points[body] = np.concatenate([p.vertices for many in shapes.values() for p in many])

    def _joint_of(self, body: int) -> int:
        names = [self._model.joint(j).name for j in np.flatnonzero(self._model.jnt_bodyid == body)]
        known = [self._robot.joint_names.index(n) for n in names if n in self._robot.joint_names]
        return known[0] if known else -1


def _floor_lines() -> Array:
    """A grid as segments: far cheaper to draw than a shaded plane."""
    edge = CELL * CELLS
    across = np.arange(-CELLS, CELLS + 1) * CELL
    ends = np.array([[(c, -edge, 0.0), (c, edge, 0.0)] for c in across])
    return np.concatenate((ends, ends[:, :, (1, 0, 2)]))


def _colour_of(model: Any, geom: int) -> Colour:
    material = model.geom_matid[geom]
    rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
    red, green, blue = (int(channel * 255) for channel in rgba[:3])
    return red, green, blue


def _shape(model: Any, geom: int) -> Any:
    """A primitive of the model as triangles, in its body's frame."""
    shape: Any
    kind, size = model.geom_type[geom], model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        shape = trimesh.creation.box(2 * size)
    elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        shape = trimesh.creation.cylinder(size[0], 2 * size[1], sections=24)
    elif kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        shape = trimesh.creation.capsule(2 * size[1], size[0], count=[16, 16])
    else:
        shape = trimesh.creation.icosphere(subdivisions=2)
        radii = size if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID else np.full(3, size[0])
        shape.apply_scale(radii)
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
    place = np.eye(4)
    place[:3, :3], place[:3, 3] = rotation.reshape(3, 3), model.geom_pos[geom]
    shape.apply_transform(place)
    return shape
