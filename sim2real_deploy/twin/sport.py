"""The vendor's sport mode, as far as the twin needs it: holds a pose, competes for the motors.

While on, it writes rt/lowcmd and damps on L2+B; once released, it ignores the remote.

On a real robot two writers on the same motors make it convulse. So while sport mode is on, its
commands and those on rt/lowcmd alternate period by period: whoever forgets to release it notices.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import JointCommand, RobotSpec
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.twin.motors import MotorCommand
from sim2real_deploy.wire.motion_switcher import CHECK, RELEASE, SELECT
from sim2real_deploy.wire.remote import Remote
from sim2real_deploy.wire.rpc import NOT_IMPLEMENTED

DAMP, STAND_UP, STAND_DOWN, RECOVERY_STAND = 1001, 1004, 1005, 1006  # API ids of sport
SERVICE_SWITCH, REPORT_RATE, SERVICE_LIST = 1001, 1002, 1003  # API ids of robot_state
BAD_PARAMETER = 3204  # the vendor's RPC code
NO_SUCH_SERVICE = 5201  # robot_state's own
SPORT_SERVICE = "sport_mode"
_PROTECTED = ("motion_switcher", "robot_state")
_IS_PROTECTED = 5  # a status
_MODES = {"normal", "ai", "advanced", "mcf"}
_MOVE_SECONDS = 1.5


def folded_pose(robot: RobotSpec) -> Floats:
    """The pose of the lying robot: folded against stops that are beyond its published range."""
    beyond = robot.stop_low < robot.position_low
    folded: Floats = np.where(beyond, robot.stop_low + np.float32(0.01), robot.sit_pose)
    return folded


class SportMode:
    """Which mode is on, and the pose it holds."""

    def __init__(self, robot: RobotSpec, on: bool, joints: npt.NDArray[np.float64]) -> None:
        """`joints` are the robot's joint positions; the robot keeps them up to date."""
        self._robot, self._joints = robot, joints
        self.mode = "normal" if on else ""
        self.command = MotorCommand(robot.joint_count)
        self._lying = folded_pose(robot).astype(np.float64)
        self._target = self._from = self._lying
        self._damped = False
        self._since_ns = -round(_MOVE_SECONDS * 1e9)

    def _begin(self, target: npt.NDArray[np.float64], now_ns: int) -> None:
        """Move there from the joints' present positions: damped, they may be anywhere."""
        self._from, self._target = self._joints.copy(), target
        self._since_ns, self._damped = now_ns, False

    def update(self, now_ns: int) -> MotorCommand:
        """Sport mode's present command for the motors."""
        if self._damped:
            self.command.damp(self._robot.damping)
            return self.command
        done = min(max((now_ns - self._since_ns) / (_MOVE_SECONDS * 1e9), 0.0), 1.0)
        self.command.q[:] = self._from + done * (self._target - self._from)
        self.command.kp[:], self.command.kd[:] = self._robot.kp, self._robot.kd
        self.command.anew = True
        return self.command

    def sent(self) -> JointCommand:
        """The same, for rt/lowcmd."""
        command = self.command
        rows = (command.q, command.dq, command.kp, command.kd, command.torque)
        return JointCommand(*(row.astype(np.float32) for row in rows))

    def watch(self, held: Remote) -> None:
        """L2+B on the remote: damp, while this mode is on."""
        if self.mode and held.pressed >= {"L2", "B"}:
            self._damped = True

    def serve_switcher(self, api: int, parameter: str, now_ns: int) -> tuple[int, str]:
        """One request to motion_switcher; returns the vendor's status code, and data as JSON."""
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
            self._begin(self._target, now_ns)
            return 0, ""
        return NOT_IMPLEMENTED, ""

    def serve_robot_state(self, api: int, parameter: str) -> tuple[int, str]:
        """One request to robot_state: which services run, and sport mode's switch."""
        if api == SERVICE_LIST:
            sport = {"name": SPORT_SERVICE, "status": int(bool(self.mode)), "protect": 0}
            others = [{"name": name, "status": 1, "protect": 1} for name in _PROTECTED]
            return 0, json.dumps([sport, *others])
        if api == REPORT_RATE:
            return 0, ""
        if api != SERVICE_SWITCH:
            return NOT_IMPLEMENTED, ""
        name, switch = _field(parameter, "name"), _field(parameter, "switch")
        if name in _PROTECTED:
            return 0, json.dumps({"name": name, "status": _IS_PROTECTED})
        if name != SPORT_SERVICE or switch not in (0, 1):
            return NO_SUCH_SERVICE, ""
        self.mode = (self.mode or "normal") if switch else ""
        return 0, json.dumps({"name": name, "status": switch})

    def serve_sport(self, api: int, parameter: str, now_ns: int) -> tuple[int, str]:
        """One request to sport: lying and standing move the joints from their present positions;
        everything else is accepted and ignored."""
        poses = {
            STAND_UP: self._robot.stand_pose,
            RECOVERY_STAND: self._robot.stand_pose,
            STAND_DOWN: self._lying,
        }
        if api == DAMP:
            self._damped = True
        elif api in poses:
            self._begin(np.asarray(poses[api], np.float64), now_ns)
        return 0, ""


def _field(parameter: str, name: str) -> Any:
    try:
        content = json.loads(parameter)
    except ValueError:
        return None
    return content.get(name) if isinstance(content, dict) else None
