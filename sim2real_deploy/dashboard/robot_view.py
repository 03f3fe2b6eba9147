"""The robot in 3D: the twin's model as meshes, posed by joints, coloured by temperature."""

from typing import Any

import numpy as np
import numpy.typing as npt
import trimesh
import viser

from sim2real_deploy.dashboard.snapshot import Snapshot
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.appearance import Appearance, Array, BodyLook, Colour, Primitive

COOL_MARGIN = 30.0  # degrees below the warning at which a joint begins to change colour
WARM, HOT = np.array((255.0, 190.0, 0.0)), np.array((230.0, 0.0, 0.0))
CELL, CELLS = 0.5, 12  # m; number in each direction


def heat_colour(natural: Array, temperature: float, robot: RobotSpec) -> Array:
    """The link's own colour when cool, amber at the warning, red at the stop."""
    tiers = robot.temperature
    steps = (tiers.warn - COOL_MARGIN, tiers.warn, tiers.stop)
    colours = np.stack((natural, WARM, HOT), axis=1)
    return np.array([np.interp(temperature, steps, channel) for channel in colours])


class RobotView:
    """The robot stays centred and the floor moves, so that it never leaves the view."""

    def __init__(self, server: viser.ViserServer, robot: RobotSpec) -> None:
        self._server = server
        self._robot = robot
        self._looks = Appearance(robot)
        self._frames = [
            server.scene.add_frame(f"/robot/{link.name}", show_axes=False)
            for link in self._looks.links
        ]
        self._points: dict[int, Array] = {}  # by link
        self._parts: list[tuple[Any, Array, int]] = []  # mesh, its own colour, its joint or -1
        self._shown_heat: list[int | None] = []
        for index, link in enumerate(self._looks.links):
            self._add_link(index, link)
        self._floor = server.scene.add_line_segments(
            "/floor", _floor_lines(), (205, 205, 205), thickness=0.006
        )
        # Plain lights: without a GPU an environment map costs 20 times more.
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
        looks = self._looks
        looks.pose(q, quaternion)
        lowest = min(
            float((points @ looks.rotations[index][2]).min() + looks.positions[index][2])
            for index, points in self._points.items()
        )
        for frame, position, attitude in zip(
            self._frames, looks.positions, looks.attitudes, strict=True
        ):
            frame.position = position - (0.0, 0.0, lowest)
            frame.wxyz = attitude
        x, y = place
        self._floor.position = (-x % CELL, -y % CELL, 0.0)

    def _colour(self, temperatures: npt.NDArray[np.int_]) -> None:
        for index, (mesh, natural, joint) in enumerate(self._parts):
            if joint >= 0 and self._shown_heat[index] != temperatures[joint]:
                self._shown_heat[index] = int(temperatures[joint])
                heat = heat_colour(natural, float(temperatures[joint]), self._robot)
                mesh.color = tuple(int(channel) for channel in heat)

    def _add_link(self, index: int, link: BodyLook) -> None:
        """Add one mesh per colour of the link, to save draw calls."""
        shapes: dict[Colour, list[Any]] = {}
        for part in link.parts:
            shapes.setdefault(part.colour, []).append(_shape(part))
        if not shapes:
            return
        for colour, pieces in shapes.items():
            whole: Any = trimesh.util.concatenate(pieces)
            name = f"/robot/{link.name}/{len(self._parts)}"
            mesh = self._server.scene.add_mesh_simple(
                name,
                whole.vertices,
                whole.faces,
                color=colour,
                cast_shadow=False,
                receive_shadow=False,
            )
            self._parts.append((mesh, np.array(colour, float), link.joint))
            self._shown_heat.append(None)
        self._points[index] = np.concatenate([p.vertices for many in shapes.values() for p in many])


def _floor_lines() -> Array:
    """A grid of segments, far cheaper to draw than a shaded plane."""
    edge = CELL * CELLS
    across = np.arange(-CELLS, CELLS + 1) * CELL
    ends = np.array([[(c, -edge, 0.0), (c, edge, 0.0)] for c in across])
    return np.concatenate((ends, ends[:, :, (1, 0, 2)]))


def _shape(part: Primitive) -> Any:
    """A primitive as triangles, in its link's frame."""
    shape: Any
    size = part.size
    if part.kind == "box":
        shape = trimesh.creation.box(2 * size)
    elif part.kind == "cylinder":
        shape = trimesh.creation.cylinder(size[0], 2 * size[1], sections=24)
    elif part.kind == "capsule":
        shape = trimesh.creation.capsule(2 * size[1], size[0], count=[16, 16])
    else:
        shape = trimesh.creation.icosphere(subdivisions=2)
        shape.apply_scale(size)
    shape.apply_transform(part.place)
    return shape
