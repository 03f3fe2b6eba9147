"""Getting up: from the back onto the feet, with the limits of a stage, or not at all."""

from dataclasses import replace

import numpy as np
import pytest

from sim2real_deploy.bench.get_up import KNOCK, LONGEST_S, recover
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.get_up import ATTEMPTS, FOLD_SHARE, ROLL_SHARE, GaveUpError, GetUp
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.robots import JointCommand, RobotState, load_robot
from sim2real_deploy.safety.chain import CLEAR
from support.policy_samples import make_state

GO2 = load_robot("go2")
ON_ITS_BACK, ON_ITS_BELLY = (0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)


def lying(attitude: tuple[float, float, float, float]) -> RobotState:
    """With its legs folded."""
    return make_state(GO2, quaternion=np.array(attitude, np.float32), q=GO2.sit_pose.copy())


def at_zero() -> JointCommand:
    return JointCommand.of_block(np.zeros((5, GO2.joint_count), np.float32))


def follow(get_up: GetUp, state: RobotState, seconds: float) -> list[np.ndarray]:
    out, path = at_zero(), []
    for tick in range(int(seconds * 100)):
        done = get_up.fill(tick * 10_000_000, state, out)
        path.append(out.q.copy())
        if done:
            break
    return path


def test_it_stands_again_in_the_twin_from_its_back() -> None:
    result = recover(GO2, "indoor", 0)
    assert result.stands, result.words
    assert result.upside_down
    assert result.seconds < LONGEST_S


def test_on_its_belly_it_only_folds_its_legs() -> None:
    path = follow(GetUp(at_zero(), GO2, 0), lying(ON_ITS_BELLY), 5.0)
    assert path[-1] == pytest.approx(GO2.sit_pose)
    assert len(path) < 400


def test_it_rolls_to_the_side_that_is_lower_and_in_the_mirror_to_the_other() -> None:
    left, right = (
        follow(
            GetUp(at_zero(), GO2, 0),
            lying((lean, 1.0, 0.0, 0.0)),
            5.0,
        )
        for lean in (0.1, -0.1)
    )
    hips = [name.endswith("hip_joint") for name in GO2.joint_names]
    swap = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
    mirrored = np.array(right)[:, swap] * np.where(hips, -1, 1)
    assert np.array(left) == pytest.approx(mirrored, abs=1e-6)


def test_it_gives_up_in_the_end() -> None:
    with pytest.raises(GaveUpError, match=f"after {ATTEMPTS} attempts"):
        follow(GetUp(at_zero(), GO2, 0), lying(ON_ITS_BACK), 30.0)


def test_it_does_not_stand_up_on_legs_that_are_caught_in_each_other() -> None:
    """Seed 1029 of `bench getup`: its hind legs are crossed, the calf of one behind the other's
    thigh. It used to stand up like this, with all the torque of the stage."""
    result = recover(GO2, "indoor", 1029)
    assert result.stands, result.words
    assert not result.upside_down
    assert result.seconds < LONGEST_S
    assert result.torque < 0.8
    assert result.knock < KNOCK


def test_legs_that_stay_caught_end_the_attempt_and_are_named() -> None:
    state = lying(ON_ITS_BELLY)
    hip = GO2.joint_names.index("RR_hip_joint")
    state.q[hip] = 1.0
    with pytest.raises(GaveUpError, match=r"caught: RR_hip_joint is 1\.00 rad"):
        follow(GetUp(at_zero(), GO2, 0), state, 30.0)


def test_folding_gets_less_torque_than_rolling() -> None:
    get_up = GetUp(at_zero(), GO2, 0)
    assert get_up.torque_share == FOLD_SHARE
    follow(get_up, lying(ON_ITS_BACK), 3.0)
    assert get_up.torque_share == ROLL_SHARE


def test_giving_up_ends_in_damping_and_says_why() -> None:
    controller = Controller(GO2, load_stage("indoor"), None)
    controller.situation.sport_released = True
    state, now = lying(ON_ITS_BACK), 1
    controller.step(state, now, CLEAR)
    controller.request(ModeEvent.DAMP, now)
    assert controller.request(ModeEvent.RECOVER, now).accepted
    for _ in range(3000):
        now += 10_000_000
        controller.step(replace(state, received_ns=now), now, CLEAR)
        if controller.mode is not Mode.RECOVERING:
            break
    assert controller.mode is Mode.DAMPING
    assert "could not get up" in controller.reason


@pytest.mark.parametrize("stage", ["tether", "field"])
def test_it_stays_down_where_people_are_near(stage: str) -> None:
    controller = Controller(GO2, load_stage(stage), None)
    controller.situation.sport_released = True
    controller.step(lying(ON_ITS_BACK), 1, CLEAR)
    controller.request(ModeEvent.DAMP, 1)
    decision = controller.request(ModeEvent.RECOVER, 1)
    assert not decision.accepted
    assert "may not get up by itself at this stage" in decision.words


def test_every_pose_of_the_roll_is_within_the_joints_range() -> None:
    stage = load_stage("indoor")
    for lean in (0.1, -0.1):
        state = lying((lean, 1.0, 0.0, 0.0))
        path = np.array(follow(GetUp(at_zero(), GO2, 0), state, 5.0))[300:]
        assert (path >= GO2.position_low + stage.joint_margin).all()
        assert (path <= GO2.position_high - stage.joint_margin).all()
