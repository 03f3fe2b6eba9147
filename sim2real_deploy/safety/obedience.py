"""Whether control obeys: damping on the wire right after an estop, step by step after a stop."""

from typing import ClassVar

from sim2real_deploy.safety.chain import Stop
from sim2real_deploy.safety.inputs import Inputs, Reading, Readings

DAMP_WITHIN_NS = 20_000_000  # from an estop to damping on the wire
BEGIN_WITHIN_NS = 100_000_000  # from a stop to a mode that ends in damping
SLOW_WITHIN_NS = 1_800_000_000  # from a stop to standing still, by our own odometry
END_WITHIN_NS = 6_000_000_000  # from a stop to damping: slowing down and sitting down
SLOW = 0.35  # m/s; sitting down shifts the trunk a little
# Modes that do not end in damping by themselves.
GOES_ON = frozenset({"walking", "standing", "standing_up", "recovering", "exciting"})


class Obedience:
    """`order` is the stop in force since `since_ns`; NONE after a takeover."""

    MEASURES: ClassVar = frozenset({"disobedience", "stop_disobedience"})

    def __init__(self) -> None:
        self._order = Stop.NONE
        self._since_ns = 0
        self._obeyed = False  # damping was seen on the wire after the estop
        self._drove = False  # control moved the robot since, or just before, the order

    def measure(
        self, inputs: Inputs, order: Stop, since_ns: int, speed: Reading | None, now_ns: int
    ) -> Readings:
        if order is not self._order:
            self._order, self._obeyed = order, False
        self._since_ns = since_ns
        self._drove = inputs.driving or (self._drove and order is not Stop.NONE)
        ignored = self._ignored_stop(inputs, speed, now_ns)
        return {
            "disobedience": Reading(float(self._ignored_estop(inputs, now_ns))),
            "stop_disobedience": Reading(float(bool(ignored)), ignored),
        }

    def _ignored_estop(self, inputs: Inputs, now_ns: int) -> bool:
        """The wire does not show damping in time.

        Once damping was seen, a pause is not disobedience: `control_idle_gone` watches for those.
        """
        report = inputs.report
        if self._order is not Stop.ESTOP or report is None or not self._drove:
            return False
        if now_ns - self._since_ns < DAMP_WITHIN_NS:
            return False
        current = report.leaving or inputs.command_age_s * 1e9 < DAMP_WITHIN_NS
        self._obeyed = inputs.command_damping and (current or self._obeyed)
        return not self._obeyed

    def _ignored_stop(self, inputs: Inputs, speed: Reading | None, now_ns: int) -> str:
        """How control fails to obey a stop; "" while it obeys."""
        report, late_ns = inputs.report, now_ns - self._since_ns
        if self._order is not Stop.STOP or report is None or not inputs.driving:
            return ""
        if late_ns > BEGIN_WITHIN_NS and report.mode in GOES_ON:
            return f"it is still {report.mode}"
        if late_ns > SLOW_WITHIN_NS and speed is not None and speed.value > SLOW:
            return f"it still goes {speed.value:.2g} m/s"
        return "it has not sat down in time" if late_ns > END_WITHIN_NS else ""
