"""What the buttons and sticks of a hand-held controller mean: a file in config/pads."""

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.control.modes import REQUESTS, ModeEvent, ModeRequest
from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire.remote import BUTTONS, Remote

STOP_CHORD = frozenset({"L2", "B"})  # the vendor's, and the supervisor's: no file can change it
INTENTS = tuple(event for event in REQUESTS if event is not ModeEvent.EXCITE)
TRIGGER_PRESSED = -0.5
Stick = Literal["lx", "ly", "rx", "ry"]


class Axis(Strict):
    """One axis of the velocity command."""

    stick: Stick
    share: float = Field(ge=-1, le=1)  # of the stage's velocity, at full deflection


class Axes(Strict):
    vx: Axis | None = None
    vy: Axis | None = None
    wz: Axis | None = None


class JoyLayout(Strict):
    """Which index on the topic `joy` is which button or stick."""

    buttons: tuple[str, ...]
    triggers: dict[str, int] = Field(default_factory=dict)
    sticks: dict[Stick, tuple[int, Literal[-1, 1]]]

    def read(self, axes: Sequence[float], buttons: Sequence[int]) -> Remote:
        """A gamepad as a remote; an axis that is missing or not finite is at rest."""

        def axis(index: int) -> float:
            value = axes[index] if 0 <= index < len(axes) else 0.0
            return max(-1.0, min(1.0, value)) if math.isfinite(value) else 0.0

        pressed = {name for name, down in zip(self.buttons, buttons, strict=False) if down}
        pressed |= {name for name, at in self.triggers.items() if axis(at) < TRIGGER_PRESSED}

        def stick(name: Stick) -> float:
            index, sign = self.sticks.get(name, (-1, 1))
            return sign * axis(index)

        lx, ly, rx, ry = (stick(name) for name in ("lx", "ly", "rx", "ry"))
        return Remote(lx, ly, rx, ry, frozenset(pressed))


class PadMap(Strict):
    about: str
    chords: dict[str, str]  # L2+A: stand
    axes: Axes
    dead_zone: float = Field(ge=0.02, le=0.5)
    dead_man: str = ""  # a button that must be held for the sticks to count
    joy: JoyLayout | None = None  # for a gamepad; None for the robot's own remote

    @model_validator(mode="after")
    def _sound(self) -> "PadMap":
        known = self._buttons()
        if self.requests.get(STOP_CHORD) != ModeRequest(ModeEvent.DAMP):
            raise ValueError("chords: L2+B must be there and mean damp: it is the emergency stop")
        for name, chord in ((name, _chord(name)) for name in self.chords):
            for button in sorted(chord - known):
                there = ", ".join(sorted(known))
                raise ValueError(f"chords.{name}: there is no button '{button}'; there are {there}")
            if chord < STOP_CHORD:
                raise ValueError(
                    f"chords.{name}: would trigger while L2+B, the emergency stop, is being pressed"
                )
        if self.dead_man and self.dead_man not in known:
            raise ValueError(f"dead_man: there is no button '{self.dead_man}'")
        if self.joy is not None and not self.dead_man:
            raise ValueError("dead_man: a gamepad needs one: it may lie on a table and drive")
        if self.joy is not None:
            for axis, part in ((a, getattr(self.axes, a)) for a in ("vx", "vy", "wz")):
                if part is not None and part.stick not in self.joy.sticks:
                    raise ValueError(f"axes.{axis}.stick: joy.sticks has no '{part.stick}'")
        return self

    def _buttons(self) -> frozenset[str]:
        joy = self.joy
        return frozenset(BUTTONS if joy is None else (*joy.buttons, *joy.triggers))

    @cached_property
    def requests(self) -> dict[frozenset[str], ModeRequest]:
        found: dict[frozenset[str], ModeRequest] = {}
        for name, intent in self.chords.items():
            chord = _chord(name)
            if chord in found:
                raise ValueError(f"chords.{name}: the same buttons are listed twice")
            found[chord] = _request(name, intent)
        return found


def _chord(name: str) -> frozenset[str]:
    return frozenset(part.strip() for part in name.split("+"))


def _request(chord: str, intent: str) -> ModeRequest:
    word, _, policy = intent.strip().partition(" ")
    known = {event.value: event for event in INTENTS}
    if word not in known or (policy and known[word] is not ModeEvent.SWITCH):
        there = ", ".join(known)
        raise ValueError(f"chords.{chord}: '{intent}' is none of {there}, or `switch POLICY`")
    return ModeRequest(known[word], policy.strip())


def load_pad(name: str) -> PadMap:
    """A mapping by its name in config/pads, or by the path of such a file."""
    path = Path(name)
    if path.suffix != ".yaml":
        path = paths.config_file(f"pads/{name}.yaml")
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
            raise Refusal(f"pad '{name}': no {path.name} in {path.parent}; there are: {known}")
    return configfile.load(path, PadMap)
