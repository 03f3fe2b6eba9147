"""Control's commands as seen on the wire, checked against limits that control does not compute.

The limiter shares a process with the policy, ONNX Runtime and ROS. Should it fail, a command leaves
its envelope: a target outside the joint's range, gains no controller has, more torque than the
joint can bear, or a target that the joint does not follow.
"""

from collections.abc import Iterator
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

    def measure(self, inputs: Inputs, _now_ns: int) -> Readings:
        """The worst of all commands since the last cycle that did not damp."""
        self._state = inputs.state or self._state
        commands = list(inputs.commands_between)
        current = inputs.command_age_s < CURRENT_S
        if inputs.command is not None and current and not inputs.command_damping:
            commands.append(inputs.command)
        worst: dict[str, Reading] = {}
        for command in commands:
            for name, reading in self._judge(command):
                if name not in worst or reading.value > worst[name].value:
                    worst[name] = reading
        return {**worst}

    def _judge(self, command: JointCommand) -> Iterator[tuple[str, Reading]]:
        """The command by itself, and the torque that the motor boards apply at the newest state."""
        follows = command.kp > 0
        excess = np.maximum(self._low - command.q, command.q - self._high)
        yield "command_excess_rad", self._worst(np.where(follows, excess, 0.0))
        gain = np.maximum(command.kp * self._per_kp, command.kd / MOST_KD)
        pushes = (command.kp < 0) | (command.kd < 0)  # away from its target: no controller does
        yield "command_gain", self._worst(np.where(pushes, np.inf, gain))
        if self._state is None:
            return
        error = command.q - self._state.q
        damping = command.kd * (command.dq - self._state.dq)
        torque = np.abs(command.kp * error + damping + command.torque) * self._per_torque
        yield "command_torque", self._worst(torque)
        yield "tracking_error_rad", self._worst(np.where(follows, np.abs(error), 0.0))

    def _worst(self, values: Floats) -> Reading:
        index = int(values.argmax())
        return Reading(float(values[index]), self._names[index])
