"""The plugin's widget: a banner, STOP and the other requests, lines, bars and plots."""

from collections.abc import Callable

from python_qt_binding.QtCore import Qt
from python_qt_binding.QtWidgets import (
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from sim2real_deploy.nodes.rqt_sim2real.graph import TONES, Graph, HeatBars
from sim2real_deploy.nodes.rqt_sim2real.model import History, Line
from sim2real_deploy.robots.spec import Temperature

BUTTONS = {"stop": "sit and stop", "reset": "reset", "stand": "stand", "walk": "walk", "sit": "sit"}
NAMES = {
    "mode": "mode",
    "stage": "stage",
    "safety": "safety",
    "latch": "latch",
    "commands": "who commands",
    "torque": "torque allowed",
    "loop": "loop, policy",
    "latency": "state to command",
    "missed": "late or lost",
    "recording": "recording",
    "heat": "hottest motor",
}


class Panel(QWidget):  # type: ignore[misc]
    """Shows what it is given; a button calls `ask` with the name of its request."""

    def __init__(
        self,
        stop: QWidget,
        ask: Callable[[str], None],
        speed: History,
        torque: History,
        tiers: Temperature,
    ) -> None:
        super().__init__()
        self.setObjectName("rqt_sim2real")
        self.setWindowTitle("sim2real")
        self._banner, self._answer = _words(rows=2, bold=True), _words(rows=2)
        requests = QHBoxLayout()
        for name, words in BUTTONS.items():
            button = QPushButton(words)
            button.setObjectName(name)
            button.setFocusPolicy(Qt.NoFocus)
            button.clicked.connect(lambda _=False, name=name: ask(name))
            requests.addWidget(button)
        form = QFormLayout()
        form.setVerticalSpacing(2)
        self._lines = {name: _words() for name in NAMES}
        for name, label in self._lines.items():
            form.addRow(f"{NAMES[name]}:", label)
        self._bars = HeatBars(tiers)
        self.graphs = (
            Graph("speed, m/s and rad/s", speed, least=0.5),
            Graph("largest torque of a leg, Nm", torque, least=5.0),
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 4, 6, 4)
        layout.addWidget(self._banner)
        layout.addWidget(stop)
        layout.addLayout(requests)
        layout.addWidget(self._answer)
        layout.addLayout(form)
        layout.addWidget(self._bars)
        for graph in self.graphs:
            layout.addWidget(graph, 1)

    def show_banner(self, line: Line) -> None:
        _show(self._banner, line)

    def show_answer(self, line: Line) -> None:
        _show(self._answer, line)

    def show_line(self, name: str, line: Line) -> None:
        _show(self._lines[name], line)

    def show_heat(self, temperatures: dict[str, float]) -> None:
        self._bars.show_temperatures(temperatures)


def _words(rows: int = 1, bold: bool = False) -> QLabel:
    """A label of fixed height, so that text never moves the buttons."""
    label = QLabel()
    label.setWordWrap(rows > 1)
    label.setSizePolicy(QSizePolicy.Ignored, QSizePolicy.Fixed)
    label.setTextInteractionFlags(Qt.TextSelectableByMouse)
    font = label.font()
    font.setBold(bold)
    label.setFont(font)
    label.setFixedHeight(rows * label.fontMetrics().lineSpacing() + 2)
    return label


def _show(label: QLabel, line: Line) -> None:
    if label.text() != line.text:
        label.setText(line.text)
        label.setToolTip(line.text)  # whole, where the panel is too narrow for it
    style = f"color: {TONES[line.tone]}"
    if label.styleSheet() != style:
        label.setStyleSheet(style)
