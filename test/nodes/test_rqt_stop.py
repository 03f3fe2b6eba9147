"""STOP in a real window: heard at once while rqt's thread is busy. Needs Qt, Xvfb and xdotool."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import rclpy

from support.supervisor_support import Supervisor, wait
from support.wire_support import free_domain

pytest.importorskip("python_qt_binding", reason="rqt is not installed")
for program in ("Xvfb", "xdotool"):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed", allow_module_level=True)

BUSY_S = 0.5  # what the plots of a slow machine take
HEARD_S = 0.15
# A window whose thread draws all the time, as rqt's does with plots in it.
WINDOW = f"""
import sys, time
from python_qt_binding.QtCore import QTimer
from python_qt_binding.QtWidgets import QApplication, QVBoxLayout, QWidget
from sim2real_deploy.nodes.rqt_sim2real.stop_button import StopButton
application = QApplication(sys.argv)
window = QWidget()
said = lambda *words: print(*words, flush=True)
stop = StopButton("/dog1/safety/estop", lambda: said("own button"), said)
QVBoxLayout(window).addWidget(stop)
window.setGeometry(0, 0, 300, 100)
window.show()
timer = QTimer()
timer.timeout.connect(lambda: time.sleep({BUSY_S}))
timer.start(1)
said(stop._process.processId())
application.exec_()
"""


@pytest.fixture
def display() -> Iterator[str]:
    """A screen of its own."""
    read, write = os.pipe()
    screen = ["Xvfb", "-displayfd", str(write), "-screen", "0", "640x480x24"]
    server = subprocess.Popen(screen, pass_fds=(write,), stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as numbers:
        yield f":{numbers.readline().strip()}"
    server.kill()
    server.wait()


def press(environment: dict[str, str]) -> float:
    """When the button goes down."""
    mouse = ("xdotool", "mousemove", "150", "50", "mousedown", "1")
    start_s = time.monotonic()
    subprocess.run(mouse, env=environment, check=True)
    subprocess.run(("xdotool", "mouseup", "1"), env=environment, check=True)
    return start_s


def test_a_press_does_not_wait_for_what_rqt_draws(display: str) -> None:
    domain = free_domain()
    rclpy.init(domain_id=domain)
    supervisor = Supervisor("/dog1")
    environment = os.environ | {
        "DISPLAY": display,
        "QT_QPA_PLATFORM": "xcb",
        "ROS_DOMAIN_ID": str(domain),
    }
    command = [sys.executable, "-c", WINDOW]
    window = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert window.stdout is not None
        own_program = int(window.stdout.readline())
        names = supervisor.node.get_node_names
        assert wait(lambda: "rqt_sim2real_stop" in names())
        time.sleep(3 * BUSY_S)  # embedded, and the service known
        pressed_s = []
        for _ in range(5):
            pressed_s.append(press(environment))
            time.sleep(0.6 * BUSY_S)
        assert wait(lambda: len(supervisor.called) == len(pressed_s))
        waited_s = [b - a for a, b in zip(pressed_s, supervisor.called_s, strict=True)]
        assert max(waited_s) < HEARD_S, waited_s
        os.kill(own_program, 9)
        time.sleep(3 * BUSY_S + 1.0)
        press(environment)
        heard = [window.stdout.readline() for _ in range(2 * len(pressed_s) + 1)]
        assert heard[:2] == ["Word.ASKED \n", "Word.DONE estop it is\n"]
        assert heard[-1] == "own button\n", "a button of the panel's own takes its place"
    finally:
        window.kill()
        window.wait()
        supervisor.close()
        rclpy.try_shutdown()
