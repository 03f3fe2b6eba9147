"""The record of a stop: events, measurements, control's last report, the last seconds of state."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sim2real_deploy.robots.state import RobotState
from sim2real_deploy.safety.chain import Report
from sim2real_deploy.safety.supervisor import Change, Supervisor

EVERY = 2  # keep every second state (125 Hz); the bag has all of them
SERIES = ("quaternion", "gyroscope", "accelerometer", "q", "dq", "torque", "temperature")


def incident(
    supervisor: Supervisor,
    changes: Iterable[Change],
    states: Sequence[RobotState],
    report: Report | None,
    now_ns: int,
) -> dict[str, Any]:
    """The content of an incident file; times are seconds before (negative) or after `now_ns`."""
    kept = [state.whole() for state in states[::-EVERY][::-1]]
    return {
        "stop": supervisor.latched.name.lower(),
        "reason": supervisor.latched_reason,
        "taken_over": supervisor.taken_over,
        "control": None if report is None else asdict(report),
        "events": [
            {
                "t_s": (change.now_ns - now_ns) / 1e9,
                "event": change.event.key,
                "raised": change.raised,
                "reaction": change.event.reaction.name.lower(),
                "text": change.text,
                "remedy": change.event.remedy,
            }
            for change in changes
        ],
        "measured": {
            key: {
                "value": watch.reading.value,
                "where": watch.reading.where,
                "threshold": watch.event.threshold,
                "unit": watch.event.unit,
                "active": watch.active,
            }
            for key, watch in supervisor.watches.items()
            if watch.reading is not None
        },
        "states": {
            "t_s": [(state.received_ns - now_ns) / 1e9 for state in kept],
            "tick": [state.tick for state in kept],
            **{
                name: [getattr(state, name).astype(float).round(4).tolist() for state in kept]
                for name in SERIES
            },
        },
    }
