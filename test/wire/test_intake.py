"""What becomes of states that do not follow one another."""

from dataclasses import replace

import pytest

from sim2real_deploy.robots import load_robot
from sim2real_deploy.wire.encoders import StateEncoder
from sim2real_deploy.wire.intake import PINNED_NS, Intake
from support.safety_world import healthy_state

GO2 = load_robot("go2")
END = (1 << 32) - 2  # of the counter


def sample(tick: int) -> bytes:
    return StateEncoder(GO2).encode(replace(healthy_state(0), tick=tick))


@pytest.mark.parametrize(
    ("before", "after", "lost", "leaps", "duplicate"),
    [
        (1000, 1002, 0, 0, 0),
        (1000, 1010, 4, 0, 0),
        (1000, 1000, 0, 0, 1),
        (END, 0, 0, 0, 0),  # after 49 days the counter begins again
        (END, 8, 4, 0, 0),
        (50_000, 100, 0, 1, 0),  # the robot restarted
        (1000, 31_000, 0, 1, 0),  # this computer slept
    ],
)
def test_the_counter_tells_what_was_missed(
    before: int, after: int, lost: int, leaps: int, duplicate: int
) -> None:
    intake = Intake(GO2)
    assert intake.accept(sample(before), 0) is not None
    assert (intake.accept(sample(after), 2_000_000) is None) is bool(duplicate)
    counters = intake.counters
    assert (counters.lost, counters.leaps, counters.duplicate) == (lost, leaps, duplicate)


def test_another_writer_is_not_believed_and_later_not_taken_for_the_same_robot() -> None:
    """Even where its counter goes on as if it were."""
    intake = Intake(GO2)
    assert intake.accept(sample(1000), 0, writer=1) is not None
    assert intake.accept(sample(1002), PINNED_NS - 1, writer=2) is None
    assert (intake.counters.foreign, intake.counters.leaps) == (1, 0)
    assert intake.accept(sample(1002), PINNED_NS, writer=2) is not None
    assert intake.counters.leaps == 1
    assert intake.accept(sample(1004), PINNED_NS + 1, writer=2) is not None
    assert intake.counters.leaps == 1
