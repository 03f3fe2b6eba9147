"""A small plot and a row of bars, painted by Qt itself: cheap enough for 10 frames a second."""

from collections.abc import Mapping

from python_qt_binding.QtCore import QPointF, QRectF, Qt
from python_qt_binding.QtGui import QColor, QPainter, QPen, QPolygonF
from python_qt_binding.QtWidgets import QSizePolicy, QWidget

from sim2real_deploy.nodes.rqt_sim2real.model import History, Tone, heat_tone
from sim2real_deploy.robots.spec import Temperature

INK, GRID, PAPER = "#303030", "#d8d8d8", "#ffffff"
CURVES = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728")
TONES = {Tone.PLAIN: INK, Tone.GOOD: "#1a7f37", Tone.WARN: "#b35900", Tone.BAD: "#c00000"}
HEAD = 18.0  # pixels for the title and the legend


class Graph(QWidget):  # type: ignore[misc]
    """The last seconds of some curves."""

    def __init__(self, title: str, history: History, least: float) -> None:
        super().__init__()
        self._title, self._history, self._least = title, history, least
        self._now_s = 0.0
        self.setMinimumSize(260, 90)
        self.setSizePolicy(QSizePolicy.Expanding, QSizePolicy.Expanding)

    def show_at(self, now_s: float) -> None:
        self._now_s = now_s
        self.update()

    def paintEvent(self, _event: object) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(PAPER))
        width, height = float(self.width()), float(self.height()) - HEAD
        bounds = self._history.range(self._least)
        painter.setPen(QColor(INK))
        painter.drawText(QPointF(4.0, 13.0), f"{self._title}  ±{bounds[1]:.3g}")
        painter.setPen(QColor(GRID))
        painter.drawLine(QPointF(0.0, HEAD + height / 2), QPointF(width, HEAD + height / 2))
        painter.drawRect(QRectF(0.0, HEAD, width - 1, height - 1))
        painter.setRenderHint(QPainter.Antialiasing)
        right = width - 4.0
        for index in reversed(range(len(self._history.names))):
            colour, name = QColor(CURVES[index % len(CURVES)]), self._history.names[index]
            painter.setPen(QPen(colour, 1.4))
            points = self._history.curve(index, self._now_s, bounds, (width, height))
            painter.drawPolyline(QPolygonF([QPointF(x, HEAD + y) for x, y in points]))
            right -= painter.fontMetrics().boundingRect(name).width() + 8
            painter.drawText(QPointF(right, 13.0), name)


class HeatBars(QWidget):  # type: ignore[misc]
    """One bar per motor, from cool to the temperature that stops the robot."""

    def __init__(self, tiers: Temperature) -> None:
        super().__init__()
        self._tiers = tiers
        self._temperatures: Mapping[str, float] = {}
        self.setMinimumSize(260, 70)

    def show_temperatures(self, temperatures: Mapping[str, float]) -> None:
        self._temperatures = temperatures
        self.update()

    def paintEvent(self, _event: object) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(PAPER))
        font = painter.font()
        font.setPointSizeF(font.pointSizeF() * 0.75)
        painter.setFont(font)
        wide = self.width() / max(1, len(self._temperatures))
        room = self.height() - 30.0
        for index, (name, value) in enumerate(self._temperatures.items()):
            share = max(0.0, min(1.0, value / self._tiers.stop))
            left, top = index * wide, 14.0 + room * (1.0 - share)
            bar = QRectF(left + 2.0, top, wide - 4.0, room * share)
            painter.fillRect(bar, QColor(TONES[heat_tone(value, self._tiers)]))
            painter.setPen(QColor(INK))
            cell = QRectF(left, 0.0, wide, 13.0)
            painter.drawText(cell, Qt.AlignCenter, f"{value:.0f}")
            foot = QRectF(left, self.height() - 15.0, wide, 14.0)
            painter.drawText(foot, Qt.AlignCenter, short(name))


def short(joint: str) -> str:
    """FR_calf_joint as FRc: a bar is narrow."""
    leg, _, rest = joint.partition("_")
    return leg + rest[:1]
