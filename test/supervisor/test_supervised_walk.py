"""Supervisor, control and twin in lockstep: no false stop, and heat as it really comes."""

import math

import numpy as np
import pytest

from support.safety_world import healthy_inputs, healthy_state

pytest.importorskip("mujoco")
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.gate.lockstep_supervisor import LockstepSupervisor
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.safety.chain import Stop
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.safety.supervisor import Supervisor
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.files import load_imperfections
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

    def reach(self, event: ModeEvent, mode: Mode) -> None:
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
    walk.reach(ModeEvent.STAND, Mode.STANDING)
    walk.reach(ModeEvent.WALK, Mode.WALKING)
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


def test_after_a_fall_it_gets_up_and_walks_on() -> None:
    """Falls, damps, is reset as it lies, recovers under the supervisor's eyes, walks."""
    walk = Walk()
    walk.reach(ModeEvent.STAND, Mode.STANDING)
    walk.reach(ModeEvent.WALK, Mode.WALKING)
    on_its_back = np.array([0.0, 0.0, 0.1, 0.1, 0.995, 0.0, 0.0])
    walk.twin.place(on_its_back, np.zeros(6), GO2.stand_pose.astype(float), np.zeros(12))
    for _ in range(3 * RATE):
        walk.tick()
    supervisor = walk.safety.supervisor
    assert walk.controller.mode is Mode.DAMPING
    assert "fell" in supervisor.latched_reason
    refused = walk.controller.request(ModeEvent.RECOVER, walk.link.now_ns())
    assert "stopped: fell" in refused.words  # a person resets it first
    assert walk.safety.reset() == ""
    walk.tick()
    assert "not upright" in walk.controller.request(ModeEvent.STAND, walk.link.now_ns()).words
    walk.reach(ModeEvent.RECOVER, Mode.STANDING)
    assert supervisor.latched is Stop.NONE, supervisor.latched_reason
    walk.reach(ModeEvent.WALK, Mode.WALKING)
    for _ in range(2 * RATE):
        walk.controller.velocity.offer(0.4, 0.0, 0.0, walk.link.now_ns())
        walk.tick()
    assert walk.controller.mode is Mode.WALKING
    assert not walk.raised - {"state_lossy", "motor_warm", "fall", "tilt"}


@pytest.mark.slow
def test_ten_minutes_of_that_are_no_fault_either() -> None:
    assert walk_and_push(600.0).controller.mode is Mode.WALKING


def test_a_hot_motor_is_derated_first_and_its_time_left_is_known() -> None:
    """The twin's own windings under a load that comes and goes with each step."""
    twin = TwinRobot(GO2, imperfections=load_imperfections("default"))
    supervisor = Supervisor(GO2, load_events(GO2, STAGE))
    motors, rng, step_s = twin.motors, np.random.default_rng(5), 0.02
    told: list[tuple[float, float]] = []
    fractions: list[float] = []
    now_ns = 0
    while supervisor.latched is Stop.NONE:
        now_ns += round(step_s * 1e9)
        share = 0.4 + 0.35 * math.sin(now_ns / 1e9 * 2 * math.pi * 2.0) + rng.normal() * 0.05
        motors.torque[:] = 0.1 * GO2.torque_limit
        motors.torque[2] = share * GO2.torque_limit[2]
        motors.warm(step_s)
        state = healthy_state(now_ns, temperature=np.rint(motors.temperature).astype(np.int8))
        verdict = supervisor.update(healthy_inputs(now_ns, state=state), now_ns).verdict
        fractions.append(verdict.torque_fraction)
        reading = supervisor.watches["motor_time_left"].reading
        if reading is not None and math.isfinite(reading.value):
            assert reading.where == "FR_calf_joint"
            told.append((now_ns / 1e9, reading.value))
        assert now_ns < 1e12, "it never got too hot"
    assert supervisor.latched is Stop.STOP
    assert supervisor.latched_reason == "FR_calf_joint is at 81 C"
    assert fractions[0] == 1.0
    assert min(fractions) == pytest.approx(0.5)
    reached_s = now_ns / 1e9 - 0.5  # the event's own time
    assert told[0][0] < 0.4 * reached_s, "it was told late"
    for now_s, left_s in told[len(told) // 4 :]:
        assert left_s == pytest.approx(reached_s - now_s, rel=0.2, abs=5.0)
