"""The controls of one browser: STOP, modes, velocity; locked until its token is right.

Everything here belongs to one client: unlocking one does not unlock another.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import viser

from sim2real_deploy import topics
from sim2real_deploy.control.stages import PlanarLimit
from sim2real_deploy.dashboard.snapshot import REQUESTS, Answered, Operator, Velocity

STILL: Velocity = (0.0, 0.0, 0.0)
Key = Literal["I", "K", "U", "O", "J", "L", "space", "escape"]
# Not W A S D, which move the camera.
KEYS: dict[Key, tuple[str, int, int]] = {
    "I": ("forward", 0, +1),
    "K": ("backward", 0, -1),
    "U": ("left", 1, +1),
    "O": ("right", 1, -1),
    "J": ("turn left", 2, +1),
    "L": ("turn right", 2, -1),
}
KEYS_HELP = "Hold to move: a button, or **I K** · **U O** · **J L**. **Space** stands still."
HOLD_HZ = 10.0  # how often a held button repeats its command


class Controls:
    """One client's controls, built once it may command."""

    def __init__(
        self,
        client: viser.ClientHandle,
        folder: viser.GuiTabHandle,
        operator: Operator,
        limits: PlanarLimit,
        token: str,
        policies: Sequence[str] = (),
    ) -> None:
        self._policies = tuple(policies)
        self._client = client
        self._folder = folder
        self._operator = operator
        self._limits = (limits.vx, limits.vy, limits.wz)
        self._drives = False
        if token:
            self._ask_for(token)
        else:
            self._build()

    def release(self) -> None:
        """The browser is gone: stop the motion it commanded."""
        if self._drives:
            self._drives = False
            self._operator.drive(STILL)

    def _ask_for(self, token: str) -> None:
        gui = self._client.gui
        with self._folder:
            note = gui.add_markdown("**View only.** The token in the node's log lets you command.")
            entry = gui.add_text("token", "")
            unlock = gui.add_button("Unlock")

        @unlock.on_click
        def _(_: object) -> None:
            if not secrets.compare_digest(entry.value.encode(), token.encode()):
                note.content = "**View only.** That is not the token."
                return
            for part in (note, entry, unlock):
                part.remove()
            self._build()

    def _build(self) -> None:
        gui = self._client.gui
        panel = gui.add_panel()
        with panel.add_tab("Stop"):
            stop = gui.add_button(
                "STOP (Esc)",
                color="red",
                icon=viser.Icon.HAND_STOP,
                hint="Damps the robot at once. The remote and the power switch come first.",
            )
        panel.float(x=-16, y=-16, width=260)  # a corner that notifications never cover
        stop.on_click(lambda _: self._stop())
        self._key("STOP", "escape", self._stop)
        with self._folder:
            modes = gui.add_button_group("mode", REQUESTS)
            if len(self._policies) > 1:
                chosen = gui.add_button_group("policy", self._policies)
                chosen.on_click(lambda _: self._ask(topics.switch_to(chosen.value)))
            gui.add_markdown(KEYS_HELP)
            self._share = gui.add_slider("speed", min=0.1, max=1.0, step=0.1, initial_value=0.5)
            moves = {words: gui.add_button(words) for words, _, _ in KEYS.values()}
            still = gui.add_button("Stand still")
        modes.on_click(lambda _: self._ask(modes.value))
        still.on_click(lambda _: self._stand_still())
        self._key("stand still", "space", self._stand_still)
        for key, (words, axis, sign) in KEYS.items():
            move = partial(self._move, axis, sign)
            self._hold(moves[words], move)
            self._key(words, key, move)

    def _hold(self, button: viser.GuiButtonHandle, move: Callable[[], None]) -> None:
        button.on_hold(lambda _: move(), callback_hz=HOLD_HZ)

    def _key(self, words: str, key: Key, action: Callable[[], None]) -> None:
        command = self._client.gui.add_command(words, hotkey=key)
        command.on_trigger(lambda _: action())

    def _stop(self) -> None:
        self._operator.estop(self._answer("STOP"))
        self._stand_still()

    def _ask(self, service: str) -> None:
        self._operator.ask(service, self._answer(service))

    def _answer(self, asked: str) -> Answered:
        def show(done: bool, words: str) -> None:
            self._client.add_notification(
                asked if done else f"{asked}: refused",
                words,
                auto_close_seconds=4.0,
                color="green" if done else "red",
            )

        return show

    def _move(self, axis: int, sign: int) -> None:
        """One direction at a time, for as long as the browser repeats it."""
        velocity = [0.0, 0.0, 0.0]
        velocity[axis] = sign * self._limits[axis] * float(self._share.value)
        vx, vy, wz = velocity
        self._drives = True
        self._operator.drive((vx, vy, wz))

    def _stand_still(self) -> None:
        self._drives = False
        self._operator.drive(STILL)
