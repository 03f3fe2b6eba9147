"""Each imperfection, measured from the outside, is what its parameter says."""

import numpy as np
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.twin.bus import MessageBus
from sim2real_deploy.twin.config import Bus, Imperfections
from sim2real_deploy.twin.files import load_imperfections
from support.twin_support import (
    JOINTS,
    PERIOD,
    ROBOT,
    command,
    decode,
    hung,
    record,
    stand,
    stand_up,
    twin,
)

KNEE = 2  # the first leg's calf
THIGH = 1


def test_the_ideal_preset_is_perfect_and_the_default_is_not() -> None:
    assert load_imperfections("ideal") == Imperfections()
    default = load_imperfections("default")
    perfect = Imperfections()
    for part in ("motors", "encoders", "imu", "power", "command_bus", "state_bus"):
        assert getattr(default, part) != getattr(perfect, part), part


def test_unknown_twin_is_refused_with_those_there_are() -> None:
    with pytest.raises(Refusal, match=r"no twin 'perfect'; there are: ideal, default"):
        load_imperfections("perfect")


@pytest.mark.parametrize("lag", [0.005, 0.012, 0.020])
def test_lag_is_the_time_to_63_percent_of_a_torque_step(lag: float) -> None:
    robot = hung(motors={"lag": lag})
    torque = record(robot, command(torque=1.0), 100, "torque")[:, THIGH]
    times = PERIOD * np.arange(1, 101)
    assert np.interp(1 - np.exp(-1), torque, times) == pytest.approx(lag, abs=0.0011)
    assert torque[-1] == pytest.approx(1.0, abs=0.01)


def test_the_pd_law_is_evaluated_at_every_physics_step_and_its_output_lags() -> None:
    """One joint with an armature that outweighs its leg, against the same law integrated here."""
    lag, inertia, kp, kd, feed, speed = 0.010, 5.0, 800.0, 40.0, 1.5, 0.2
    robot = hung(motors={"lag": lag})
    robot.model.dof_armature[6:] = 1e9
    robot.model.dof_armature[6 + KNEE] = inertia
    robot.model.dof_damping[:] = 0.0
    step = robot.model.opt.timestep
    pose = np.array(ROBOT.stand_pose)
    q, dq, torque = float(pose[KNEE]), 0.0, 0.0
    pose[KNEE] += 0.02
    seen, expected = [], []
    for _ in range(250):
        robot.advance(command(pose, kp, kd, feed, speed))
        for _ in range(round(PERIOD / step)):
            asked = kp * (pose[KNEE] - q) + kd * (speed - dq) + feed
            torque += (asked - torque) * (1 - np.exp(-step / lag))
            dq += step * torque / inertia
            q += step * dq
        seen.append((robot.truth.joint_torque[KNEE], robot.truth.joint_position[KNEE]))
        expected.append((torque, q))
    assert np.ptp(expected, axis=0)[0] > 20  # it swung
    off_by = np.abs(np.subtract(seen, expected)).max(axis=0)
    assert (off_by < (0.1, 2e-4)).all(), off_by


def test_a_motor_at_its_limit_turns_round_as_fast_as_any_other() -> None:
    """The lag remembers no torque that was never there."""
    robot = hung(motors={"lag": 0.010})
    robot.model.dof_armature[6:] = 1e9
    record(robot, command(torque=1000.0), 50, "torque")
    torque = record(robot, command(torque=0.0), 6, "torque")[-1]
    np.testing.assert_allclose(torque, ROBOT.torque_limit * np.exp(-1.2), rtol=0.3)


def test_strength_is_the_share_of_torque_delivered() -> None:
    robot = hung(motors={"strength": 0.8})
    assert record(robot, command(torque=2.0), 3, "torque")[-1] == pytest.approx(1.6)


def test_torque_never_passes_the_limit_of_the_joint() -> None:
    torque = record(hung(), command(torque=1000.0), 3, "torque")
    np.testing.assert_allclose(torque[0], ROBOT.torque_limit, rtol=1e-5)


def test_torque_speed_curve() -> None:
    """Full torque at rest, half of it half way between the two speeds, none at the second."""
    robot = hung(motors={"torque_speed": (0.5, 1.0)})
    limit, top = ROBOT.joints[THIGH].torque, ROBOT.joints[THIGH].velocity
    for fraction, expected in ((0.0, 1.0), (0.45, 1.0), (0.75, 0.5), (1.0, 0.0)):
        robot.data.qpos[7:] = ROBOT.stand_pose
        robot.data.qvel[6:] = 0.0
        robot.data.qvel[6 + THIGH] = fraction * top
        sample = robot.advance(command(torque=100.0))
        assert decode(sample).torque[THIGH] == pytest.approx(expected * limit, abs=0.12 * limit)
        robot.data.qvel[6 + THIGH] = fraction * top
        braking = decode(robot.advance(command(torque=-100.0)))
        assert braking.torque[THIGH] == pytest.approx(-limit, rel=1e-3)


def test_friction_holds_a_joint_against_less_torque_and_lets_go_above() -> None:
    for torque, moves in ((0.25, False), (0.4, True)):
        robot = hung(motors={"friction": 0.3})
        start = robot.truth.joint_position[KNEE]
        pull = np.zeros(JOINTS)
        pull[KNEE] = torque
        record(robot, command(torque=pull), 100, "q")
        assert (abs(robot.truth.joint_position[KNEE] - start) > 0.02) == moves


def test_backlash_is_the_width_of_the_gap_when_direction_turns() -> None:
    robot = hung(motors={"backlash": 0.02})
    gap = []
    for turn in np.sin(np.linspace(0, 6 * np.pi, 900)):
        pose = np.array(ROBOT.stand_pose)
        pose[THIGH] += 0.3 * turn
        seen = decode(robot.advance(command(pose, 60, 2))).q[THIGH]
        gap.append(seen - robot.truth.joint_position[THIGH])
    assert max(gap) - min(gap) == pytest.approx(0.02, abs=1e-4)


def test_heat_rises_with_torque_squared_and_cools_towards_ambient() -> None:
    heat = {"rate": 10.0, "cooling": 1e6, "ambient": 20.0, "start": 20.0}
    robot = hung(motors={"heat": heat})
    robot.motors.warm(1e-9)
    half = np.zeros(JOINTS)
    half[KNEE] = ROBOT.torque_limit[KNEE] / 2
    lock = command(torque=half, kd=0)
    robot.model.dof_armature[6:] = 1e9  # the joint is held: torque without motion
    record(robot, lock, 1000, "torque")  # 2 s at half torque: a quarter of the rate
    rise = robot.motors.temperature - 20.0
    assert rise[KNEE] == pytest.approx(2 * 10 / 4, rel=0.05)
    assert rise[THIGH] == pytest.approx(0.0, abs=1e-3)

    cooling = hung(motors={"heat": {"rate": 1e-9, "cooling": 1.0, "ambient": 20.0, "start": 60.0}})
    seen = record(cooling, None, 500, "temperature")[-1]  # one time constant
    assert seen[0] == pytest.approx(20 + 40 / np.e, abs=1.5)


def test_a_hot_motor_is_derated() -> None:
    for start, share in ((80.0, 1.0), (100.0, 0.5), (120.0, 0.0)):
        heat = {
            "rate": 1e-9,
            "start": start,
            "derate_from": 90.0,
            "derate_to": 110.0,
            "cooling": 1e9,
        }
        robot = hung(motors={"heat": heat})
        torque = record(robot, command(torque=100.0), 2, "torque")[-1]
        np.testing.assert_allclose(torque, share * ROBOT.torque_limit, atol=0.05)


def test_battery_sags_by_current_times_resistance_and_loses_charge() -> None:
    idle = {"idle": 10.0, "copper": 0.0, "charge": 0.5, "capacity": 0.1}
    stiff, soft = (decode(twin(power={**idle, "resistance": r}).advance(None)) for r in (0.0, 0.2))
    assert stiff.voltage - soft.voltage == pytest.approx(10.0 * 0.2, abs=0.01)
    assert soft.current == pytest.approx(10.0)
    assert soft.battery_current_ma == -10_000
    assert soft.cell_millivolts[: ROBOT.battery.cells].sum() == pytest.approx(
        1000 * soft.voltage, abs=ROBOT.battery.cells
    )
    robot = twin(power=idle)
    percent = record(robot, None, 1500, "battery_percent")  # 3 s at 10 A of 0.1 Ah
    assert percent[0] - percent[-1] == pytest.approx(100 * 10 * 3 / 3600 / 0.1, abs=1)


def test_encoder_noise_has_the_spread_asked_for() -> None:
    robot = hung(encoders={"position": 0.01, "velocity": 0.2, "torque": 0.5})
    samples = [decode(robot.advance(command())) for _ in range(400)]  # no gains: nothing moves
    true = robot.truth
    for field, spread, middle in (
        ("q", 0.01, true.joint_position),
        ("dq", 0.2, true.joint_velocity),
        ("torque", 0.5, 0.0),
    ):
        values = np.array([np.array(getattr(sample, field)) for sample in samples])
        assert values.std(axis=0).mean() == pytest.approx(spread, rel=0.05)
        np.testing.assert_allclose(values.mean(axis=0), middle, atol=0.4 * spread + 0.01)


def test_imu_noise_has_the_spread_asked_for() -> None:
    robot = hung(imu={"gyro": 0.05, "accelerometer": 0.3})
    samples = [decode(robot.advance(None)) for _ in range(500)]
    gyro = np.array([np.array(s.gyroscope) for s in samples])
    force = np.array([np.array(s.accelerometer) for s in samples])
    assert gyro.std() == pytest.approx(0.05, rel=0.1)
    assert force.std() == pytest.approx(0.3, rel=0.1)
    assert stand_up(twin()).accelerometer == pytest.approx([0, 0, 9.81], abs=0.1)


def test_gyro_bias_and_drift() -> None:
    """The bias at the start has its spread over seeds; its walk grows with the root of time."""
    starts = np.concatenate([twin(seed, imu={"gyro_bias": 0.1}).imu.bias for seed in range(60)])
    assert starts.std() == pytest.approx(0.1, rel=0.25)
    walked = []
    robot = twin(imu={"gyro_drift": 0.02})
    for seed in range(60):
        robot.reset(seed)
        before = robot.imu.bias.copy()
        for _ in range(100):
            robot.imu.drift(0.04)
        walked.append(robot.imu.bias - before)
    assert np.std(walked) == pytest.approx(0.02 * np.sqrt(4.0), rel=0.2)


def test_heading_drifts_with_the_bias_but_roll_and_pitch_do_not() -> None:
    robot = twin(imu={"gyro_bias": 1e-12})
    robot.imu.bias[:] = 0.0, 0.0, 0.1
    samples = [decode(robot.advance(stand())) for _ in range(1000)]
    w, x, y, z = samples[-1].quaternion
    true = robot.truth.quaternion
    heading = 2 * np.arctan2(z, w) - 2 * np.arctan2(true[3], true[0])
    assert heading == pytest.approx(0.1 * 2.0, abs=0.01)
    assert (x, y) == pytest.approx((true[1], true[2]), abs=0.01)


@pytest.mark.parametrize(("delay", "jitter"), [(0.0, 0.0), (0.010, 0.0), (0.006, 0.008)])
def test_command_delay_and_jitter(delay: float, jitter: float) -> None:
    """Time from a command to the first state that shows its torque, over many commands."""
    robot = hung(command_bus={"delay": delay, "jitter": jitter})
    waits = []
    for trial in range(60):
        asked = 1.0 + trial % 2
        for k in range(40):
            sample = robot.advance(command(torque=asked) if k == 0 else None)
            if decode(sample).torque[0] == pytest.approx(asked):
                waits.append(k * PERIOD)
                break
    assert len(waits) == 60
    assert min(waits) >= delay - 1e-9
    assert max(waits) <= delay + jitter + PERIOD + 1e-9
    assert np.mean(waits) == pytest.approx(delay + jitter / 2, abs=0.0015)


@pytest.mark.parametrize("field", ["loss", "duplication"])
def test_state_loss_and_duplication(field: str) -> None:
    robot = twin(state_bus={field: 0.02})
    count = sum(len(robot.exchange(())) for _ in range(3000))
    changed = (3000 - count if field == "loss" else count - 3000) / 3000
    assert changed == pytest.approx(0.02, abs=0.008)


def test_state_delay() -> None:
    robot = twin(state_bus={"delay": 0.020})
    ticks = [
        (robot.now_ns() // 1_000_000, decode(s).tick)
        for _ in range(50)
        for s in [robot.advance(None)]
        if s
    ]
    assert {now - tick for now, tick in ticks} == {20}


def test_bus_keeps_order_and_its_statistics_over_many_messages() -> None:
    bus = MessageBus(Bus(delay=0.01, jitter=0.02, loss=0.1), np.random.default_rng(0))
    out = []
    for k in range(5000):
        bus.put(k.to_bytes(4, "little"), k * 1_000_000)
        for message in bus.arrived(k * 1_000_000):
            out.append((int.from_bytes(message, "little"), k))
    numbers = [number for number, _ in out]
    assert numbers == sorted(numbers)
    assert 1 - len(out) / 5000 == pytest.approx(0.1, abs=0.02)
    late = np.array([at - number for number, at in out])
    assert late.min() >= 10
    assert late.max() <= 31


def test_commands_that_fall_silent_time_out_to_damping() -> None:
    robot = twin(command_timeout=0.1)
    stand_up(robot, 1.5)
    height = robot.truth.position[2]
    for _ in range(45):
        robot.advance(None)
    assert robot.boards.alive
    assert robot.truth.position[2] == pytest.approx(height, abs=0.01)
    for _ in range(1000):
        robot.advance(None)
    assert not robot.boards.alive
    assert robot.boards.counters.timeouts == 1
    assert robot.truth.position[2] < 0.6 * height
