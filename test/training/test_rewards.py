"""Each reward says what it is for: most where the robot does it, less where it does not."""

import numpy as np
import pytest

from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import load_training
from sim2real_deploy.training.rewards import REWARDS, Snapshot

CONFIG = load_training("go2_walk")
ROBOT = load_robot("go2")
PENALTIES = [name for name, weight in CONFIG.rewards.items() if weight < 0]


def good(count: int = 1, calm: bool = True) -> Snapshot:
    """A robot that does all that is wanted: it stands in the default pose."""
    joints, legs = len(ROBOT.joints), len(ROBOT.legs)
    up = np.zeros((count, 3), np.float32)
    up[:, 2] = 1

    def zeros(size: int) -> np.ndarray:
        return np.zeros((count, size), np.float32)

    return Snapshot(
        command=zeros(3),
        velocity=zeros(3),
        turning=zeros(3),
        up=up,
        lean=zeros(2),
        q=zeros(joints),
        sideways=np.array([name.endswith("hip_joint") for name in ROBOT.joint_names], np.float32),
        dq=zeros(joints),
        dq_share=zeros(joints),
        ddq=zeros(joints),
        torque=zeros(joints),
        action=zeros(joints),
        last_action=zeros(joints),
        action_before=zeros(joints),
        contact=np.ones((count, legs), bool),
        foot_height=zeros(legs),
        step_ahead=zeros(legs),
        swing_height=zeros(legs),
        swing_ended=zeros(legs),
        foot_speed=zeros(legs),
        base_height=np.full(count, CONFIG.shape.base_height, np.float32),
        knee_height=np.full((count, legs), 0.15, np.float32),
        beyond_range=zeros(joints),
        uneven=np.zeros(count, bool),
        phase=zeros(legs) + np.float32(0.9),
        calm=np.full(count, calm),
        recovering=np.zeros(count, bool),
    )


@pytest.mark.parametrize("name", CONFIG.rewards)
def test_one_finite_number_for_each_environment(name: str) -> None:
    value = REWARDS[name](good(5), CONFIG)
    assert value.shape == (5,)
    assert np.isfinite(value).all()


@pytest.mark.parametrize("name", PENALTIES)
def test_nothing_is_taken_from_a_robot_that_does_all_right(name: str) -> None:
    assert REWARDS[name](good(), CONFIG)[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "field", "axis"),
    [("track_vx", "velocity", 0), ("track_vy", "velocity", 1), ("track_wz", "turning", 2)],
)
def test_tracking_falls_with_every_bit_of_error_and_sees_its_own_axis(
    name: str, field: str, axis: int
) -> None:
    snapshot = good(6)
    getattr(snapshot, field)[:, axis] = [0.0, 0.05, 0.1, 0.3, 0.8, 1.4]
    value = REWARDS[name](snapshot, CONFIG)
    assert value[0] == pytest.approx(1.0)
    assert (np.diff(value) < 0).all()
    for other in {"track_vx", "track_vy", "track_wz"} - {name}:
        assert REWARDS[other](snapshot, CONFIG) == pytest.approx(1.0)


def test_gait_wants_feet_by_the_clock_when_walking_and_all_of_them_when_calm() -> None:
    snapshot = good(2, calm=False)
    snapshot.phase[:] = [0.1, 0.8, 0.8, 0.1]  # two feet in stance, two in swing
    snapshot.contact[0] = [True, False, False, True]
    assert REWARDS["gait"](snapshot, CONFIG) == pytest.approx([1.0, 0.5])
    snapshot.calm[:] = True
    assert REWARDS["gait"](snapshot, CONFIG) == pytest.approx([0.5, 1.0])


def test_on_terrain_the_clock_counts_less() -> None:
    config = CONFIG.model_copy(update={"gait": CONFIG.gait.model_copy(update={"on_terrain": 0.4})})
    snapshot = good(2, calm=False)
    snapshot.contact[:] = False
    snapshot.phase[:] = 0.1
    snapshot.uneven[1] = True
    assert REWARDS["gait"](snapshot, config) == pytest.approx([0.0, 0.6])


def test_a_robot_that_recovers_from_a_kick_may_step_off_the_clock_and_use_power() -> None:
    snapshot = good(2, calm=False)
    snapshot.contact[:] = False
    snapshot.phase[:] = [0.1, 0.1, 0.8, 0.8]
    snapshot.torque[:], snapshot.dq[:] = 10.0, 5.0
    snapshot.recovering[1] = True
    for name, expected in {"gait": [0.5, 1.0], "power": [600.0, 0.0]}.items():
        assert REWARDS[name](snapshot, CONFIG) == pytest.approx(expected)
    low, free = REWARDS["swing_height"](snapshot, CONFIG)
    assert low > 0 == free


def test_a_foot_must_rise_over_the_step_in_front_of_it() -> None:
    snapshot = good(2, calm=False)
    snapshot.phase[:] = 0.1
    snapshot.phase[:, 0] = (1 + CONFIG.gait.stance) / 2
    snapshot.foot_height[:, 0] = CONFIG.gait.swing_height
    snapshot.step_ahead[1, 0] = 0.15
    assert REWARDS["swing_height"](snapshot, CONFIG) == pytest.approx([0, 0.15**2], abs=1e-6)


def test_a_swinging_foot_must_rise_and_a_standing_one_need_not() -> None:
    snapshot = good(3, calm=False)
    middle_of_swing = (1 + CONFIG.gait.stance) / 2
    snapshot.phase[:] = 0.1
    snapshot.phase[:2, 0] = middle_of_swing
    snapshot.foot_height[1, 0] = CONFIG.gait.swing_height
    value = REWARDS["swing_height"](snapshot, CONFIG)
    assert value[0] == pytest.approx(CONFIG.gait.swing_height**2, rel=1e-4)
    assert value[1:] == pytest.approx(0, abs=1e-9)


def test_low_swings_cost_when_they_end_and_high_ones_of_other_feet_make_up_for_them() -> None:
    gait = CONFIG.gait.model_copy(update={"clearance": 0.04})
    config = CONFIG.model_copy(update={"gait": gait})
    snapshot = good(4, calm=False)
    snapshot.swing_height[:] = [0.03, 0.05, 0.03, 0.05]
    snapshot.swing_height[1:] -= 0.01
    snapshot.swing_ended[:, 0] = [10, 10, 0, 10]
    snapshot.recovering[3] = True
    expected = [0, 0.01 * 10, 0, 0]
    assert REWARDS["clearance"](snapshot, config) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("vertical_speed", "velocity"),
        ("roll_pitch_rate", "turning"),
        ("tilt", "lean"),
        ("torque", "torque"),
        ("joint_acceleration", "ddq"),
        ("action_rate", "action"),
        ("target_range", "beyond_range"),
        ("action_jerk", "action"),
        ("foot_slip", "foot_speed"),
        ("hip_pose", "q"),
        ("pose", "q"),
        ("standing_still", "dq"),
    ],
)
def test_a_penalty_grows_with_what_it_is_about(name: str, field: str) -> None:
    snapshot = good(3)
    getattr(snapshot, field)[:] += np.array([[0.0], [0.3], [0.6]], np.float32)
    nothing, some, more = REWARDS[name](snapshot, CONFIG)
    assert nothing < some < more


def test_only_joints_near_their_velocity_limit_cost() -> None:
    snapshot = good(4)
    snapshot.dq_share[:, 2] = [0.0, 0.75, 0.9, 1.1]
    slow, still_fine, fast, too_fast = REWARDS["joint_speed"](snapshot, CONFIG)
    assert slow == still_fine == 0
    assert 0 < fast < too_fast


def test_low_base_and_low_knees_cost() -> None:
    snapshot = good(2)
    snapshot.base_height[1] -= 0.1
    snapshot.knee_height[1, 2] = 0.02
    for name in ("base_height", "knee_clearance"):
        right, wrong = REWARDS[name](snapshot, CONFIG)
        assert right == pytest.approx(0, abs=1e-9)
        assert wrong > 0


def test_standing_still_is_not_asked_of_a_robot_that_was_pushed() -> None:
    snapshot = good(2)
    snapshot.dq[:] = 1.0
    snapshot.calm[1] = False
    calm, pushed = REWARDS["standing_still"](snapshot, CONFIG)
    assert calm > 0
    assert pushed == 0
