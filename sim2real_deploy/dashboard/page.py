"""The page: robot, health, plots and events for all; controls for those who may command."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from html import escape
from io import StringIO

import viser
import websockets.asyncio.server

from sim2real_deploy.control.stages import PlanarLimit
from sim2real_deploy.dashboard.access import LOCAL
from sim2real_deploy.dashboard.controls import Controls
from sim2real_deploy.dashboard.plots import Plots
from sim2real_deploy.dashboard.robot_view import RobotView
from sim2real_deploy.dashboard.snapshot import Operator, Snapshot
from sim2real_deploy.robots import RobotSpec

_LOCAL_PAGE = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
SILENCE_S = 0.5  # without a state for this long, the display is stale
GREEN, AMBER, RED = "#2b8a3e", "#e67700", "#c92a2a"


class Page:
    """`show` draws the robot, `show_words` the rest, less often; both from one thread."""

    def __init__(
        self,
        robot: RobotSpec,
        stage: str,
        limits: PlanarLimit,
        operator: Operator,
        host: str,
        port: int,
        token: str,
        policies: Sequence[str] = (),
    ) -> None:
        self._stage = stage
        self._controls: dict[int, Controls] = {}
        banner = redirect_stdout(StringIO())  # the node logs the address itself
        with banner, strangers_refused(host):
            server = viser.ViserServer(host, port, label=robot.title, verbose=False)
        self._server = server
        self.port = server.get_port()
        gui = server.gui
        gui.configure_theme(show_logo=False, show_share_button=False)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(400)
        self._view = RobotView(server, robot)
        self._status = gui.add_html("")
        tabs = gui.add_tab_group()
        drive = tabs.add_tab("Drive")
        with tabs.add_tab("Plots"):
            self._plots = Plots(gui, robot)
        with tabs.add_tab("Health"):
            self._health = gui.add_html("")
        with tabs.add_tab("Events"):
            self._events = gui.add_html("")

        @server.on_client_connect
        def _(client: viser.ClientHandle) -> None:
            self._controls[client.client_id] = Controls(
                client, drive, operator, limits, token, policies
            )

        @server.on_client_disconnect
        def _(client: viser.ClientHandle) -> None:
            controls = self._controls.pop(client.client_id, None)
            if controls is not None:
                controls.release()

    @property
    def watched(self) -> bool:
        return bool(self._controls)

    def show(self, snapshot: Snapshot) -> None:
        self._view.show(snapshot)

    def show_words(self, snapshot: Snapshot) -> None:
        self._plots.add(snapshot)
        silent = snapshot.q is None or snapshot.silent_s > SILENCE_S
        rows = [
            ("mode", snapshot.mode or "not heard yet", AMBER if silent else GREEN),
            ("policy", snapshot.policy or "none", ""),
            ("commanded by", snapshot.holder or "nobody", ""),
            ("stage", self._stage, ""),
            ("safety", snapshot.safety or "no supervisor", _safety_colour(snapshot)),
            ("robot", "silent" if silent else "answers", RED if silent else GREEN),
            ("battery", snapshot.battery, ""),
            ("recording", snapshot.recording.rpartition("/")[2] or "off", ""),
        ]
        self._status.content = html_table(rows)
        troubles = [(name, words, AMBER) for name, words in sorted(snapshot.troubles.items())]
        figures = [(name, words, "") for name, words in snapshot.statistics.items()]
        self._health.content = html_table([*troubles, *figures])
        lines = "".join(f"<div>{escape(line)}</div>" for line in reversed(snapshot.events))
        self._events.content = f'<div style="font-size:12px;padding:4px 12px">{lines}</div>'

    def close(self) -> None:
        self._server.stop()


@contextmanager
def strangers_refused(host: str) -> Iterator[None]:
    """Check the origin of connections to a local server: otherwise another site, open in the same
    browser, could drive the robot. On the network the token protects instead."""
    serve = websockets.asyncio.server.serve
    if host in LOCAL:
        websockets.asyncio.server.serve = partial(serve, origins=[None, _LOCAL_PAGE])  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = serve  # type: ignore[misc]


def _safety_colour(snapshot: Snapshot) -> str:
    if snapshot.stopped or not snapshot.safety:
        return RED
    return AMBER if snapshot.troubles else GREEN


def html_table(rows: list[tuple[str, str, str]]) -> str:
    cells = "".join(
        f'<tr><td style="opacity:.6;padding-right:10px;vertical-align:top">{escape(name)}</td>'
        f'<td style="color:{colour or "inherit"};font-weight:{600 if colour else 400}">'
        f"{escape(words)}</td></tr>"
        for name, words, colour in rows
    )
    return f'<table style="font-size:13px;margin:4px 12px">{cells}</table>'
