"""Requests to a running twin as one line of text, for topics, the command line and tests.

{fault: {target: encoder, word: stuck, joint: FR_calf_joint, duration: 2}}
{push: {force: 150, direction: [0, 1, 0], duration: 0.1}}
{slip: {friction: 0.1, duration: 1}}
{remote: {pressed: [L2, B]}}  or  {remote: {alive: false}}
{clear: true}
"""

from typing import Literal

import yaml
from pydantic import Field, model_validator

from sim2real_deploy import configfile
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.twin.disturbances import Push, Slip
from sim2real_deploy.twin.faults import Fault
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire import remote

MAX_CHARACTERS = 2000


class RemoteInput(Strict):
    """The wireless controller's sticks and buttons from now on."""

    lx: float = Field(default=0.0, ge=-1, le=1)
    ly: float = Field(default=0.0, ge=-1, le=1)
    rx: float = Field(default=0.0, ge=-1, le=1)
    ry: float = Field(default=0.0, ge=-1, le=1)
    pressed: tuple[str, ...] = ()
    alive: bool = True  # switched on and within reach

    @model_validator(mode="after")
    def _buttons(self) -> "RemoteInput":
        unknown = sorted(set(self.pressed) - set(remote.BUTTONS))
        if unknown:
            known = ", ".join(remote.BUTTONS)
            raise ValueError(f"pressed: no button {', '.join(unknown)}; there are: {known}")
        return self


class TwinRequest(Strict):
    """Exactly one of these."""

    fault: Fault | None = None
    push: Push | None = None
    slip: Slip | None = None
    remote: RemoteInput | None = None
    clear: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "TwinRequest":
        if len(self.model_fields_set) != 1:
            raise ValueError("one of fault, push, slip, remote, clear was expected")
        return self

    def apply(self, twin: TwinRobot) -> None:
        if self.fault is not None:
            twin.inject(self.fault)
        if self.push is not None:
            twin.push(self.push)
        if self.slip is not None:
            twin.slip(self.slip)
        if self.remote is not None:
            held = self.remote
            sticks = (held.lx, held.ly, held.rx, held.ry)
            twin.hold_remote(remote.Remote(*sticks, frozenset(held.pressed), held.alive))
        if self.clear:
            twin.clear_faults()


def parse(text: str) -> TwinRequest:
    """A request from a line of YAML or JSON; a Refusal tells what is wrong with it."""
    if len(text) > MAX_CHARACTERS:
        raise Refusal(f"twin request: {len(text)} characters is too long for a request")
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise Refusal(f"twin request: not a line of YAML or JSON: {error}") from None
    return configfile.parse(content, TwinRequest, "twin request")
