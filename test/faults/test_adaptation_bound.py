"""Adaptation at its bound, over the real chain: told by the supervisor, switched off, walks on."""

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("onnx")
from sim2real_deploy.faults.assembly import whole_stack
from sim2real_deploy.faults.cases import weaken_motor


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_motor_too_weak_to_make_up_for_switches_adaptation_off() -> None:
    with whole_stack("go2", "go2_walk", "all") as (stack, _):
        stack.recover()
        weaken_motor(stack)
        stack.until("the bound is told", lambda: "adaptation_bound" in stack.events, 15.0)
        assert stack.stopped_by() == "", "a warning only: the policy walks on alone"
