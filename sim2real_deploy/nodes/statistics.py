"""Statistics of the loop's last second, in words, for people and `make walk`."""

import numpy as np
import numpy.typing as npt
from diagnostic_msgs.msg import DiagnosticStatus

from sim2real_deploy.control.adaptation import beliefs
from sim2real_deploy.control.limits import Limit
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.ticks import COLUMNS, Ticks
from sim2real_deploy.nodes.messages import diagnosis
from sim2real_deploy.policy.policy import Policy

Figures = npt.NDArray[np.float64]


class LoopStatistics:
    """Collects drained ticks; `report` summarises them and starts over."""

    def __init__(self, loop: ControlLoop) -> None:
        self._loop = loop
        self._notes: list[str] = []
        self._figures: list[Figures] = []
        self._limited = dict.fromkeys(Limit, 0)  # ticks since the start in which a limit acted
        self._seen_late = 0
        self._began: tuple[float, float, int] | None = None  # s, robot's ms, states by then

    def note(self, words: str) -> None:
        """Note a right that the system did not grant; "" if it did."""
        if words:
            self._notes.append(words)

    def add(self, ticks: Ticks) -> None:
        if not len(ticks.figures):
            return
        self._figures.append(ticks.figures)
        bits = ticks.limits.astype(np.uint8)
        if bits.any():
            for limit in Limit:
                self._limited[limit] += int(np.count_nonzero((bits & limit).any(axis=1)))

    def report(self) -> DiagnosticStatus:
        loop, controller = self._loop, self._loop.controller
        counters, period_ns = loop.link.counters, controller.period_ns
        late = loop.late_ticks - self._seen_late
        self._seen_late = loop.late_ticks
        fault = controller.situation.fault
        level, words = DiagnosticStatus.OK, controller.mode.words
        if fault:
            level, words = DiagnosticStatus.ERROR, fault
        elif late:
            level, words = DiagnosticStatus.WARN, f"{late} ticks came late in the last second"
        facts: dict[str, object] = {"mode": controller.mode.words, "reason": controller.reason}
        if self._figures:
            facts.update(_timing(np.concatenate(self._figures), period_ns))
            facts.update(self._robot_keeps_time(self._figures[-1]))
        if controller.adaptation is not None:
            facts.update(beliefs.words(controller.adaptation))
        facts.update(_estimates(controller.policy))
        facts |= {
            "late ticks": loop.late_ticks,
            "policy steps over a period late": controller.walking.late,
            "states received": counters.received,
            "states lost": counters.lost,
            "states rejected": counters.bad_crc + counters.bad_length + counters.not_finite,
            "commands sent": counters.sent,
            "velocity commands rejected": controller.velocity.rejected,
            "limits that acted": ", ".join(
                f"{limit.name.lower()} {count}" for limit, count in self._limited.items() if count
            ),
            "tick rows dropped": loop.ticks.dropped,
            "system": "; ".join(self._notes) or "real-time priority, memory locked, cores awake",
        }
        self._figures.clear()
        return diagnosis("control", level, words, facts, controller.spec.name)

    def _robot_keeps_time(self, figures: Figures) -> dict[str, str]:
        """The rate of states since the first one, and the rate of the robot's clock relative to
        this computer's, including the time for which a twin's world waited."""
        counters = self._loop.link.counters
        names = ("now_ns", "stood_still_ns", "state_tick")
        now_ns, still_ns, tick = figures[-1, [COLUMNS.index(name) for name in names]]
        now_s = (now_ns + still_ns) / 1e9
        states = counters.received + counters.lost
        if tick < 0:
            return {}
        if self._began is None or tick < self._began[1]:  # or the robot restarted
            self._began = now_s, tick, states
        began_s, began_tick, began_states = self._began
        seconds = now_s - began_s
        if not seconds:
            return {}
        clock = (tick - began_tick) / 1e3 / seconds
        rate = (states - began_states) / seconds
        facts = {"robot's state rate": f"{rate:.2f} Hz", "robot's clock": f"{clock:.4f} of ours"}
        if still_ns:
            waited = f"{still_ns / 1e6:.0f} ms, and the twin's world with it"
            facts["this computer stood still"] = waited
        return facts


def _estimates(policy: Policy | None) -> dict[str, str]:
    """What the active policy's network believed in its last step."""
    if policy is None or not policy.estimated:
        return {}
    told = zip(policy.estimated, policy.estimates.tolist(), strict=True)
    return {"policy's estimates": ", ".join(f"{name} {value:.3g}" for name, value in told)}


def _timing(figures: Figures, period_ns: int) -> dict[str, str]:
    def column(name: str) -> Figures:
        return figures[:, COLUMNS.index(name)]

    def spread(name: str, values: Figures) -> dict[str, str]:
        if not len(values):
            return {}
        p50, p99, most = np.percentile(values, (50, 99, 100)) / 1e3
        return {f"{name} p50/p99/max": f"{p50:.0f} / {p99:.0f} / {most:.0f} us"}

    def rate(name: str, times_ns: Figures) -> dict[str, str]:
        """From the first to the last: a walk that ends within the block is not a slow one."""
        if len(times_ns) < 2 or times_ns[-1] <= times_ns[0]:
            return {}
        return {name: f"{(len(times_ns) - 1) * 1e9 / (times_ns[-1] - times_ns[0]):.1f} Hz"}

    stepped = column("policy_stepped") > 0
    active = column("policy").astype(np.int64)  # a policy being left steps as well
    of_active = column("policy_stepped").astype(np.int64) >> active & 1 > 0
    return (
        rate("rate", column("now_ns"))
        | rate("policy rate", column("now_ns")[of_active])
        | spread("state to command", column("age_ns"))
        | spread("tick", column("work_ns"))
        | spread("observation", column("observe_ns")[stepped])
        | spread("inference", column("infer_ns")[stepped])
        | spread("write", column("write_ns"))
        | spread("jitter", np.abs(column("gap_ns") - period_ns))
    )
