"""Monitors of control and its policy, other writers on the wire, the recorder, the machine."""

import math
from typing import ClassVar

from sim2real_deploy.safety.chain import WALKING
from sim2real_deploy.safety.inputs import Inputs, Rate, Reading, Readings


class ControlMonitor:
    """Control's own report; empty while there is no control. `stage` is the supervisor's."""

    MEASURES: ClassVar = frozenset(
        {
            *("command_not_finite", "deadline_misses_per_s", "control_failed"),
            *("policy_not_finite", "control_silence_s", "idle_silence_s"),
            *("out_of_distribution", "command_age_s", "stage_mismatch"),
            "adaptation_strain",
        }
    )

    def __init__(self, stage: str = "") -> None:
        self._stage = stage
        self._misses = Rate()
        self._pid = 0
        self._not_finite = Rate()

    def measure(self, inputs: Inputs, now_ns: int) -> Readings:
        wild = self._not_finite(inputs.command_not_finite, now_ns)
        readings: Readings = {"command_not_finite": Reading(wild)}
        report = inputs.report
        if report is None:
            return readings
        if report.pid != self._pid:
            self._pid, self._misses = report.pid, Rate()
        misses = self._misses(report.deadline_misses, now_ns)
        readings["deadline_misses_per_s"] = Reading(misses)
        readings["control_failed"] = Reading(float(report.failed))
        readings["policy_not_finite"] = Reading(float(report.policy_not_finite))
        if self._stage and report.stage:
            readings["stage_mismatch"] = Reading(
                float(report.stage != self._stage), f"control {report.stage}, safety {self._stage}"
            )
        if not inputs.leaves:
            silence = "control_silence_s" if inputs.driving else "idle_silence_s"
            readings[silence] = Reading(inputs.control_silence_s)
        if report.mode == WALKING:
            readings["out_of_distribution"] = Reading(report.out_of_distribution)
            readings["adaptation_strain"] = Reading(report.adaptation_strain)
            if not math.isinf(report.command_age_s):  # infinite: nobody has steered yet
                readings["command_age_s"] = Reading(report.command_age_s)
        return readings


class SystemMonitor:
    MEASURES: ClassVar = frozenset(
        {
            *("strangers", "rivals", "sport_mode", "mode_silence_s", "recorder_silence_s"),
            *("disk_free_gb", "clock_jump_s", "unfit"),
        }
    )

    def __init__(self) -> None:
        self._offset_ns: int | None = None

    def measure(self, inputs: Inputs, now_ns: int) -> Readings:
        offset_ns = inputs.wall_ns - now_ns
        jump_s = 0.0 if self._offset_ns is None else abs(offset_ns - self._offset_ns) / 1e9
        self._offset_ns = offset_ns
        return {
            "strangers": Reading(
                len(inputs.lingering) * (not inputs.vendor_mode), ", ".join(inputs.lingering)
            ),
            "rivals": Reading(len(inputs.rivals) * inputs.driving, ", ".join(inputs.rivals)),
            "unfit": Reading(float(bool(inputs.unfit)), inputs.unfit),
            "mode_silence_s": _known(inputs.mode_silence_s),
            "sport_mode": Reading(float(inputs.sport_mode and inputs.driving)),
            "recorder_silence_s": _known(inputs.recorder_silence_s),
            "disk_free_gb": _known(inputs.disk_free_gb),
            "clock_jump_s": Reading(jump_s),
        }


def _known(value: float | None) -> Reading | None:
    return None if value is None else Reading(value)
