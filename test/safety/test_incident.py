"""What is kept of a stop."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from sim2real_deploy.safety.incident import incident
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.safety.supervisor import Change, Supervisor
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import StateEncoder
from support.safety_world import DAMPING, GO2, MS, TICK, healthy_inputs, healthy_state


def test_states_as_the_wire_brings_them_are_kept_whole() -> None:
    supervisor = Supervisor(GO2, load_events(GO2, "indoor"))
    sample = StateEncoder(GO2).encode(healthy_state(0))
    live = StateDecoder(GO2).decode(sample, 0)
    content = incident(supervisor, (), [live], None, 0)
    assert content["states"]["temperature"] == [healthy_state(0).temperature.astype(float).tolist()]


def test_an_incident_tells_what_happened_when_and_to_whom() -> None:
    supervisor = Supervisor(GO2, load_events(GO2, "indoor"))
    changes: list[Change] = []
    for now_ns in range(0, 100 * TICK, TICK):
        pressed = frozenset({"estop"} if now_ns == 50 * TICK else ())
        inputs = healthy_inputs(now_ns, pressed=pressed, report=DAMPING, command_damping=True)
        changes += supervisor.update(inputs, now_ns).changes
    states = [healthy_state(now_ns) for now_ns in range(0, 100 * TICK, TICK)]
    content = incident(supervisor, changes, states, DAMPING, 50 * TICK)
    assert json.loads(json.dumps(content)) == content
    assert content["stop"] == "estop"
    assert content["reason"] == "emergency stop was called"
    assert content["taken_over"] is False
    assert content["control"] == asdict(DAMPING)
    assert content["events"] == [
        {
            "t_s": 0.0,
            "event": "estop_called",
            "raised": True,
            "reaction": "estop",
            "text": "emergency stop was called",
            "remedy": "call reset when it is safe",
        }
    ]
    assert content["measured"]["battery_low"] == {
        "value": 80,
        "where": "",
        "threshold": 25,
        "unit": "%",
        "active": False,
    }
    assert content["measured"]["estop_called"]["active"] is True
    assert "policy_astray" not in content["measured"], "nothing was measured of it"
    series = content["states"]
    assert series["t_s"][-1] == pytest.approx((99 - 50) * TICK / 1e9)
    assert series["t_s"][0] == pytest.approx((1 - 50) * TICK / 1e9)
    assert len(series["t_s"]) == 50
    assert series["tick"][-1] == 99 * TICK // MS
    assert series["q"][0] == pytest.approx(GO2.stand_pose.tolist(), abs=1e-4)
    assert set(series) == {
        *("t_s", "tick", "quaternion", "gyroscope", "accelerometer"),
        *("q", "dq", "torque", "temperature"),
    }


def test_times_are_seconds_from_the_stop_and_values_are_short() -> None:
    supervisor = Supervisor(GO2, load_events(GO2, "indoor"))
    inputs = healthy_inputs(10 * TICK, pressed=frozenset({"estop"}), report=DAMPING)
    changes = supervisor.update(inputs, 10 * TICK).changes
    state = replace(healthy_state(30 * TICK), q=np.full(12, 0.123456, np.float32))
    content = incident(supervisor, changes, [state, state], DAMPING, 20 * TICK)
    assert [event["t_s"] for event in content["events"]] == [-10 * TICK / 1e9]
    assert content["states"]["t_s"] == [10 * TICK / 1e9]
    assert content["states"]["q"] == [[0.1235] * 12]


def test_an_incident_without_control_says_so() -> None:
    supervisor = Supervisor(GO2, load_events(GO2, "indoor"))
    content = incident(supervisor, (), (), None, 0)
    assert content["control"] is None
    assert content["stop"] == "none"
    assert content["states"]["t_s"] == []
