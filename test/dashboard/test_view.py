"""The page's own parts, without a browser: geometry, colours, who may command."""

import time

import numpy as np
import pytest

pytest.importorskip("viser", reason="the dashboard is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

import viser
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.dashboard.page import Page
from sim2real_deploy.dashboard.plots import _latency_ms
from sim2real_deploy.dashboard.robot_view import heat_colour
from sim2real_deploy.dashboard.snapshot import Snapshot
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.appearance import Appearance

ROBOT = load_robot("go2")


class NobodyHere:
    def estop(self, answered):
        raise AssertionError("nobody pressed")

    ask = drive = estop


@pytest.fixture(scope="module")
def page():
    page = Page(ROBOT, "tether", load_stage("tether").velocity, NobodyHere(), "127.0.0.1", 8200, "")
    yield page
    page.close()


def heights(page: Page) -> dict[str, float]:
    view = page._view
    return {
        link.name: float(frame.position[2])
        for link, frame in zip(view._looks.links, view._frames, strict=True)
    }


def test_the_robot_stands_on_the_floor_in_every_pose(page):
    page.show(Snapshot(q=ROBOT.stand_pose))
    standing = heights(page)["base"]
    page.show(Snapshot(q=ROBOT.sit_pose))
    sitting = heights(page)["base"]
    assert standing == pytest.approx(ROBOT.base_height, abs=0.05)
    assert 0.03 < sitting < standing - 0.1


def test_on_its_back_the_trunk_is_below_the_feet(page):
    page.show(Snapshot(q=ROBOT.stand_pose, quaternion=(0.0, 1.0, 0.0, 0.0)))
    assert heights(page)["base"] < min(heights(page)[f"{leg}_calf"] for leg in ROBOT.legs)


def test_walking_slides_the_floor_and_not_the_robot(page):
    page.show(Snapshot(q=ROBOT.stand_pose, position=(0.0, 0.0, 0.3)))
    before = np.array(page._view._floor.position)
    page.show(Snapshot(q=ROBOT.stand_pose, position=(0.1, 0.0, 0.3)))
    moved = np.array(page._view._floor.position) - before
    assert moved[0] % 0.5 == pytest.approx(0.4, abs=1e-6)  # 0.1 m back, modulo the cell


def test_a_joint_turns_from_its_own_colour_over_amber_to_red():
    own, tiers = np.array((210.0, 214.0, 219.0)), ROBOT.temperature
    assert heat_colour(own, 20.0, ROBOT) == pytest.approx(own)
    assert heat_colour(own, tiers.warn, ROBOT) == pytest.approx((255, 190, 0))
    assert heat_colour(own, tiers.stop + 10, ROBOT) == pytest.approx((230, 0, 0))


def test_only_the_hot_joints_link_is_coloured(page):
    hot = np.full(ROBOT.joint_count, 30.0, np.float32)
    hot[0] = ROBOT.temperature.stop
    page.show(Snapshot(q=ROBOT.stand_pose, temperature=hot))
    red = {joint for mesh, _, joint in page._view._parts if tuple(mesh.color) == (230, 0, 0)}
    assert red == {0}


def test_what_was_never_heard_is_said_to_be_missing(page):
    page.show_words(Snapshot())
    assert "not heard yet" in page._status.content
    assert "no supervisor" in page._status.content
    assert "silent" in page._status.content


def test_words_from_the_robot_are_no_html(page):
    page.show_words(Snapshot(safety="<script>alert(1)</script>", troubles={"<b>": "<i>"}))
    assert "<script>" not in page._status.content + page._health.content
    assert "&lt;script&gt;" in page._status.content


def test_plots_keep_half_a_minute(page):
    plot = page._plots._velocity
    for second in range(100):
        plot.add(time.monotonic() + second, (0.0,) * 6)
    assert 29 <= len(plot.rows) <= 32


def test_the_latency_is_read_as_control_words_it():
    assert _latency_ms("210 / 830 / 1900 us") == (0.21, 0.83)
    assert np.isnan(_latency_ms("")).all()


def test_the_links_keep_their_shapes():
    kinds = {part.kind for link in Appearance(load_robot("go2")).links for part in link.parts}
    assert kinds == {"box", "cylinder", "capsule", "ellipsoid"}


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        (None, True),
        ("http://127.0.0.1:8200", True),
        ("http://localhost:9000", True),
        ("http://elsewhere.example", False),
        ("http://127.0.0.1.elsewhere.example", False),
    ],
)
def test_a_page_of_another_site_is_not_listened_to(
    page: Page, origin: str | None, welcome: bool
) -> None:
    address = f"ws://127.0.0.1:{page.port}"
    protocol = [f"viser-v{viser.__version__}"]
    if welcome:
        with connect(address, origin=origin, subprotocols=protocol) as line:
            assert line.recv(timeout=10)
    else:
        with pytest.raises(InvalidStatus, match="403"):
            connect(address, origin=origin, subprotocols=protocol)
