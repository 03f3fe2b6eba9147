"""Pictures of a gait: a film strip, and a chart of foot contacts."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy.gate.drive import SEEN_EVERY, Drive
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.twin.views import camera_on, draw, renderer

SETTLE_S = 3.0  # before anything is drawn
COMMAND = (0.5, 0.0, 0.0)
PICTURES = 8
STRIP_S = 0.5  # one period of a trot
CONTACT_N = 1.0


def gait_pictures(bundle: Bundle, strip: Path, feet: Path) -> None:
    """Walk in the imperfect twin; draw half a second of it, and two seconds of contacts."""
    twin = TwinRobot(bundle.spec, imperfections=load_imperfections(robot=bundle.spec.name))
    drive = Drive(bundle, twin)
    drive.stand_and_walk()
    rate = bundle.spec.wire.rate_hz
    poses, contacts = [], []
    for tick in range(round((SETTLE_S + 2.0) * rate)):
        drive.walk_at(COMMAND)
        drive.tick()
        if tick >= SETTLE_S * rate:
            poses.append(twin.data.qpos.copy())
            contacts.append(twin.truth.foot_force > CONTACT_N)
    moments = np.linspace(0, STRIP_S * rate, PICTURES, endpoint=False).astype(int)
    _draw_strip(twin, [poses[i] for i in moments], strip)
    _draw_feet(np.array(contacts)[::SEEN_EVERY].T, SEEN_EVERY / rate, list(bundle.spec.legs), feet)


def _draw_strip(twin: TwinRobot, poses: list[npt.NDArray[np.float64]], path: Path) -> None:
    import imageio.v2 as imageio

    with renderer(twin.model, 300, 240) as made:
        row = [
            draw(twin.model, made, pose, camera_on(pose, distance=1.1, azimuth=90, elevation=-8))
            for pose in poses
        ]
    half = len(row) // 2
    picture = np.concatenate([np.concatenate(row[:half], 1), np.concatenate(row[half:], 1)])
    imageio.imwrite(path, picture)


def _draw_feet(contact: npt.NDArray[np.bool_], step: float, names: list[str], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.2), layout="constrained")
    axis = figure.subplots()
    for row, down in enumerate(contact):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], down.astype(int), [0]])))
        bars = [(a * step, (b - a) * step) for a, b in edges.reshape(-1, 2).tolist()]
        axis.broken_barh(bars, (row - 0.4, 0.8), color="tab:blue")
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlabel("s (bars: the foot is on the ground)")
    axis.set_xlim(0, contact.shape[1] * step)
    figure.savefig(path, dpi=90)
