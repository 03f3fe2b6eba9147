"""The panel's STOP: the embedded window of `stop_window.py`; a plain button where that fails."""

import sys
import time
from collections.abc import Callable

from python_qt_binding.QtCore import QProcess, QTimer
from python_qt_binding.QtGui import QGuiApplication, QWindow
from python_qt_binding.QtWidgets import QStackedLayout, QWidget

from sim2real_deploy.nodes.rqt_sim2real.model import ALIVE_EVERY_S, StopWindow, Word
from sim2real_deploy.nodes.rqt_sim2real.stop_window import stop_button

PROGRAM = "sim2real_deploy.nodes.rqt_sim2real.stop_window"
EMBEDS = "xcb"  # X11, also inside Wayland; Qt embeds other programs' windows nowhere else
END_MS = 500


class StopButton(QWidget):  # type: ignore[misc]
    """`ask` is called when this widget's own button is pressed, `tell` with what the program
    reports.

    The own button is shown until the program is embedded, and again when it ends or hangs.
    """

    def __init__(
        self, service: str, ask: Callable[[], None], tell: Callable[[Word, str], None]
    ) -> None:
        super().__init__()
        self._tell, self._window = tell, StopWindow()
        own = stop_button()
        own.pressed.connect(ask)
        self.setFixedHeight(own.minimumHeight())
        self._layout = QStackedLayout(self)
        self._layout.addWidget(own)
        self._process: QProcess | None = None
        if QGuiApplication.platformName() != EMBEDS:
            return
        self._process = process = QProcess(self)
        process.setProcessChannelMode(QProcess.ForwardedErrorChannel)
        process.readyReadStandardOutput.connect(self._on_words)
        process.start(sys.executable, ["-m", PROGRAM, service])
        self._watch = QTimer(self)
        self._watch.timeout.connect(self._show_the_one_that_works)
        self._watch.start(int(ALIVE_EVERY_S * 1000))

    def close_process(self) -> None:
        if self._process is not None:
            self._watch.stop()
            self._process.closeWriteChannel()
            if not self._process.waitForFinished(END_MS):
                self._process.kill()
                self._process.waitForFinished(END_MS)
            self._process = None

    def _on_words(self) -> None:
        assert self._process is not None
        now_s = time.monotonic()
        while self._process.canReadLine():
            line = bytes(self._process.readLine()).decode(errors="replace")
            word, text = self._window.heard(line, now_s)
            if word is Word.WINDOW:
                there = QWindow.fromWinId(int(text))
                self._layout.addWidget(QWidget.createWindowContainer(there, self))
            elif word not in (None, Word.ALIVE):
                self._tell(word, text)
        self._show_the_one_that_works()

    def _show_the_one_that_works(self) -> None:
        alive = self._process is not None and self._process.state() == QProcess.Running
        works = alive and self._layout.count() > 1 and self._window.lives(time.monotonic())
        self._layout.setCurrentIndex(int(works))
