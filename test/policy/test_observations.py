"""Observation terms: each number where the contract says, dressed as it says."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Group, Term
from sim2real_deploy.policy.observations import Observation
from sim2real_deploy.policy.terms import TERMS, TermInput
from sim2real_deploy.robots.geometry import gravity_in_body

DEFAULT = (0.1, 0.8, -1.5)
NAMES = ("hip", "thigh", "calf")


def seen(**changes) -> TermInput:
    values = TermInput.nothing(DEFAULT)
    for name, value in changes.items():
        setattr(values, name, value)
    return values


def observe(group: Group, *moments: TermInput) -> np.ndarray:
    observation = Observation(
        group, TermInput.nothing(DEFAULT), NAMES, "policy.yaml: observations.0"
    )
    observation.place(np.zeros(len(observation.labels), np.float32))
    for moment in moments:
        observation.push(moment)
    return observation.values


def one(name: str, **term) -> Group:
    return Group(input="obs", terms=(Term(name=name, **term),))


def test_every_term_shows_what_its_name_says():
    turned = math.sqrt(0.5)
    moment = seen(
        gyroscope=[1, 2, 3],
        gravity=[0, 0.6, -0.8],
        command=[0.5, 0.1, -0.2],
        q=[0.2, 0.7, -1.0],
        dq=[4, 5, 6],
        action=[7, 8, 9],
        time_s=0.15,
        attitude=[turned, 0, 0, turned],  # a quarter turn to the left
        velocity=[0.4, -0.1, 0.05],
        loads=[50, 3, 0, 70],
        given={"height": [0.28]},
        motion_q=[1, 2, 3],
        motion_dq=[4, 5, 6],
    )
    expected = {
        "base_ang_vel": ({}, [1, 2, 3]),
        "projected_gravity": ({}, [0, 0.6, -0.8]),
        "base_lin_vel": ({}, [0.4, -0.1, 0.05]),
        "roll_pitch_yaw": ({}, [0, 0, math.pi / 2]),
        "velocity_command": ({}, [0.5, 0.1, -0.2]),
        "velocity_command_part": ({"axes": (2,)}, [-0.2]),
        "extra_command": ({"name": "height", "default": (0.3,)}, [0.28]),
        "height_scan": ({"count": 3, "flat": 0.1}, [0.1, 0.1, 0.1]),
        "constant": ({"values": (1.0, 2.0)}, [1, 2]),
        "foot_contacts": ({"order": (1, 0, 3, 2)}, [0, 1, 1, 0]),
        "joint_pos": ({}, [0.2, 0.7, -1.0]),
        "joint_pos_rel": ({}, [0.1, -0.1, 0.5]),
        "joint_vel": ({}, [4, 5, 6]),
        "last_action": ({}, [7, 8, 9]),
        "gait_phase": ({"period": 0.6}, [1, 0]),  # a quarter of 0.6 s
        "motion_command": ({}, [1, 2, 3, 4, 5, 6]),
        "motion_joint_pos": ({}, [1, 2, 3]),
        "motion_joint_vel": ({}, [4, 5, 6]),
        "motion_anchor_ori_b": ({}, [1, 0, 0, 1, 0, 0]),
    }
    assert expected.keys() == TERMS.keys()
    for name, (params, values) in expected.items():
        found = observe(one(name, params=params), moment)
        np.testing.assert_allclose(found, values, atol=1e-6, err_msg=name)


def test_gait_phase_has_a_value_for_standing_and_can_be_taken_in_parts():
    """As holosoma has it: cosine and sine apart, both feet half a turn in while it stands."""
    term = {"period": 1.0, "offsets": (0.0, 0.5), "zero_below": 0.01}
    walking, standing = seen(command=[0.3, 0, 0], time_s=0.25), seen()
    for part, moving, still in (("sin", [1, -1], [0, 0]), ("cos", [0, 0], [-1, -1])):
        group = one("gait_phase", params={**term, "part": part, "standing": tuple(still)})
        np.testing.assert_allclose(observe(group, walking), moving, atol=1e-6)
        np.testing.assert_allclose(observe(group, standing), still)


def test_gait_phase_has_sines_then_cosines_and_rests_with_the_command():
    term = {"period": 0.5, "offsets": (0.0, 0.5), "zero_below": 0.1}
    walking = seen(command=[0.3, 0, 0], time_s=0.125)
    np.testing.assert_allclose(
        observe(one("gait_phase", params=term), walking), [1, -1, 0, 0], atol=1e-6
    )
    standing = seen(command=[0.05, 0, 0], time_s=0.125)
    assert not observe(one("gait_phase", params=term), standing).any()


def test_clip_and_scale_in_the_order_told():
    moment = seen(gyroscope=[10, -10, 0.5])
    term = Term(name="base_ang_vel", scale=0.5, clip=(-1, 1))
    clip_first = Group(input="obs", terms=(term,))
    np.testing.assert_allclose(observe(clip_first, moment), [0.5, -0.5, 0.25])
    scale_first = Group(input="obs", terms=(term,), clip_first=False)
    np.testing.assert_allclose(observe(scale_first, moment), [1, -1, 0.25])


def test_a_scale_per_entry():
    group = one("base_ang_vel", scale=(1.0, 2.0, 3.0))
    np.testing.assert_allclose(observe(group, seen(gyroscope=[1, 1, 1])), [1, 2, 3])


HISTORY = (Term(name="velocity_command", history=2), Term(name="joint_vel", history=2))
A = {"command": [1, 1, 1], "dq": [2, 2, 2]}
B = {"command": [3, 3, 3], "dq": [4, 4, 4]}
C = {"command": [5, 5, 5], "dq": [6, 6, 6]}


@pytest.mark.parametrize(
    ("layout", "newest", "blocks"),
    [
        ("by_term", "last", [3, 5, 4, 6]),
        ("by_term", "first", [5, 3, 6, 4]),
        ("by_frame", "last", [3, 4, 5, 6]),
        ("by_frame", "first", [5, 6, 3, 4]),
    ],
)
def test_history_layouts(layout, newest, blocks):
    group = Group(input="obs", terms=HISTORY, layout=layout, newest=newest)
    found = observe(group, seen(**A), seen(**B), seen(**C))
    np.testing.assert_array_equal(found, np.repeat(blocks, 3))


@pytest.mark.parametrize(("start", "past"), [("repeat", 1), ("zeros", 0)])
def test_the_first_step_has_the_past_it_was_told(start, past):
    group = Group(input="obs", terms=(Term(name="velocity_command", history=3),), start=start)
    found = observe(group, seen(**A))
    np.testing.assert_array_equal(found, np.repeat([past, past, 1], 3))


def test_reset_forgets():
    group = Group(input="obs", terms=HISTORY)
    observation = Observation(group, TermInput.nothing(DEFAULT), NAMES, "")
    observation.place(np.zeros(12, np.float32))
    observation.push(seen(**A))
    observation.reset()
    assert not observation.values.any()
    observation.push(seen(**B))
    np.testing.assert_array_equal(observation.values, np.repeat([3, 3, 4, 4], 3))


def test_labels_name_each_entry():
    group = Group(input="obs", terms=(*HISTORY, Term(name="gait_phase", params={"period": 1.0})))
    labels = Observation(group, TermInput.nothing(DEFAULT), NAMES, "").labels
    assert labels[6:10] == ("joint_vel.hip@-1", "joint_vel.thigh@-1", "joint_vel.calf@-1",
                            "joint_vel.hip")  # fmt: skip
    assert labels[-2:] == ("gait_phase.0", "gait_phase.1")


@pytest.mark.parametrize(
    ("term", "words"),
    [
        (Term(name="smell"), r"terms\.0\.name: .*'smell'.*base_ang_vel"),
        (Term(name="joint_vel", params={"period": 1.0}), r"params\.period.*no such parameter"),
        (Term(name="gait_phase"), r"params\.period.*needs it"),
        (Term(name="gait_phase", params={"period": 0.0}), r"params: .*zero"),
        (Term(name="joint_vel", scale=(1.0, 2.0)), r"scale: 2 values for 3"),
        (Term(name="joint_vel", clip=(1.0, -1.0)), r"clip: 1.0 is not below"),
    ],
)
def test_a_wrong_term_is_refused_by_its_key(term, words):
    with pytest.raises(Refusal, match=words):
        observe(Group(input="obs", terms=(term,)))


def test_by_frame_needs_one_history():
    terms = (Term(name="joint_vel", history=2), Term(name="base_ang_vel"))
    with pytest.raises(Refusal, match="by_frame"):
        observe(Group(input="obs", terms=terms, layout="by_frame"))


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4))
def test_gravity_is_the_rotation_of_down(values):
    quaternion = np.array(values)
    if np.linalg.norm(quaternion) < 0.1:
        return
    w, x, y, z = quaternion = quaternion / np.linalg.norm(quaternion)
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    found = gravity_in_body(quaternion.tolist())
    np.testing.assert_allclose(found, rotation.T @ [0, 0, -1], atol=1e-5)
    assert math.isclose(np.linalg.norm(found), 1.0, abs_tol=1e-4)
