"""The plugin as rqt loads it: a timer carries what the stack said to the panel."""

import queue
import time
from typing import Any

from python_qt_binding.QtCore import QTimer
from python_qt_binding.QtWidgets import QInputDialog
from rqt_gui_py.plugin import Plugin

from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.rqt_sim2real.client import Client
from sim2real_deploy.nodes.rqt_sim2real.model import (
    REMOTE,
    History,
    Line,
    Requests,
    Tone,
    Word,
    banner,
    hottest,
    lines,
)
from sim2real_deploy.nodes.rqt_sim2real.panel import Panel
from sim2real_deploy.nodes.rqt_sim2real.stop_button import StopButton
from sim2real_deploy.robots import RobotSpec, load_robot

FRAME_MS = 100
LINES_EVERY = 2  # frames
SPAN_S, STEP_S = 10.0, 0.035  # of the plots: every fourth sample
DEFAULT_ROBOT = "go2"
SPEEDS = ("forward told", "forward", "turning told", "turning")


class Sim2Real(Plugin):  # type: ignore[misc]
    """One robot's stack. The gear in its title bar chooses another namespace or model."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.setObjectName("Sim2Real")
        self._context = context
        self._namespace, self._robot = "", DEFAULT_ROBOT
        self._answers: queue.SimpleQueue[tuple[str, bool, str]] = queue.SimpleQueue()
        self._frame = 0
        self._client: Client | None = None
        self._panel: Panel | None = None
        self._stop: StopButton | None = None
        self._open()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._draw)
        self._timer.start(FRAME_MS)

    # What rqt calls

    def shutdown_plugin(self) -> None:
        self._timer.stop()
        self._close()

    def save_settings(self, _plugin_settings: Any, instance_settings: Any) -> None:
        instance_settings.set_value("namespace", self._namespace)
        instance_settings.set_value("robot", self._robot)

    def restore_settings(self, _plugin_settings: Any, instance_settings: Any) -> None:
        namespace = str(instance_settings.value("namespace", "") or "")
        robot = str(instance_settings.value("robot", DEFAULT_ROBOT) or DEFAULT_ROBOT)
        self._choose(namespace, robot)

    def trigger_configuration(self) -> None:
        namespace, chosen = QInputDialog.getText(
            self._panel, "sim2real", "The robot's namespace; empty for none:", text=self._namespace
        )
        if not chosen:
            return
        robot, chosen = QInputDialog.getText(
            self._panel, "sim2real", "Its model, a name in config/robots:", text=self._robot
        )
        if chosen:
            self._choose(namespace.strip(), robot.strip())

    # One robot at a time

    def _choose(self, namespace: str, robot: str) -> None:
        if (namespace, robot) == (self._namespace, self._robot):
            return
        try:
            load_robot(robot)
        except Refusal as refusal:
            if self._panel is not None:
                self._panel.show_answer(Line(str(refusal), Tone.BAD))
            return
        self._namespace, self._robot = namespace, robot
        self._close()
        self._open()

    def _close(self) -> None:
        if self._stop is not None:
            self._stop.close_process()
        if self._client is not None:
            self._client.close()

    def _open(self) -> None:
        spec = load_robot(self._robot)
        self._tiers = spec.temperature
        self._requests = Requests()
        self._speed = History(SPEEDS, SPAN_S, STEP_S)
        self._legs = leg_joints(spec)
        self._torque = History(tuple(self._legs), SPAN_S, STEP_S)
        self._client = Client(self._namespace, self._robot)
        if self._panel is not None:
            self._context.remove_widget(self._panel)
            self._panel.deleteLater()
        service = self._client.service("estop")
        self._stop = StopButton(service, lambda: self._ask("estop"), self._on_stop)
        self._panel = Panel(self._stop, self._ask, self._speed, self._torque, self._tiers)
        title = f"sim2real {self._namespace or self._robot}"
        number = self._context.serial_number()
        self._panel.setWindowTitle(title if number < 2 else f"{title} ({number})")
        self._context.add_widget(self._panel)

    def _ask(self, request: str) -> None:
        """Call the service at once, in this thread. An exception here would make Qt abort rqt, so
        it is shown instead."""
        assert self._client is not None
        now_s = time.monotonic()
        try:
            if not self._client.offered(request):
                self._requests.cannot(request, self._client.service(request), now_s)
                return
            self._requests.asked(request, now_s)
            self._client.ask(request, lambda *answer: self._answers.put(answer))
        except Exception as error:
            self._requests.answered(request, False, f"not sent: {error!r}. {REMOTE}", now_s)

    def _on_stop(self, word: Word, text: str) -> None:
        """What STOP's own program did."""
        now_s = time.monotonic()
        if word is Word.CANNOT:
            self._requests.cannot("estop", text, now_s)
        elif word is Word.ASKED:
            self._requests.asked("estop", now_s)
        else:
            self._requests.answered("estop", word is Word.DONE, text, now_s)

    # What is shown

    def _draw(self) -> None:
        client, panel = self._client, self._panel
        assert client is not None
        assert panel is not None
        try:
            self._show(client, panel, time.monotonic())
        except Exception as error:
            panel.show_banner(Line(f"this panel failed: {error!r}. {REMOTE}", Tone.BAD))

    def _show(self, client: Client, panel: Panel, now_s: float) -> None:
        while not self._answers.empty():
            self._requests.answered(*self._answers.get(), now_s)
        panel.show_answer(self._requests.line(now_s))
        while client.speeds:
            self._speed.add(*client.speeds.popleft())
        while client.torques:
            then_s, torques = client.torques.popleft()
            legs = self._legs.values()
            self._torque.add(then_s, [max((torques[i] for i in leg), key=abs) for leg in legs])
        for graph in panel.graphs:
            graph.show_at(now_s)
        self._frame += 1
        if self._frame % LINES_EVERY == 1:
            self._show_lines(client, panel, now_s)

    def _show_lines(self, client: Client, panel: Panel, now_s: float) -> None:
        heard = client.heard
        panel.show_banner(banner(heard, client.offered("estop"), client.service("estop"), now_s))
        for name, line in lines(heard).items():
            panel.show_line(name, line)
        panel.show_line("heat", hottest(heard.temperatures, self._tiers))
        panel.show_heat(dict(heard.temperatures))


def leg_joints(spec: RobotSpec) -> dict[str, list[int]]:
    """Each leg's joint indices; four curves are easier to read than twelve."""
    return {
        name: [spec.joint_names.index(joint) for joint in leg.joints]
        for name, leg in spec.legs.items()
    }
