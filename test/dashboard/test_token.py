"""Served wider than this machine, the page commands nothing without its token."""

import shutil
import time

import pytest

pytest.importorskip("viser", reason="the dashboard is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import sync_playwright

from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.dashboard.page import Page
from sim2real_deploy.dashboard.snapshot import REQUESTS
from sim2real_deploy.robots import load_robot

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
    pytest.mark.timeout(400),
]
TOKEN = "open-sesame"
SOFTWARE_RENDERING = (
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
)


class Listening:
    """Writes down what reaches it."""

    def __init__(self):
        self.heard = []

    def estop(self, answered):
        self.heard.append("estop")
        answered(True, "estop: emergency stop was called")

    def ask(self, service, answered):
        self.heard.append(service)
        answered(False, "not now")

    def drive(self, velocity):
        self.heard.append(velocity)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE_RENDERING)
        yield browser
        browser.close()


@pytest.fixture
def served(request):
    operator = Listening()
    limits = load_stage("tether").velocity
    page = Page(load_robot("go2"), "tether", limits, operator, "127.0.0.1", 8300, request.param)
    yield page, operator
    page.close()


def open_page(browser, page):
    tab = browser.new_page(viewport={"width": 800, "height": 600})
    tab.set_default_timeout(90_000)
    tab.goto(f"http://127.0.0.1:{page.port}")
    return tab


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


@pytest.mark.parametrize("served", [TOKEN], indirect=True)
def test_a_wrong_token_commands_nothing(browser, served):
    page, operator = served
    tab = open_page(browser, page)
    tab.get_by_text("View only").wait_for()
    assert tab.get_by_role("button", name="STOP").count() == 0
    tab.get_by_role("textbox").first.fill("guess")
    tab.get_by_role("button", name="Unlock").click()
    tab.get_by_text("not the token").wait_for()
    for key in ("Escape", "i", "j", " "):
        tab.keyboard.press(key)
    time.sleep(1.0)
    assert tab.get_by_role("button", name="STOP").count() == 0
    assert operator.heard == []

    tab.get_by_role("textbox").first.fill(TOKEN)
    tab.get_by_role("button", name="Unlock").click()
    tab.get_by_role("button", name="STOP").click()
    wait_until(lambda: "estop" in operator.heard)

    other = open_page(browser, page)  # what one browser unlocked is not unlocked for another
    other.get_by_text("View only").wait_for()
    other.close()
    tab.close()


@pytest.mark.parametrize("served", [""], indirect=True)
def test_buttons_keys_and_leaving(browser, served):
    page, operator = served
    tab = open_page(browser, page)
    tab.get_by_role("button", name="STOP").wait_for()
    for request in REQUESTS:
        tab.get_by_role("button", name=request, exact=True).click()
    wait_until(lambda: set(REQUESTS) <= set(operator.heard))
    tab.get_by_text("not now").first.wait_for()

    tab.keyboard.press("i")
    limit = load_stage("tether").velocity.vx
    wait_until(lambda: operator.heard[-1] == pytest.approx((0.5 * limit, 0.0, 0.0)))
    tab.close()
    wait_until(lambda: operator.heard[-1] == (0.0, 0.0, 0.0))
    wait_until(lambda: not page.watched)
