"""Trajectories, the velocity command and the stages."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2real_deploy.control import trajectory
from sim2real_deploy.control.between_steps import AFTER_STEP_S, between_steps
from sim2real_deploy.control.lease import PROGRAM_HEARTBEAT_NS
from sim2real_deploy.control.stages import PlanarLimit, load_stage
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, load_robot

SPEC = load_robot("go2")
N = SPEC.joint_count
TICK = 2_000_000
STAGE = load_stage("tether")


def limp(q: np.ndarray) -> JointCommand:
    command = JointCommand(*np.zeros((5, N), np.float32))
    command.q[:] = q
    command.kd[:] = SPEC.damping
    return command


def follow(path: trajectory.Trajectory) -> list[JointCommand]:
    found, now, done = [], 0, False
    while not done:
        command = limp(np.zeros(N))
        done = path.fill(now, command)
        found.append(command)
        now += TICK
    return found


@pytest.mark.parametrize("start", [SPEC.sit_pose, SPEC.position_low, SPEC.stand_pose + 0.3])
def test_standing_up_goes_smoothly_from_where_the_joints_are(start):
    commands = follow(trajectory.stand_up(limp(start), SPEC, 0))
    np.testing.assert_allclose(commands[0].q, start, atol=1e-6)
    np.testing.assert_allclose(commands[-1].q, SPEC.stand_pose, atol=1e-5)
    np.testing.assert_array_equal(commands[0].kp, 0)
    np.testing.assert_allclose(commands[-1].kp, SPEC.kp)
    q = np.array([command.q for command in commands])
    velocity = np.diff(q, axis=0) / 0.002
    assert np.max(np.abs(velocity)) < 2.0 * trajectory.MEAN_SPEED
    assert np.max(np.abs(np.diff(velocity, axis=0))) < 0.1


def test_legs_are_folded_before_a_long_way_up():
    commands = follow(trajectory.stand_up(limp(SPEC.position_high), SPEC, 0))
    nearest = min(float(np.max(np.abs(command.q - SPEC.sit_pose))) for command in commands)
    assert nearest < 1e-2


def test_sitting_down_ends_in_the_sit_pose():
    commands = follow(trajectory.put_down(limp(SPEC.stand_pose), SPEC, 0))
    np.testing.assert_allclose(commands[-1].q, SPEC.sit_pose, atol=1e-5)


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_smooth_rises_from_zero_to_one(a, b):
    low, high = trajectory.smooth(min(a, b)), trajectory.smooth(max(a, b))
    assert 0.0 <= low <= high + 1e-12 <= 1.0 + 1e-12


def planar(limit: PlanarLimit) -> np.ndarray:
    return np.array([limit.vx, limit.vy, limit.wz], np.float32)


def walk_for(command: VelocityCommand, seconds: float, start: int, request=None) -> np.ndarray:
    found = []
    for now in range(start, start + int(seconds * 1e9), TICK):
        if request is not None:
            assert command.offer(*request, now)
        found.append(command.shape(now))
    return np.array(found)


def test_speed_and_acceleration_stay_inside_the_stage():
    found = walk_for(VelocityCommand(STAGE), 2.0, 0, (5.0, -5.0, 5.0))
    np.testing.assert_allclose(found[-1], [0.3, -0.2, 0.5], atol=1e-6)
    rise = np.max(np.abs(np.diff(found, axis=0)), axis=0) / 0.002
    assert np.all(rise <= planar(STAGE.acceleration) * 1.001)


def test_an_old_wish_becomes_zero():
    command = VelocityCommand(STAGE)
    walk_for(command, 1.0, 0, (0.3, 0.0, 0.0))
    last = 1_000_000_000 - TICK
    assert command.shape(last + PROGRAM_HEARTBEAT_NS)[0] == pytest.approx(0.3)
    after = walk_for(command, 1.0, last + PROGRAM_HEARTBEAT_NS + 1)
    assert after[-1][0] == 0.0
    assert command.age_s(last + 2_000_000_000) == pytest.approx(2.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 11.0, -1e30])
@pytest.mark.parametrize("axis", range(3))
def test_an_absurd_wish_is_counted_and_changes_nothing(bad, axis):
    command = VelocityCommand(STAGE)
    assert command.offer(0.1, 0.0, 0.0, 0)
    request = [0.0, 0.0, 0.0]
    request[axis] = bad
    assert not command.offer(*request, 400_000_000)
    assert command.rejected == 1
    assert command.age_s(400_000_000) == pytest.approx(0.4)


def test_no_wish_yet_is_rest():
    command = VelocityCommand(STAGE)
    assert command.age_s(0) == math.inf
    assert not any(command.shape(0))


def test_halt_begins_from_rest():
    command = VelocityCommand(STAGE)
    walk_for(command, 1.0, 0, (0.3, 0.0, 0.0))
    command.halt()
    assert not any(command.shape(1_000_000_000))


def test_a_wish_that_was_fulfilled_is_not_taken_for_the_next():
    command = VelocityCommand(STAGE)
    walk_for(command, 1.0, 0, (0.3, 0.0, 0.0))
    assert walk_for(command, 1.0, 1_000_000_000, (0.3, 0.0, 0.0))[0][0] == np.float32(0.3)
    other = walk_for(command, 1.0, 2_000_000_000, (-0.1, 0.1, 0.0))
    np.testing.assert_allclose(other[-1], [-0.1, 0.1, 0.0], atol=1e-6)
    command.halt()
    again = walk_for(command, 1.0, 3_000_000_000, (-0.1, 0.1, 0.0))
    assert not again[0].any()
    np.testing.assert_allclose(again[-1], [-0.1, 0.1, 0.0], atol=1e-6)
    rise = np.max(np.abs(np.diff(again, axis=0)), axis=0) / 0.002
    assert np.all(rise <= planar(STAGE.acceleration) * 1.001)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from([0.002, 0.01, 0.02, 1.0]))
def test_others_work_at_the_nearest_moment_that_follows_a_step(due_s, step_s, period_s):
    moment = between_steps(due_s, step_s, period_s)
    assert abs(moment - due_s) <= period_s / 2 + 1e-9
    periods = (moment - step_s - AFTER_STEP_S) / period_s
    assert periods == pytest.approx(round(periods), abs=1e-6 / period_s)


def test_a_moment_after_a_step_is_left_as_it_is():
    assert between_steps(5.0, 5.0 - AFTER_STEP_S, 0.01) == pytest.approx(5.0)
    assert between_steps(5.003, 5.0 - AFTER_STEP_S, 0.01) == pytest.approx(5.0)
    assert between_steps(5.007, 5.0 - AFTER_STEP_S, 0.01) == pytest.approx(5.01)


def test_the_first_stage_is_the_default_and_the_gentlest():
    first = load_stage()
    assert first == load_stage("tether")
    assert first.velocity.vx == 0.3
    assert first.torque_fraction == 0.8
    for name in ("indoor", "outdoor", "field"):
        assert np.all(planar(load_stage(name).velocity) >= planar(first.velocity))


def test_an_unknown_stage_is_refused_with_those_there_are():
    with pytest.raises(Refusal, match=r"stage 'moon'.*tether, indoor, outdoor, field"):
        load_stage("moon")


def test_a_stage_beyond_the_motors_is_refused(tmp_path):
    file = tmp_path / "stages.yaml"
    text = "default: a\nstages:\n  a: {description: x, torque_fraction: 1.5}\n"
    file.write_text(text)
    with pytest.raises(Refusal, match=r"stages\.a\.torque_fraction"):
        load_stage("a", file)
    file.write_text("default: b\nstages: {}\n")
    with pytest.raises(Refusal, match="default: there is no stage 'b'"):
        load_stage("", file)
