"""A recording through the policy again: identical, or the first difference by name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.analysis.policy_replay import replay_policy
from sim2real_deploy.analysis.policy_steps import recorded_steps
from sim2real_deploy.bags import Bag, BagWriter, Message
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.checks import exit_code
from sim2real_deploy.control.repertoire import Repertoire
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.wire.messages import GO_LOW_STATE
from support.policy_samples import contract_for, network, write_bundle
from support.simulated_run import POLICY, record_walk


def edited(source: Path, target: Path, change: Callable[[Message], Message | None]) -> Bag:
    """A copy of a bag with messages changed or left out."""
    bag = Bag(source)
    writer = BagWriter(target, bag.information, bag.attachments)
    for topic in bag.topics.values():
        writer.add_topic(topic)
    writer.write([new for old in bag.messages() if (new := change(old)) is not None])
    writer.close()
    return Bag(target)


def tick_of(state: Message) -> int:
    return int(np.frombuffer(state.data, GO_LOW_STATE.dtype)["tick"][0])


def test_the_same_policy_gives_the_same_bits(walk_bag: Path) -> None:
    replay = replay_policy(Recorded(Bag(walk_bag)))
    assert replay.same_policy
    assert 200 <= replay.steps < 300  # walking, and slowing down before it sits
    assert replay.values_different == 0
    assert replay.first is None
    assert replay.target_max.max() == 0.0
    assert exit_code(replay.checks()) == 0


def test_a_state_changed_by_a_hair_is_found_and_named(walk_bag: Path, tmp_path: Path) -> None:
    steps = recorded_steps(Recorded(Bag(walk_bag)))
    tick = int(steps.state_tick[50])

    def nudge(message: Message) -> Message:
        if message.topic == "/wire/lowstate" and tick_of(message) == tick:
            content = bytearray(message.data)
            np.frombuffer(content, GO_LOW_STATE.dtype)["motor_state"]["dq"][0, 0] += 1e-5
            return message._replace(data=bytes(content))
        return message

    replay = replay_policy(Recorded(edited(walk_bag, tmp_path / "nudged", nudge)))
    assert replay.first is not None
    assert replay.first.step == 50
    assert replay.first.state_tick == tick
    assert replay.first.name == "observation joint_vel.FR_hip_joint"
    assert str(tick) in str(replay.first)
    assert exit_code(replay.checks()) == 1


def test_a_state_that_is_not_in_the_bag_is_counted(walk_bag: Path, tmp_path: Path) -> None:
    gone = set(recorded_steps(Recorded(Bag(walk_bag))).state_tick[100:103].tolist())

    def drop(message: Message) -> Message | None:
        lost = message.topic == "/wire/lowstate" and tick_of(message) in gone
        return None if lost else message

    replay = replay_policy(Recorded(edited(walk_bag, tmp_path / "holes", drop)))
    assert replay.states_missing == 3
    assert exit_code(replay.checks()) == 1


def test_a_lost_observation_costs_only_its_own_block(walk_bag: Path, tmp_path: Path) -> None:
    seen = {"observations": 0}

    def drop(message: Message) -> Message | None:
        if message.topic == "/policy/observation":
            seen["observations"] += 1
            if seen["observations"] in (20, 120):
                return None
        return message

    replay = replay_policy(Recorded(edited(walk_bag, tmp_path / "holes", drop)))
    assert replay.values_missing == 2
    assert replay.values_different == 0


def test_another_policy_is_compared_joint_by_joint(walk_bag: Path, tmp_path: Path) -> None:
    """One that always asks for the stand pose differs by what the walk asked beyond it."""
    recorded = Recorded(Bag(walk_bag))
    spec = recorded.robot
    still = network(9 + 3 * spec.joint_count, spec.joint_count, weights=np.zeros((45, 12)))
    folder = write_bundle(tmp_path / "still", contract_for(spec, still), still)
    replay = replay_policy(recorded, load_bundle(folder, spec))
    assert not replay.same_policy
    walked = load_bundle(POLICY, spec).contract
    assert walked.joints == spec.joint_names
    action = walked.action
    asked = recorded_steps(recorded).policies[0].action * np.float32(action.scale) + np.float32(
        action.offset
    )
    expected = np.sqrt(np.mean((asked - spec.stand_pose) ** 2, axis=0))
    np.testing.assert_allclose(replay.target_rms, expected, rtol=1e-4)
    assert exit_code(replay.checks()) == 0


def test_a_bag_without_the_stack_in_it_is_refused(walk_bag: Path, tmp_path: Path) -> None:
    bag = edited(walk_bag, tmp_path / "b", lambda m: m if m.topic == "/wire/lowstate" else None)
    with pytest.raises(Refusal, match="has no topic 'control/ticks'"):
        replay_policy(Recorded(bag))


ROUGH = POLICY.parent / "go2_rough"


@pytest.mark.parametrize("broken_s", [pytest.param(2.5, marks=pytest.mark.slow), 3.3])
def test_a_walk_of_several_policies_is_replayed_bit_for_bit(
    tmp_path: Path, broken_s: float
) -> None:
    """Switched back and forth, then the active one breaks, in a blend or after it, and the other
    walks on: each in its own steps, with the gait clock handed on."""

    def break_it(policies: Repertoire, walked_s: float) -> None:
        rough = policies.policies[1]
        if walked_s > broken_s and policies.name == "go2_rough" and "infer" not in vars(rough):
            infer = rough.infer

            def broken() -> np.ndarray:
                infer()
                rough.target[:] = np.nan
                return rough.target

            vars(rough)["infer"] = broken

    path = tmp_path / "switched"
    record_walk(
        path,
        4.0,
        others=(ROUGH,),
        switch_every_s=0.9,
        fallback="go2_walk",
        meanwhile=break_it,
    )
    recorded = Recorded(Bag(path))
    run = recorded_steps(recorded, ("go2_walk", "go2_rough"))
    walk, rough = (steps.rows for steps in run.policies)
    assert not np.intersect1d(walk, rough).size  # never in one tick
    assert np.intersect1d(walk, rough + 1).size > 30  # two blends, by turns
    replay = replay_policy(recorded)
    assert replay.steps == sum(map(len, run.policies))
    assert replay.values_different == 0, replay.first
    assert exit_code(replay.checks()) == 0
