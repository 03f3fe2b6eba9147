"""Walk to rough and back at 0.5 m/s in the imperfect twin, in lockstep, under the supervisor."""

import time

import numpy as np
import pytest

from sim2real_deploy.control.limits import Limit
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.repertoire import Fallback, Repertoire
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.gate.drive import Drive, fallen
from sim2real_deploy.gate.engines import open_robot
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor

SPEC = load_robot("go2")
STAGE = "indoor"
STEP = load_stage(STAGE).joint_step
BUNDLES = [load_bundle(name, SPEC) for name in ("go2_walk", "go2_rough")]


class Walk:
    def __init__(self, seed: int, fallback: str = "") -> None:
        self.rng = np.random.default_rng(seed)
        events = load_events(SPEC, STAGE)
        self.policies = Repertoire(
            [bundle.open() for bundle in BUNDLES],
            Fallback.before_stop(fallback, events) if fallback else None,
        )
        robot = open_robot("mujoco", SPEC, Floor(), load_imperfections("default", "go2"), 0.0)
        robot.reset(seed)
        self.drive = Drive(BUNDLES[0], robot, STAGE, supervised=True, policies=self.policies)
        self.drive.stand_and_walk()
        self.controller, self.robot = self.drive.controller, robot
        self.largest = 0.0  # change of a target in one tick, where no torque limit moved it
        self.took_us: list[float] = []  # CPU time of each tick of control, switching included
        self.networks = 0  # most that stepped in one tick
        self._step, self.controller.step = self.controller.step, self._timed
        self.walk(2.0)

    def _timed(self, *seen):
        start_ns = time.thread_time_ns()
        sent = self._step(*seen)
        self.took_us.append((time.thread_time_ns() - start_ns) / 1e3)
        self.networks = max(self.networks, self.controller.walking.stepped.bit_count())
        return sent

    def walk(self, seconds: float) -> None:
        for tick in range(round(seconds * 500)):
            before = self.controller.limiter.sent.q.copy()
            self.drive.walk_at((0.5, 0.0, 0.0))
            self.drive.tick()
            acted = np.frombuffer(self.controller.limiter.acted, np.uint8)
            free = acted & (Limit.TORQUE | Limit.VELOCITY) == 0
            moved = np.abs(self.controller.limiter.sent.q - before)
            self.largest = max(self.largest, float(moved[free].max(initial=0.0)))
            if tick % 10 == 0:
                assert not fallen(self.robot, self.robot.truth)
        assert self.controller.mode is Mode.WALKING, self.controller.reason

    def switch(self) -> None:
        """To the other one; a limit that acts for a moment is waited for, as the loop does."""
        for _ in range(50):
            decision = self.controller.switch("", self.drive.link.now_ns())
            if decision.accepted:
                return
            assert "a limit acts" in decision.words
            self.walk(0.004)
        raise AssertionError(decision.words)


@pytest.mark.slow
def test_a_hundred_times_to_rough_and_back():
    """The stage's step bounds the command, and a tick's own work stays inside its 2 ms: a deadline
    is then missed only if the computer stands still."""
    walk = Walk(seed=1)
    start = walk.robot.truth.position[:2].copy()
    for _ in range(200):
        walk.switch()
        walk.walk(walk.rng.uniform(0.5, 1.0))
    assert walk.policies.name == "go2_walk"
    assert walk.largest <= STEP + 1e-6
    assert walk.controller.walking.late == 0
    assert walk.networks == 1
    p50, p99, most = np.percentile(walk.took_us, (50, 99, 100))
    print(f"a tick of control: p50 {p50:.0f}, p99 {p99:.0f}, most {most:.0f} us")
    assert most < 2000.0  # a tick's period
    assert np.linalg.norm(walk.robot.truth.position[:2] - start) > 20.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_fallback_takes_over_from_a_policy_that_sees_noise(seed):
    walk = Walk(seed, fallback="go2_rough")
    policy = walk.policies.policies[0]
    observe = policy.observe

    def noisy(state, command):
        observe(state, command)
        policy.observation += walk.rng.normal(0, 20, policy.observation.shape).astype(np.float32)

    walk.walk(walk.rng.uniform(0.0, 0.5))
    policy.observe = noisy
    walk.walk(0.04)
    assert walk.policies.name == "go2_rough"
    assert "far from its training" in walk.controller.walking.switched
    walk.walk(4.0)
    assert walk.largest <= STEP + 1e-6
