"""The vendor's mode switch: its motion service must be released before low-level commands are sent.

Two writers on rt/lowcmd make a robot convulse, so the mode is queried, released and queried again
until the robot itself reports that no mode is active.
"""

import json
import time
from dataclasses import dataclass

from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.rpc import RpcClient, RpcTimeout

SERVICE = "motion_switcher"
CHECK, SELECT, RELEASE = 1001, 1002, 1003


@dataclass(frozen=True, slots=True)
class MotionMode:
    """The vendor mode that is active; an empty name: none, the motors are free."""

    form: str
    name: str

    @property
    def released(self) -> bool:
        return not self.name


class MotionSwitcher:
    """Client of the mode switch. A call that takes longer than `timeout_s` is a Refusal."""

    def __init__(self, participant: Participant, timeout_s: float = 5.0) -> None:
        self._timeout_s = timeout_s
        self._client = RpcClient(participant, SERVICE)

    def check(self) -> MotionMode:
        answer = self._call(CHECK, {}, "say its mode")
        try:
            content = json.loads(answer)
            return MotionMode(form=str(content.get("form", "")), name=str(content["name"] or ""))
        except (ValueError, KeyError, AttributeError):
            raise Refusal(
                f"the robot's {SERVICE} answered {answer!r} when asked for its mode: not an "
                "answer we know, so low-level control stays off; is its firmware supported?"
            ) from None

    def select(self, name: str) -> None:
        """Hand the motors to a vendor mode ("normal", "ai", ...)."""
        self._call(SELECT, {"name": name}, f"select mode '{name}'")

    def release(self) -> None:
        """Release whatever vendor mode is active, and verify it."""
        deadline = time.monotonic() + self._timeout_s
        while not (mode := self.check()).released:
            if time.monotonic() > deadline:
                raise Refusal(
                    f"the robot is still in vendor mode '{mode.name}' {self._timeout_s:g} s after "
                    "it was told to release it; stop whatever selects it (app, remote) and retry"
                )
            self._call(RELEASE, {}, f"release mode '{mode.name}'")

    def _call(self, api: int, parameter: dict[str, str], what: str) -> str:
        try:
            code, data = self._client.call(api, json.dumps(parameter), self._timeout_s)
        except RpcTimeout as late:
            raise Refusal(
                f"the robot did not {what}: {late}; is it on, on this interface and domain?"
            ) from None
        if code != 0:
            raise Refusal(f"the robot refused to {what}: code {code}")
        return data
