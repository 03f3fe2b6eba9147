"""The page of a training run: it is served, and plays what a robot did for whoever looks."""

import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("viser", reason="the dashboard is not installed")

from sim2real_deploy.dashboard.training_page import TrainingPage
from sim2real_deploy.robots import load_robot

FIGURES = {
    "done": 0.25,
    "steps": 1_500_000,
    "reward": 3.0,
    "error_v": 0.2,
    "error_w": 0.3,
    "width": 0.4,
    "terrain": {"stairs": 1.5},
}


def test_it_is_served_and_plays_steps_only_while_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    robot = load_robot("go2")
    page = TrainingPage(robot, rate_hz=500.0, port=0)
    try:
        shown: list[float] = []
        monkeypatch.setattr(page._view, "show", lambda snapshot: shown.append(snapshot.position[0]))
        with urllib.request.urlopen(page.address, timeout=10) as answer:
            assert answer.status == 200
        page.tell(FIGURES)
        assert "1.50 M" in page._words.content
        assert "level of stairs" in page._words.content
        poses = np.zeros((3, 7 + robot.joint_count), np.float32)
        poses[:, 0], poses[:, 3] = (1.0, 2.0, 3.0), 1.0
        page.show(poses)
        time.sleep(0.5)
        assert shown == []  # nobody looks
        monkeypatch.setattr(page._server, "get_clients", lambda: {1: None})
        page.show(poses)
        give_up = time.monotonic() + 10
        while len(shown) < 3 and time.monotonic() < give_up:
            time.sleep(0.05)
        assert shown == [1.0, 2.0, 3.0]
    finally:
        page.close()
