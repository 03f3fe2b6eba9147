"""A page that shows one robot of a training run while it learns."""

import threading
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import numpy.typing as npt
import viser

from sim2real_deploy.dashboard.page import html_table, strangers_refused
from sim2real_deploy.dashboard.robot_view import RobotView
from sim2real_deploy.dashboard.snapshot import Snapshot
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec

HOST = "127.0.0.1"
WAIT_S = 0.2  # between two looks for new steps


class TrainingPage:
    """`show` takes what one robot did in an iteration; a thread plays it back in real time."""

    def __init__(self, robot: RobotSpec, rate_hz: float, port: int) -> None:
        banner = redirect_stdout(StringIO())
        try:
            with banner, strangers_refused(HOST):
                server = viser.ViserServer(HOST, port, label=f"training {robot.title}")
        except OSError as error:
            raise Refusal(f"--watch: port {port}: {error.strerror}") from None
        self._server = server
        self.address = f"http://{HOST}:{server.get_port()}"
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._view = RobotView(server, robot)
        self._words = server.gui.add_html("")
        self._period = 1 / rate_hz
        self._poses: npt.NDArray[np.float32] | None = None  # what is to be played next
        self._closing = threading.Event()
        self._player = threading.Thread(target=self._play, daemon=True)
        self._player.start()

    def show(self, poses: npt.NDArray[np.float32]) -> None:
        """Steps x coordinates: place, attitude, joints."""
        self._poses = poses

    def tell(self, figures: Mapping[str, Any]) -> None:
        rows = [
            ("done", f"{figures['done']:.0%}"),
            ("control steps", f"{figures['steps'] / 1e6:.2f} M"),
            ("reward", f"{figures['reward']:.2f}"),
            ("velocity error", f"{figures['error_v']:.3f} m/s"),
            ("turning error", f"{figures['error_w']:.3f} rad/s"),
            ("randomisation", f"{figures['width']:.0%}"),
            *((f"level of {name}", f"{level:.1f}") for name, level in figures["terrain"].items()),
        ]
        self._words.content = html_table([(name, words, "") for name, words in rows])

    def close(self) -> None:
        self._closing.set()
        self._player.join()
        self._server.stop()

    def _play(self) -> None:
        while not self._closing.is_set():
            poses, self._poses = self._poses, None
            if poses is None or not self._server.get_clients():
                self._closing.wait(WAIT_S)
                continue
            begun = time.monotonic()
            for step, pose in enumerate(poses):
                self._view.show(_snapshot(pose))
                self._closing.wait(max(0.0, begun + (step + 1) * self._period - time.monotonic()))


def _snapshot(pose: npt.NDArray[np.float32]) -> Snapshot:
    x, y, z, *turned = pose[:7].tolist()
    w, i, j, k = turned
    return Snapshot(q=pose[7:], position=(x, y, z), quaternion=(w, i, j, k))
