"""A real browser on a running stack: sees the robot move, and its STOP reaches the wire."""

import shutil
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("viser", reason="the dashboard is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")
pytest.importorskip("imageio", reason="imageio is not installed")

import imageio.v3 as imageio
from playwright.sync_api import sync_playwright

from sim2real_deploy.faults.wire_watch import WireWatch
from sim2real_deploy.robots import load_robot
from sim2real_deploy.wire.domains import free_domain
from support.stack_support import Operator, stack

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
    pytest.mark.timeout(600),
]
SOFTWARE_RENDERING = (
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
)
PATIENCE_MS = 120_000
CLICK_TIME = "addEventListener('click', () => window.clicked = Date.now(), true)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium draws in software: at ordinary priority it would starve the robot beside it."""
    humble = tmp_path_factory.mktemp("browser") / "chromium"
    humble.write_text(
        f'#!/bin/sh\necho 19 > /proc/$$/autogroup\nexec nice -n 19 "{CHROMIUM}" "$@"\n'
    )
    humble.chmod(0o755)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=humble, args=SOFTWARE_RENDERING)
        yield browser
        browser.close()


@pytest.fixture
def domain():
    return free_domain()


@pytest.fixture
def running(domain, tmp_path):
    arguments = ("go2_walk", f"domain:={domain}", "record:=false", "dashboard:=true")
    with stack(domain, tmp_path, *arguments) as running:
        running.url = running.wait_for(r"open (http://\S+)")
        yield running


@pytest.fixture
def operator(domain, running):
    operator = Operator(domain)
    yield operator
    operator.close()


def open_page(browser, url):
    page = browser.new_page(viewport={"width": 800, "height": 500})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    page.get_by_role("button", name="STOP").wait_for()
    return page


def picture(page):
    clip = {"x": 0, "y": 150, "width": 390, "height": 250}
    return imageio.imread(page.screenshot(clip=clip)).astype(int)


def test_the_robot_moves_and_stop_damps_it(browser, running, operator, domain, record_property):
    page = open_page(browser, running.url)
    page.get_by_text("passive").first.wait_for()
    lying = picture(page)
    operator.reach("go2_driver/stand", "standing")
    page.get_by_text("standing").first.wait_for()
    standing = picture(page)
    changed = np.abs(standing - lying).max(axis=2) > 40
    assert changed.mean() > 0.002, "the robot stood up and the picture did not change"

    watch = WireWatch(load_robot("go2"), "lo", domain)
    try:
        time.sleep(1.0)
        assert operator.mode == "standing", operator.safety.message
        page.evaluate(CLICK_TIME)
        page.get_by_role("button", name="STOP").click()
        clicked_s = page.evaluate("window.clicked") / 1000
        clicked_ns = time.monotonic_ns() - int((time.time() - clicked_s) * 1e9)
        damped_ns = watch.damped_at(clicked_ns - 50_000_000, 10.0)
    finally:
        watch.close()
    assert damped_ns is not None, "STOP was clicked and nothing was damped on the wire"
    record_property("click_to_damping_ms", (damped_ns - clicked_ns) / 1e6)
    print(f"from the click to damping on the wire: {(damped_ns - clicked_ns) / 1e6:.1f} ms")
    page.get_by_text("estop").first.wait_for()
    assert "emergency stop" in operator.safety.message
    page.close()


@pytest.mark.slow
def test_a_hundred_visits_leave_nothing_behind(browser, running):
    psutil = pytest.importorskip("psutil")
    launcher = psutil.Process(running.process.pid)
    server = next(p for p in launcher.children() if "nodes.dashboard" in " ".join(p.cmdline()))

    def visit(times):
        for _ in range(times):
            page = browser.new_page(viewport={"width": 200, "height": 150})
            page.goto(running.url)
            page.wait_for_timeout(100)
            page.close()
        deadline = time.monotonic() + 30
        while open_connections() and time.monotonic() < deadline:
            time.sleep(0.5)

    def open_connections():
        return [c for c in server.net_connections() if c.status == "ESTABLISHED"]

    visit(10)
    threads, files, memory = server.num_threads(), server.num_fds(), server.memory_info().rss
    visit(100)
    assert open_connections() == []
    assert server.num_threads() <= threads + 2
    assert server.num_fds() <= files + 2
    assert server.memory_info().rss < memory + (60 << 20)
