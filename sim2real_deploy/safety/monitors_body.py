"""Monitors of the joints, the battery and the remote control."""

from typing import ClassVar

import numpy as np

from sim2real_deploy.robots.spec import RobotSpec
from sim2real_deploy.robots.state import Floats, RobotState
from sim2real_deploy.safety.chain import WALKING
from sim2real_deploy.safety.inputs import Inputs, Rate, Reading, Readings
from sim2real_deploy.wire import remote

ESTOP_CHORD = frozenset({"L2", "B"})  # the vendor's own damping chord


class JointMonitor:
    """Range and motor modes count only while the robot is driven: lying folded, a robot rests
    against stops beyond its published range and must be able to stand up from there."""

    MEASURES: ClassVar = frozenset(
        {"joint_excess_rad", "joint_speed", "joint_torque", "motor_lost_per_s", "motors_off"}
    )

    def __init__(self, robot: RobotSpec) -> None:
        self._names = robot.joint_names
        self._low, self._high = robot.stop_low, robot.stop_high
        self._per_speed = 1.0 / robot.velocity_limit
        self._per_torque = 1.0 / robot.torque_limit
        self._rate = Rate()
        self._lost: np.ndarray[tuple[int], np.dtype[np.uint32]] | None = None
        self._lost_bytes = b""  # the same as bytes, which are cheaper to compare
        self._lost_sum = 0
        self._losing = ""
        self._readings: Readings = {}

    def measure(self, inputs: Inputs, now_ns: int) -> Readings:
        state = inputs.state
        if state is not None:
            self._readings = {
                "joint_speed": self._worst(np.abs(state.dq) * self._per_speed),
                "joint_torque": self._worst(np.abs(state.torque) * self._per_torque),
                "motor_lost_per_s": self._losses(state, now_ns),
            }
            if inputs.driving:
                excess = np.maximum(self._low - state.q, state.q - self._high)
                self._readings["joint_excess_rad"] = self._worst(excess)
                self._readings["motors_off"] = self._off(state)
        return self._readings

    def _worst(self, values: Floats) -> Reading:
        index = int(values.argmax())
        return Reading(float(values[index]), self._names[index])

    def _off(self, state: RobotState) -> Reading:
        """Motors whose mode differs from the majority; the mode's value itself does not matter."""
        modes = state.whole().motor_mode.tolist()
        common = max(set(modes), key=modes.count)
        odd = [name for name, mode in zip(self._names, modes, strict=True) if mode != common]
        return Reading(float(len(odd)), ", ".join(odd))

    def _losses(self, state: RobotState, now_ns: int) -> Reading:
        lost = state.whole().lost
        content = lost.tobytes()
        if content != self._lost_bytes:
            if self._lost is not None:
                self._losing = self._names[int((lost != self._lost).argmax())]
            self._lost, self._lost_bytes = lost.copy(), content
            self._lost_sum = int(lost.sum())
        return Reading(self._rate(self._lost_sum, now_ns), self._losing)


class BatteryMonitor:
    MEASURES: ClassVar = frozenset({"battery_percent", "cell_imbalance_v", "voltage"})

    def __init__(self) -> None:
        self._readings: Readings = {}
        self._cells = b""  # cells at the last computation; they seldom change
        self._imbalance_v = 0.0

    def measure(self, inputs: Inputs, _now_ns: int) -> Readings:
        state = None if inputs.state is None else inputs.state.whole()
        told = state is not None and state.battery_percent >= 0 and not inputs.foreign_simulator
        if state is not None and told:
            content = state.cell_millivolts.tobytes()
            if content != self._cells:
                self._cells = content
                cells = state.cell_millivolts[state.cell_millivolts > 0]
                self._imbalance_v = float(np.ptp(cells)) / 1000.0 if len(cells) else 0.0
            self._readings = {
                "battery_percent": Reading(state.battery_percent),
                "cell_imbalance_v": Reading(self._imbalance_v),
                "voltage": Reading(state.voltage),
            }
        return self._readings


class RemoteMonitor:
    """The estop chord, the dead-man button, and whether the remote is on.

    A remote that was never switched on counts as silent since the first state.
    """

    MEASURES: ClassVar = frozenset({"remote_estop", "dead_man_s", "remote_silence_s"})

    def __init__(self, dead_man: str) -> None:
        self._dead_man = dead_man  # the button; "" if none is required
        self._bytes = b""
        self._remote = remote.Remote(on=False)
        self._alive_ns: int | None = None
        self._held_ns: int | None = None

    def measure(self, inputs: Inputs, now_ns: int) -> Readings:
        state = None if inputs.state is None else inputs.state.whole()
        if state is not None and state.remote != self._bytes:
            self._bytes = state.remote
            self._remote = remote.decode(state.remote)
        if self._remote.on or (self._alive_ns is None and state is not None):
            self._alive_ns = now_ns
        walking = inputs.report is not None and inputs.report.mode == WALKING
        held = self._remote.on and self._dead_man in self._remote.pressed
        if not walking or held or self._held_ns is None:
            self._held_ns = now_ns
        return {
            "remote_estop": Reading(float(self._remote.pressed >= ESTOP_CHORD)),
            "dead_man_s": _since(self._held_ns, now_ns) if self._dead_man else None,
            "remote_silence_s": (
                None if inputs.foreign_simulator else _since(self._alive_ns, now_ns)
            ),
        }


def _since(then_ns: int | None, now_ns: int) -> Reading | None:
    return None if then_ns is None else Reading((now_ns - then_ns) / 1e9)
