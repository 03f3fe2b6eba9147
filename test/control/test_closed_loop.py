"""The loop and the controller on the imperfect twin, in lockstep: the robot's own code, walking."""

import dataclasses
import secrets
import threading

import numpy as np
import pytest

from sim2real_deploy.control import loop as loop_module
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.supervision import Supervised, Unsupervised
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.robots.geometry import tilt, to_world
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.runtime.local_channel import LocalChannel
from sim2real_deploy.safety.chain import CLEAR, SupervisorSide
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.decoders import CommandDecoder
from sim2real_deploy.wire.in_process import InProcessLink
from support.policy_samples import sample_bundle

SPEC = load_robot("go2")


class Stack:
    def __init__(self, policy, supervision=None, stage="indoor"):
        self.twin = TwinRobot(SPEC, imperfections=load_imperfections(), seed=3)
        self.link = InProcessLink(SPEC, self.twin)
        self.controller = Controller(SPEC, load_stage(stage), policy)
        self.controller.situation.sport_released = True
        self.loop = ControlLoop(self.link, self.controller, supervision or Unsupervised())
        self.cycle()

    def cycle(self, seconds=0.002):
        for _ in range(round(seconds * SPEC.wire.rate_hz)):
            self.loop.cycle()

    def ask(self, event):
        return self.controller.request(event, self.link.now_ns())

    def until(self, mode, seconds=4.0):
        for _ in range(round(seconds * SPEC.wire.rate_hz)):
            if self.controller.mode is mode:
                return
            self.loop.cycle()
        raise AssertionError(f"{self.controller.mode.words}: {self.controller.reason}")

    def height(self):
        return self.twin.truth.position[2]

    def velocity(self):
        """The truth, in the robot's own frame."""
        truth = self.twin.truth
        return to_world(truth.quaternion * [1, -1, -1, -1], truth.velocity)


@pytest.fixture
def sample(tmp_path):
    return load_bundle(sample_bundle(tmp_path, SPEC), SPEC).open()


def test_stand_walk_and_sit_down_with_odometry_near_the_truth():
    stack = Stack(load_bundle("go2_walk", SPEC).open())
    lying = stack.height()
    assert stack.ask(ModeEvent.STAND).accepted
    stack.until(Mode.STANDING)
    assert stack.height() > SPEC.base_height - 0.05
    assert stack.ask(ModeEvent.WALK).accepted
    odometry, errors, speeds = LegOdometry(SPEC), [], []
    for tick in range(3000):
        stack.controller.velocity.offer(0.5, 0.0, 0.0, stack.link.now_ns())
        stack.cycle()
        if tick % 5 == 0:
            odometry.update(stack.controller.state)
            if tick > 1500:
                speeds.append(stack.velocity()[0])
                errors.append(np.subtract(odometry.velocity, stack.velocity())[:2])
    assert stack.controller.mode is Mode.WALKING
    assert np.mean(speeds) > 0.3
    assert np.sqrt(np.mean(np.square(errors))) < 0.1
    assert stack.ask(ModeEvent.SIT).accepted
    stack.until(Mode.DAMPING)
    stack.cycle(0.5)
    assert stack.height() < lying + 0.05
    # A ROS message reads anything but plain floats as zero.
    assert {type(value) for value in (*odometry.velocity, *odometry.position)} == {float}


@pytest.mark.parametrize("phase_s", [0.0, 0.07, 0.13, 0.2])
def test_it_sits_down_level_wherever_in_its_step_it_is_asked(phase_s):
    """Folding the legs with one foot in the air tips the robot over."""
    stack = Stack(load_bundle("go2_walk", SPEC).open())
    stack.ask(ModeEvent.STAND)
    stack.until(Mode.STANDING)
    stack.ask(ModeEvent.WALK)
    stack.cycle(1.5 + phase_s)
    assert stack.ask(ModeEvent.SIT).accepted
    tilts = []
    for _ in range(3000):
        stack.loop.cycle()
        tilts.append(tilt(stack.twin.truth.quaternion.tolist()))
        if stack.controller.mode is Mode.DAMPING:
            break
    assert stack.controller.mode is Mode.DAMPING
    assert max(tilts) < 0.3


@pytest.mark.parametrize("phase_s", [0.04, 0.08, 0.12])
def test_it_stands_upright_however_fast_it_went_when_it_was_asked(phase_s):
    stack = Stack(load_bundle("go2_walk", SPEC).open(), stage="field")
    stack.ask(ModeEvent.STAND)
    stack.until(Mode.STANDING)
    stack.ask(ModeEvent.WALK)
    for _ in range(40):
        stack.controller.velocity.offer(1.5, 0.0, 0.0, stack.link.now_ns())
        stack.cycle(0.1)
    stack.cycle(phase_s)
    assert np.hypot(*stack.twin.truth.velocity[:2]) > 1.0
    stack.ask(ModeEvent.STAND)
    stack.until(Mode.STANDING)
    stack.cycle(0.5)
    assert stack.height() > 0.25


def test_each_tick_leaves_a_row(sample):
    stack = Stack(sample)
    stack.ask(ModeEvent.STAND)
    stack.until(Mode.STANDING)
    stack.ask(ModeEvent.WALK)
    stack.loop.ticks.drain()
    stack.controller.velocity.offer(0.4, 0.0, 0.1, stack.link.now_ns())
    stack.cycle(0.2)
    rows = stack.loop.ticks.drain()
    assert len(rows.figures) == 100
    assert np.all(np.diff(rows.column("tick")) == 1)
    assert np.all(np.diff(rows.column("now_ns")) == 2_000_000)
    assert np.all(rows.column("mode") == Mode.WALKING)
    assert rows.column("policy_stepped").sum() == 10
    assert rows.column("vx")[-1] == pytest.approx(0.18)  # shaped with each policy step: 1 m/s^2
    assert np.float32(rows.column("vx")[-1]) == stack.controller.velocity.shaped[0]
    np.testing.assert_array_equal(rows.sent[-1], stack.controller.limiter.sent_block)
    np.testing.assert_array_equal(rows.actions[0][-10], sample.action)
    assert stack.loop.ticks.drain().figures.shape[0] == 0


def test_a_lost_state_is_no_late_tick(sample):
    stack = Stack(sample)
    stack.cycle(0.02)
    stack.loop.ticks.drain()
    now_ns, counters = stack.link.now_ns(), stack.link.counters
    # Gap in periods, states lost in it, whether a state came at last, late or not.
    cases = [
        (1.0, 0, True, False),
        (2.1, 0, True, True),
        (2.1, 1, True, False),
        (3.1, 1, True, True),
        (2.5, 0, False, False),  # waited in vain for a state
        (0.5, 2, True, False),
        (4.0, 0, False, True),
    ]
    for periods, lost, came, _ in cases:
        now_ns += round(periods * stack.controller.period_ns)
        counters.lost += lost
        stack.loop.tick(stack.controller.state if came else None, now_ns)
    late = [case[-1] for case in cases]
    assert (stack.loop.ticks.drain().column("missed") > 0).tolist() == late
    assert stack.loop.late_ticks == sum(late)


def test_a_reader_that_falls_behind_loses_the_oldest_rows_and_they_are_counted(sample):
    stack = Stack(sample)
    stack.loop.ticks.drain()
    ring = stack.loop.ticks
    for now in range(3000):
        ring.write(now, 0, 0, 0, 0, False)
    rows = ring.drain()
    assert rows.column("now_ns")[-1] == 2999
    assert ring.dropped == 3000 - len(rows.figures) > 0


def test_a_request_of_another_thread_is_decided_by_the_loop(sample):
    stack = Stack(sample)
    stopped, decisions = threading.Event(), []

    def ask():
        decisions.append(stack.loop.request(ModeEvent.WALK))
        decisions.append(stack.loop.request(ModeEvent.STAND))
        stopped.set()

    asker = threading.Thread(target=ask)
    asker.start()
    stack.loop.run(stopped)
    asker.join()
    assert [decision.accepted for decision in decisions] == [False, True]
    assert "while passive" in decisions[0].words


class Recording(InProcessLink):
    def send(self, command):
        sample = super().send(command)
        self.sent.append(CommandDecoder(SPEC).decode(sample))
        return sample


class Failing(Unsupervised):
    """Safety's face breaks after a second of standing."""

    ticks = 0

    def verdict(self, now_ns):
        self.ticks += 1
        if self.ticks == 500:
            raise OSError("the socket is gone")
        return CLEAR


def test_whatever_ends_the_loop_damping_is_the_last_thing_sent(sample):
    twin = TwinRobot(SPEC)
    link = Recording(SPEC, twin)
    link.sent = []
    controller = Controller(SPEC, load_stage(), sample)
    controller.situation.sport_released = True
    loop = ControlLoop(link, controller, Failing())
    loop.cycle()
    controller.request(ModeEvent.STAND, link.now_ns())
    with pytest.raises(OSError, match="the socket is gone"):
        loop.run(threading.Event())
    assert any(command.kp.any() for command in link.sent)
    for command in link.sent[-20:]:
        assert not command.kp.any()
        np.testing.assert_array_equal(command.kd, SPEC.damping)


def leap(stack):
    """The robot's counter goes on elsewhere."""
    stack.link.latest.tick -= 60_000
    stack.cycle()
    assert stack.link.counters.leaps == 1


def test_beside_a_robot_that_restarted_nothing_is_sent(sample):
    """It comes up in its own sport mode, which stands it up: the damping of the stop before, still
    sent, made two writers."""
    stack = Stack(sample)
    stack.ask(ModeEvent.DAMP)
    stack.cycle()
    assert stack.controller.mode is Mode.DAMPING
    leap(stack)
    assert stack.controller.mode is Mode.PASSIVE
    sent = stack.link.counters.sent
    stack.cycle(0.1)
    assert stack.link.counters.sent == sent
    refused = stack.ask(ModeEvent.STAND)
    assert "sport mode is not released" in refused.words, "the wire has to be claimed anew"
    stack.loop._leave()
    assert stack.link.counters.sent == sent


def test_a_robot_whose_counter_leaps_while_it_is_driven_is_damped(sample):
    stack = Stack(sample)
    stack.ask(ModeEvent.STAND)
    stack.until(Mode.STANDING)
    leap(stack)
    assert stack.controller.mode is Mode.DAMPING
    assert "it restarted, or this computer slept" in stack.controller.situation.fault
    sent = stack.link.counters.sent
    stack.cycle(0.1)
    assert stack.link.counters.sent == sent + 50, "it may still hold our last command"


def test_a_wire_that_was_never_ours_is_left_alone(sample):
    stack = Stack(sample)
    stack.controller.situation.other_writers = "somebody"
    stopped = threading.Event()
    stopped.set()
    stack.loop.run(stopped)
    assert stack.link.counters.sent == 0


def test_the_chain_carries_heartbeats_answers_and_their_absence(sample, tmp_path):
    with (
        LocalChannel(tmp_path, "safety", "control") as safety,
        LocalChannel(tmp_path, "control", "safety") as control,
    ):
        side = SupervisorSide(secrets.randbits(64), "supervisor")
        stack = Stack(sample, Supervised(control, "control"))

        def live(seconds):
            for _ in range(round(seconds * 100)):
                now = stack.link.now_ns()
                safety.send(side.heartbeat(CLEAR, 0, secrets.randbits(64), now))
                stack.cycle(0.01)
                for datagram in safety.receive():
                    side.hear(datagram)
                assert side.silence_s(stack.link.now_ns()) < 0.03

        assert "no heartbeat" in stack.ask(ModeEvent.STAND).words
        live(0.05)
        assert stack.loop.supervision.supervisor == "supervisor"
        assert side.report.damping
        assert stack.ask(ModeEvent.STAND).accepted
        live(1.0)
        assert side.report.mode == "standing_up"
        assert not side.report.damping
        stack.cycle(0.1)
        assert stack.controller.mode is Mode.DAMPING
        assert "silent" in stack.controller.reason


def test_a_request_that_was_given_up_does_not_happen_later(sample, monkeypatch):
    """Who was told that control does not answer must not see the robot stand up a minute later."""
    monkeypatch.setattr(loop_module, "REQUEST_TIMEOUT_S", 0.05)
    stack = Stack(sample)
    answer = stack.loop.request(ModeEvent.STAND)
    assert not answer.accepted
    assert "does not answer" in answer.words
    stack.cycle(0.1)
    assert stack.controller.mode is Mode.PASSIVE


class Healthy(Unsupervised):
    """Well, until it is told not to be."""

    healthy = True

    def verdict(self, now_ns):
        return dataclasses.replace(CLEAR, healthy=self.healthy)


def end_while_walking(stack, urgent=None):
    """Ask the loop to end, and note each mode it goes through."""
    assert stack.ask(ModeEvent.STAND).accepted
    stack.until(Mode.STANDING)
    assert stack.ask(ModeEvent.WALK).accepted
    stack.cycle(0.5)
    modes, cycle = [], stack.loop.cycle

    def noting():
        cycle()
        modes.append(stack.controller.mode)

    stack.loop.cycle = noting
    stopped = threading.Event()
    stopped.set()
    stack.loop.run(stopped, urgent)
    return list(dict.fromkeys(modes))


def test_an_end_in_good_health_slows_down_and_sits(sample):
    modes = end_while_walking(Stack(sample, Healthy()))
    assert modes == [Mode.SLOWING_DOWN, Mode.SITTING_DOWN, Mode.DAMPING]


def test_an_end_without_a_healthy_supervisor_damps_at_once(sample):
    safety = Healthy()
    stack = Stack(sample, safety)
    stack.controller.velocity.brake = lambda: setattr(safety, "healthy", False)
    modes = end_while_walking(stack)
    assert Mode.SITTING_DOWN not in modes
    assert stack.controller.mode is Mode.DAMPING


def test_asked_to_end_again_it_damps_at_once(sample):
    urgent = threading.Event()
    urgent.set()
    stack = Stack(sample, Healthy())
    assert end_while_walking(stack, urgent) == []
    assert stack.controller.mode is Mode.DAMPING
