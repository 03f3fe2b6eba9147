"""Looking at the twin: MuJoCo's viewer with a display, video and pictures without one.

Poses are kept while the robot runs and rendered afterwards, because software rendering is slower
than real time.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install

Pose = npt.NDArray[np.float64]  # qpos
Picture = npt.NDArray[np.uint8]

FPS = 30
WIDTH, HEIGHT = 960, 540
_MAX_GEOMS = 2000
_VIEWER_PERIOD = 1 / 60
_NO_DRAWING = (
    "cannot draw here: {error}; without a display, install software rendering "
    "(`apt-get install libosmesa6`, used with MUJOCO_GL=osmesa) or use a GPU with MUJOCO_GL=egl"
)


@contextmanager
def renderer(model: Any, width: int = WIDTH, height: int = HEIGHT) -> Iterator[Any]:
    """MuJoCo's off-screen renderer; a Refusal tells what to install."""
    try:
        made = mujoco.Renderer(model, height, width, max_geom=_MAX_GEOMS)
    except Exception as error:  # each back end raises its own type
        raise Refusal(_NO_DRAWING.format(error=error)) from None
    try:
        yield made
    finally:
        made.close()


def draw(model: Any, made: Any, pose: Pose, camera: Any) -> Picture:
    """One picture of a pose. Collision geometry and sites are not shown."""
    data = mujoco.MjData(model)
    data.qpos[:] = pose
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
    options = mujoco.MjvOption()
    options.geomgroup[3] = 0
    made.update_scene(data, camera, options)
    return np.asarray(made.render().copy())


def camera_on(
    pose: Pose, distance: float = 1.4, azimuth: float = 130.0, elevation: float = -18.0
) -> Any:
    """A camera that looks at the trunk from the front left."""
    camera = mujoco.MjvCamera()
    camera.lookat[:] = pose[:3] - (0, 0, 0.05)
    camera.distance, camera.azimuth, camera.elevation = distance, azimuth, elevation
    return camera


def check_drawing(model: Any) -> None:
    """Refuse before the run that is to be filmed, not after it."""
    with renderer(model, 64, 64):
        pass


def write_video(
    path: Path,
    model: Any,
    poses: Sequence[Pose],
    fps: float = FPS,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> None:
    try:
        import imageio.v2 as imageio
    except ImportError:
        raise Refusal(f"video needs imageio and ffmpeg: {to_install('sim')}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    video: Any = imageio.get_writer(path, fps=fps, macro_block_size=4)
    with renderer(model, *size) as made, video:
        for pose in poses:
            video.append_data(draw(model, made, pose, camera_on(pose, distance=1.8)))


def watch(model: Any, pose: Callable[[], Pose], wanted: Callable[[], bool]) -> None:
    """Show the robot in MuJoCo's viewer while `wanted` and while the window is open."""
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise Refusal("--view: there is no display here; use --video FILE instead")
    import mujoco.viewer

    data = mujoco.MjData(model)
    with mujoco.viewer.launch_passive(model, data, show_left_ui=False) as viewer:
        viewer.opt.geomgroup[3] = 0
        while viewer.is_running() and wanted():
            data.qpos[:] = pose()
            mujoco.mj_forward(model, data)
            viewer.sync()
            time.sleep(_VIEWER_PERIOD)
