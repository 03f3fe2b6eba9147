"""The vendor's sport mode as the twin needs it: it holds a pose, and it fights for the motors.

Two writers on the same motors make a real robot squirm. So while sport mode is on, its commands
and those of rt/lowcmd take turns, step by step, and whoever forgot to release it sees that here.
"""

import json
from typing import Any

import numpy as np

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.motors import MotorCommand
from sim2real_deploy.wire.motion_switcher import CHECK, RELEASE, SELECT
from sim2real_deploy.wire.rpc import NOT_IMPLEMENTED

DAMP, STAND_UP, STAND_DOWN, RECOVERY_STAND = 1001, 1004, 1005, 1006  # of sport
BAD_PARAMETER = 3204  # the vendor's RPC code
_MODES = {"normal", "ai", "advanced", "mcf"}
_MOVE_SECONDS = 1.5


class SportMode:
    """Which mode is on, and the pose it holds."""

    def __init__(self, robot: RobotSpec, on: bool) -> None:
        self._robot = robot
        self.mode = "normal" if on else ""
        self.command = MotorCommand(robot.joint_count)
        self._target = self._from = robot.sit_pose.astype(np.float64)
        self._damped = False
        self._since_ns = -round(_MOVE_SECONDS * 1e9)

    def update(self, now_ns: int) -> MotorCommand:
        """The command sport mode has for the motors now."""
        if self._damped:
            self.command.damp(self._robot.damping)
            return self.command
        done = min(max((now_ns - self._since_ns) / (_MOVE_SECONDS * 1e9), 0.0), 1.0)
        self.command.q[:] = self._from + done * (self._target - self._from)
        self.command.kp[:], self.command.kd[:] = self._robot.kp, self._robot.kd
        self.command.anew = True
        return self.command

    def serve_switcher(self, api: int, parameter: str, now_ns: int) -> tuple[int, str]:
        """One request to motion_switcher: the vendor's status code, and data as JSON."""
        if api == CHECK:
            return 0, json.dumps({"form": "0", "name": self.mode})
        if api == RELEASE:
            self.mode = ""
            return 0, ""
        if api == SELECT:
            name = _field(parameter, "name")
            if name not in _MODES:
                return BAD_PARAMETER, ""
            self.mode = name
            self._since_ns, self._damped = now_ns, False
            return 0, ""
        return NOT_IMPLEMENTED, ""

    def serve_sport(self, api: int, parameter: str, now_ns: int) -> tuple[int, str]:
        """One request to sport: what moves between lying and standing; the rest is agreed to."""
        poses = {
            STAND_UP: self._robot.stand_pose,
            RECOVERY_STAND: self._robot.stand_pose,
            STAND_DOWN: self._robot.sit_pose,
        }
        if api == DAMP:
            self._damped = True
        elif api in poses:
            self._from, self._target = self.command.q.copy(), poses[api].astype(np.float64)
            self._since_ns, self._damped = now_ns, False
        return 0, ""


def _field(parameter: str, name: str) -> Any:
    try:
        content = json.loads(parameter)
    except ValueError:
        return None
    return content.get(name) if isinstance(content, dict) else None
