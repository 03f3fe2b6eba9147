"""STOP as a separate program, whose window the panel embeds.

rqt draws all plugins in one thread, so a button there waits for the plots. This window has its own
process, event loop and node: a press is handled at once, whatever rqt draws.

It reports to the panel on standard output, one line each: a `Word`, then text. It ends when its
standard input is closed, so it never outlives rqt.
"""

import os
import sys
import threading
from contextlib import suppress

import rclpy
from python_qt_binding.QtCore import Qt, QTimer
from python_qt_binding.QtWidgets import QApplication, QPushButton
from rclpy.executors import ExternalShutdownException

from sim2real_deploy.nodes.rqt_sim2real.client import Stop
from sim2real_deploy.nodes.rqt_sim2real.model import ALIVE_EVERY_S, Word

AWAY = -4000  # outside every screen, until the panel has embedded it
STOP_STYLE = (
    "QPushButton {background: #c00000; color: white; font-weight: bold; font-size: 22px;"
    " border-radius: 6px;} QPushButton:pressed {background: #700000;}"
)


def stop_button() -> QPushButton:
    """The button, here and in the panel: it acts when pressed, not when released."""
    button = QPushButton("STOP")
    button.setObjectName("estop")
    button.setToolTip("Damps the robot at once. The remote and the power switch come first.")
    button.setStyleSheet(STOP_STYLE)
    button.setMinimumHeight(56)
    button.setFocusPolicy(Qt.NoFocus)  # a stray space bar must not press it
    return button


def tell(word: Word, text: str = "") -> None:
    with suppress(BrokenPipeError):  # rqt is gone, and this program with it in a moment
        print(word.value, " ".join(text.split()), flush=True)


def main() -> None:
    """Called with the full name of the service."""
    service = sys.argv[1]
    application = QApplication(sys.argv[:1])
    rclpy.init(args=[])
    stop = Stop(service)
    button = stop_button()
    button.setWindowFlags(Qt.FramelessWindowHint | Qt.BypassWindowManagerHint)
    button.pressed.connect(lambda: stop.press(tell))
    button.move(AWAY, AWAY)
    button.show()
    tell(Word.WINDOW, str(int(button.winId())))
    alive = QTimer()
    alive.timeout.connect(lambda: tell(Word.ALIVE))
    alive.start(int(ALIVE_EVERY_S * 1000))
    threading.Thread(target=_end_with_input, daemon=True).start()
    threading.Thread(target=_spin, args=(stop,), daemon=True).start()
    application.exec_()


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def _spin(stop: Stop) -> None:
    with suppress(ExternalShutdownException):
        rclpy.spin(stop.node)


if __name__ == "__main__":
    main()
