"""Supervisor, control and twin in lockstep: no false stop, and heat as it really comes."""

import math

import numpy as np
import pytest

pytest.importorskip("mujoco")
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Event, Mode
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.evaluation.lockstep_supervisor import LockstepSupervisor
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.safety.chain import Stop
from sim2real_deploy.twin.config import Imperfections, load_imperfections
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.floors import Floor, named_floor
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.in_process import InProcessLink

GO2 = load_robot("go2")
STAGE = "indoor"
RATE = 500


class Walk:
    """The whole stack on one thread and simulated time."""

    def __init__(self, floor: Floor | None = None, errors: Imperfections | None = None) -> None:
        self.twin = TwinRobot(GO2, floor, errors or load_imperfections("default"), seed=1)
        self.link = InProcessLink(GO2, self.twin)
        policy = load_bundle("go2_walk", GO2).open()
        self.controller = Controller(GO2, load_stage(STAGE), policy)
        self.controller.situation.sport_released = True
        self.safety = LockstepSupervisor(self.controller, self.link, STAGE)
        self.sent: JointCommand | None = None
        self.tick()

    def tick(self) -> None:
        state = self.link.wait(1 / RATE)
        self.verdict = self.safety.verdict(state, self.sent)
        self.sent = self.controller.step(state, self.link.now_ns(), self.verdict)
        if self.sent is not None:
            self.link.send(self.sent)

    def reach(self, event: Event, mode: Mode) -> None:
        decision = self.controller.request(event, self.link.now_ns())
        assert decision.accepted, decision.words
        for _ in range(8 * RATE):
            if self.controller.mode is mode:
                return
            self.tick()
        raise AssertionError(f"still {self.controller.mode}: {self.controller.reason}")

    @property
    def raised(self) -> set[str]:
        return {change.event.key for change in self.safety.changes if change.raised}


def walk_and_push(seconds: float) -> Walk:
    walk = Walk(named_floor("rough", seed=2))
    walk.reach(Event.STAND, Mode.STANDING)
    walk.reach(Event.WALK, Mode.WALKING)
    rng = np.random.default_rng(0)
    for tick in range(round(seconds * RATE)):
        walk.controller.velocity.offer(0.4, 0.0, 0.3, walk.link.now_ns())
        if tick % (3 * RATE) == 2 * RATE:
            angle = rng.uniform(-math.pi, math.pi)
            direction = (math.cos(angle), math.sin(angle), 0.0)
            walk.twin.push(Push(force=120.0, direction=direction, duration=0.05))
        walk.tick()
        assert walk.safety.supervisor.latched is Stop.NONE, walk.safety.supervisor.latched_reason
    return walk


def test_walking_with_pushes_on_a_rough_floor_is_no_fault() -> None:
    walk = walk_and_push(15.0)
    assert walk.controller.mode is Mode.WALKING
    assert not walk.raised - {"state_lossy", "motor_warm"}


@pytest.mark.slow
def test_ten_minutes_of_that_are_no_fault_either() -> None:
    assert walk_and_push(600.0).controller.mode is Mode.WALKING


def test_a_hot_motor_is_derated_first_and_its_time_left_is_known() -> None:
    errors = load_imperfections("default")
    heat = errors.motors.heat.model_copy(update={"rate": 60.0, "cooling": 120.0, "start": 40.0})
    motors = errors.motors.model_copy(update={"heat": heat})
    walk = Walk(errors=errors.model_copy(update={"motors": motors}))
    walk.reach(Event.STAND, Mode.STANDING)
    watch = walk.safety.supervisor.watches["motor_time_left"]
    told: list[tuple[float, float]] = []
    fractions: list[float] = []
    while walk.safety.supervisor.latched is Stop.NONE:
        walk.tick()
        now_s = walk.link.now_ns() / 1e9
        assert now_s < 120, "it never got too hot"
        if watch.reading is not None and math.isfinite(watch.reading.value):
            told.append((now_s, watch.reading.value))
        fractions.append(walk.verdict.torque_fraction)
    reached_s = next(
        change.now_ns / 1e9 for change in walk.safety.changes if change.event.key == "motor_too_hot"
    )
    reached_s -= 0.5  # the event's own time
    assert walk.safety.supervisor.latched is Stop.STOP
    assert {"motor_warm", "motor_hot", "motor_too_hot"} <= walk.raised
    assert min(fractions) < 0.7
    late = [(now, left) for now, left in told if 2.0 < reached_s - now < 15.0]
    assert len(late) > 10
    for now, left in late:
        assert left == pytest.approx(reached_s - now, rel=0.2, abs=0.6)
