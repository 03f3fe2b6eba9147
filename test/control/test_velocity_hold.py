"""The velocity hold: it gives back what is lost, does nothing where nothing is, stays bounded."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.control.adaptation.velocity_hold import (
    BOUNDS,
    DISAGREE,
    HOLDS,
    LEARN_S,
    LET_GO,
    RATE,
    SETTLE_S,
    Hold,
    Told,
    step,
)
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.velocity_command import SHAPED_NS, VelocityCommand
from sim2real_deploy.robots.vectors import REST

PERIOD = 0.02
COMMAND = (0.6, 0.0, 0.0)
LEARNT = SETTLE_S + LEARN_S + 0.1
UNKNOWN = (math.nan,) * 3


def take(hold, command, seen, believed=None, stride_s=0.5, allowed=True, policy=0):
    """One step of a policy."""
    pace = PERIOD, round(stride_s / PERIOD), policy
    rows = command, seen, seen if believed is None else believed, pace
    step(hold, Told(*np.array(rows, float)), allowed)


class Robot:
    """Reaches nine tenths of its command, a little late, with a gait's bounce."""

    def __init__(self, gain=0.9):
        self.hold, self.gain = Hold.of(np.zeros(3)), gain
        self.velocity, self.lost, self.time = np.zeros(3), np.zeros(3), 0.0
        self.allowed, self.lie, self.policy = True, np.zeros(3), 0

    @property
    def trim(self):
        return tuple(self.hold.trim.tolist())

    def walk(self, seconds, command=COMMAND):
        for _ in range(round(seconds / PERIOD)):
            self.time += PERIOD
            bounce = 0.05 * math.sin(2 * math.pi * 4.0 * self.time)
            reached = self.gain * np.add(command, self.hold.trim) - self.lost
            self.velocity += 0.15 * (reached - self.velocity)
            seen = self.velocity + bounce
            lie, policy = seen + self.lie, self.policy
            take(self.hold, command, seen, lie, allowed=self.allowed, policy=policy)
        return self


@pytest.mark.parametrize("gain", [0.75, 0.9, 1.1])
def test_a_loss_is_given_back_within_three_seconds(gain):
    robot = Robot(gain).walk(LEARNT)
    before = robot.velocity.copy()
    robot.lost[:] = 0.04, 0.02, -0.03
    robot.walk(0.3)
    assert np.linalg.norm(robot.velocity - before) > 0.03
    robot.walk(2.7)
    assert np.linalg.norm(robot.velocity - before) < 0.2 * np.linalg.norm(robot.lost)


def test_what_this_robot_always_misses_is_left_as_it_is():
    robot = Robot(gain=0.8).walk(60.0)
    assert robot.hold.memo[HOLDS]
    assert robot.trim == REST


def test_another_command_starts_anew_and_rest_is_rest():
    robot = Robot().walk(LEARNT)
    robot.lost[:] = 0.04
    robot.walk(3.0)
    assert robot.trim[0] > 0.02
    robot.walk(PERIOD, (0.5, 0.0, 0.0))
    assert not robot.hold.memo[HOLDS]
    assert robot.trim[0] > 0.02, "no jump"
    robot.walk(1.0, (0.5, 0.0, 0.0))
    assert robot.trim == REST
    robot = Robot().walk(LEARNT)
    robot.lost[:] = 0.04
    robot.walk(3.0).walk(PERIOD, REST)
    assert robot.trim == REST, "a robot told to stand is told nothing else"


def test_it_lets_go_where_the_bound_is_not_enough():
    robot = Robot().walk(LEARNT)
    robot.lost[:] = 0.3, 0.0, 0.0  # it stands at a wall
    robot.walk(3.0)
    assert robot.hold.memo[LET_GO]
    assert robot.trim == REST


def test_it_lets_go_where_feet_and_network_disagree():
    robot = Robot().walk(LEARNT)
    robot.lost[:] = 0.04
    robot.walk(1.0)
    robot.lie[0] = 1.5 * DISAGREE
    robot.walk(3.0)
    assert robot.trim == REST


def test_switched_off_it_fades():
    robot = Robot().walk(LEARNT)
    robot.lost[:] = 0.04
    robot.walk(3.0)
    before, robot.allowed = robot.trim, False
    robot.walk(PERIOD)
    assert 0.0 < before[0] - robot.trim[0] <= 1.01 * RATE * PERIOD
    robot.walk(1.0)
    assert robot.trim == REST


NUMBERS = st.floats(-3.0, 3.0) | st.sampled_from([math.nan, math.inf, -math.inf, 1e30])
VELOCITIES = st.tuples(NUMBERS, NUMBERS, NUMBERS)


@settings(max_examples=60, deadline=None)
@given(
    readings=st.lists(st.none() | st.tuples(VELOCITIES, VELOCITIES), min_size=1, max_size=12),
    command=st.tuples(*[st.floats(-1.0, 1.0)] * 3),
)
def test_no_reading_takes_the_correction_out_of_its_bounds(readings, command):
    stage, hold = load_stage("indoor"), Hold.of(np.zeros(3))
    velocity = VelocityCommand(stage, hold.trim)
    velocity.offer(*command, 0)
    velocity.shaping.bounds[1] = 1e9
    learnt = np.multiply(command, 0.9)
    hostile = [reading or (UNKNOWN, UNKNOWN) for reading in readings for _ in range(2)]
    for seen, believed in [(learnt, learnt)] * round(LEARNT / PERIOD) + hostile:
        before = hold.trim.copy()
        take(hold, command, seen, believed)
        assert all(abs(t) <= bound * 1.000001 for t, bound in zip(hold.trim, BOUNDS, strict=True))
        assert math.dist(hold.trim, before) <= math.sqrt(3) * RATE * PERIOD * 1.001
        given = velocity.shape(1 + velocity.shaping.memo[SHAPED_NS])
        assert (np.abs(given) <= np.multiply(velocity.most, 1.000001)).all()
        np.testing.assert_allclose(np.add(velocity.shaped, velocity.trim), given, atol=1e-6)


def test_a_robot_told_to_stand_is_told_nothing_else():
    """Nor one that is told little, much more: in the step in which the command changes."""
    velocity = VelocityCommand(load_stage("indoor"), np.full(3, 0.1))
    velocity.shaping.bounds[1] = 1e9
    for command, most in (((0.4, 0.0, 0.0), 0.1), ((0.1, 0.0, 0.0), 0.025), (REST, 0.0)):
        velocity.offer(*command, 0)
        velocity.shape(1)
        velocity.shape(2)
        assert velocity.trim == pytest.approx((most,) * 3)


def test_a_push_is_neither_learnt_nor_made_up_for():
    robot = Robot().walk(2.5)
    robot.velocity[1] += 0.6  # while it learns
    robot.walk(LEARNT + 2.0)
    assert robot.hold.memo[HOLDS]
    assert abs(robot.hold.deviation[1]) < 0.01
    robot.velocity[1] -= 0.6  # and while it holds
    for _ in range(40):
        robot.walk(0.1)
        assert np.abs(robot.trim).max() < 0.015, "what came before it was felt"
    assert robot.trim == REST


def test_a_gait_that_bounces_is_not_taken_for_a_push():
    """Wherever in its stride the robot is when the command has settled, the reference is learnt in
    its time."""
    for offset in np.arange(0.0, 0.5, 0.06):
        hold, time_s = Hold.of(np.zeros(3)), offset
        for _ in range(round(LEARNT / PERIOD)):
            time_s += PERIOD
            bounce = 0.2 * (math.sin(2 * math.pi * 2.0 * time_s) > 0.9)  # one foot touches down
            seen = np.array((0.55 - bounce, 0.0, 0.0))
            take(hold, COMMAND, seen)
        assert hold.memo[HOLDS]


def test_what_repeats_with_every_stride_is_not_followed():
    """Nor where a limit acts at one point of the stride, so that nothing is known there."""
    hold, stride_s = Hold.of(np.zeros(3)), 0.56
    for number in range(round(20.0 / PERIOD)):
        angle = 2 * math.pi * (number * PERIOD / stride_s)
        seen = np.array((0.55 + 0.12 * math.sin(angle) + 0.05 * math.sin(2 * angle), 0.0, 0.0))
        known = math.cos(angle) <= 0.9
        take(hold, COMMAND, seen if known else UNKNOWN, stride_s=stride_s)
    assert hold.memo[HOLDS]
    assert not hold.trim.any()


def test_another_policy_is_learnt_anew_without_a_jump():
    robot = Robot().walk(LEARNT)
    robot.lost[:] = 0.04
    robot.walk(3.0)
    before = robot.trim
    robot.policy = 1
    robot.walk(PERIOD)
    assert not robot.hold.memo[HOLDS]
    assert 0.0 < before[0] - robot.trim[0] <= 1.01 * RATE * PERIOD


def test_readings_that_no_robot_reaches_are_not_taken_in():
    robot = Robot().walk(LEARNT)
    take(robot.hold, COMMAND, (1e30, 0.0, 0.0))
    robot.lost[:] = 0.04
    robot.walk(3.0)
    assert robot.trim[0] > 0.02
