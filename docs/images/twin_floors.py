"""Draws twin_floors.png: the twin standing on each floor. Run it beside this file's folder."""

from pathlib import Path

from sim2real_deploy.twin.headless import choose_renderer

choose_renderer()

import imageio.v2 as imageio  # noqa: E402
import numpy as np  # noqa: E402

from sim2real_deploy.robots import JointCommand, load_robot  # noqa: E402
from sim2real_deploy.twin import views  # noqa: E402
from sim2real_deploy.twin.floors import FLOORS  # noqa: E402
from sim2real_deploy.twin.robot import TwinRobot  # noqa: E402
from sim2real_deploy.wire.encoders import CommandEncoder  # noqa: E402

ROBOT = load_robot("go2")
WIDTH, HEIGHT = 420, 300
STAND_UP = 1000  # wire periods


def stand(twin: TwinRobot) -> None:
    encoder, zero = CommandEncoder(ROBOT), np.zeros(ROBOT.joint_count, np.float32)
    for step in range(STAND_UP):
        done = np.float32(min(1.0, 2 * step / STAND_UP))
        pose = ROBOT.sit_pose + done * (ROBOT.stand_pose - ROBOT.sit_pose)
        twin.advance(encoder.encode(JointCommand(pose, zero, ROBOT.kp, ROBOT.kd, zero)))


def picture(floor: str | None) -> np.ndarray:
    """The twin on a floor; without one, as it is found."""
    twin = TwinRobot(ROBOT, FLOORS[floor or "flat"])
    if floor is not None:
        stand(twin)
    pose = twin.data.qpos.copy()
    with views.renderer(twin.model, WIDTH, HEIGHT) as made:
        camera = views.camera_on(pose, distance=1.5, azimuth=125 if floor != "stairs" else 60)
        return views.draw(twin.model, made, pose, camera)


rows = [[None, "flat", "slippery"], ["rough", "slope", "stairs"]]
image = np.vstack([np.hstack([picture(floor) for floor in row]) for row in rows])
imageio.imwrite(Path(__file__).with_suffix(".png"), image)
