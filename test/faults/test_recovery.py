"""A fall in mid-walk, all the way: real processes, the twin on the wire, everything recorded."""

import math
import time

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("onnx")
from sim2real_deploy.faults.assembly import whole_stack
from sim2real_deploy.faults.cases import throw_over
from sim2real_deploy.robots.geometry import tilt


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_falls_damps_is_reset_recovers_and_walks_on() -> None:
    with whole_stack("go2", "go2_walk") as (stack, _):
        stack.recover()
        assert stack.mode == "walking"
        throw_over(stack)
        stack.until("damping", lambda: stack.mode == "damping")
        assert "fall" in stack.events
        stack.ask(velocity=None)
        stack.until("a reset as it lies", lambda: stack.succeeds("reset"))
        if stack.twin.ask(lambda twin: tilt(twin.base_truth.quaternion)) > 1.0:
            assert not stack.succeeds("stand")
        assert stack.succeeds("recover")
        stack.until("standing", lambda: stack.mode == "standing", patience_s=15.0)
        assert stack.succeeds("walk")
        stack.until("walking", lambda: stack.mode == "walking")
        stack.ask(velocity=(0.4, 0.0, 0.0))
        time.sleep(3.0)
        assert stack.stopped_by() == ""
        vx, vy = stack.twin.ask(lambda twin: twin.base_truth.velocity[:2])
        assert math.hypot(vx, vy) > 0.1, "it walks, wherever it points now"
        assert list(stack.runs.rglob("*.mcap"))
