"""Control's commands as seen on the wire, checked against limits that control does not compute.

The limiter shares a process with the policy, ONNX Runtime and ROS. Should it fail, a command leaves
its envelope: a target outside the joint's range, gains no controller has, more torque than the
joint can bear, or a target that the joint does not follow.
"""

from typing import ClassVar

import numpy as np

from sim2real_deploy.robots.spec import FULL_TORQUE_RAD, MOST_KD, RobotSpec
from sim2real_deploy.robots.state import Floats, JointCommand, RobotState
from sim2real_deploy.safety.inputs import CURRENT_S, Inputs, Reading, Readings


class CommandEnvelope:
    MEASURES: ClassVar = frozenset(
        {"command_excess_rad", "command_gain", "command_torque", "tracking_error_rad"}
    )

    def __init__(self, robot: RobotSpec) -> None:
        self._names = robot.joint_names
        self._low, self._high = robot.position_low, robot.position_high
        self._per_torque = 1.0 / robot.torque_limit
        self._per_kp = FULL_TORQUE_RAD / robot.torque_limit
        self._state: RobotState | None = None
        self._judged: JointCommand | None = None
        self._asked: Readings = {}  # what depends on the command alone

    def measure(self, inputs: Inputs, _now_ns: int) -> Readings:
        self._state = inputs.state or self._state
        command = inputs.command
        stale = inputs.command_age_s >= CURRENT_S
        if command is None or stale or inputs.command_damping:
            return {}
        if command is not self._judged:
            self._judged = command
            self._asked = self._judge(command)
        if self._state is None:
            return self._asked
        return {**self._asked, **self._judge_at(command, self._state)}

    def _judge(self, command: JointCommand) -> Readings:
        excess = np.maximum(self._low - command.q, command.q - self._high)
        gain = np.maximum(command.kp * self._per_kp, command.kd / MOST_KD)
        pushes = (command.kp < 0) | (command.kd < 0)  # away from its target: no controller does
        return {
            "command_excess_rad": self._worst(np.where(command.kp > 0, excess, 0.0)),
            "command_gain": self._worst(np.where(pushes, np.inf, gain)),
        }

    def _judge_at(self, command: JointCommand, state: RobotState) -> Readings:
        """The torque that the motor boards would apply at the current state."""
        error = command.q - state.q
        torque = command.kp * error + command.kd * (command.dq - state.dq) + command.torque
        return {
            "command_torque": self._worst(np.abs(torque) * self._per_torque),
            "tracking_error_rad": self._worst(np.where(command.kp > 0, np.abs(error), 0.0)),
        }

    def _worst(self, values: Floats) -> Reading:
        index = int(values.argmax())
        return Reading(float(values[index]), self._names[index])
