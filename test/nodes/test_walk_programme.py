"""The programme of `make walk` and how it is judged."""

import math

import pytest

from sim2real_deploy.checks import exit_code
from sim2real_deploy.gate.programme import PROGRAMME, Segment, Tracker, segment_at


def test_shares_fill_the_whole_time():
    assert sum(segment.share for segment in PROGRAMME) == pytest.approx(1.0)


def test_segments_come_in_order_and_end():
    seen = []
    for tick in range(2100):
        segment = segment_at(tick * 0.01, 20.0)
        if not seen or seen[-1] is not segment:
            seen.append(segment)
    assert seen == [*PROGRAMME, None]


def test_without_end_it_repeats():
    assert segment_at(0.0, 0.0) is segment_at(20.0, 0.0) is PROGRAMME[0]
    assert segment_at(1e6, 0.0) is not None


def walk(forward: float, tilt: float = 0.05) -> Tracker:
    tracker = Tracker()
    for tick in range(1000):
        now = tick * 0.02
        segment = segment_at(now, 20.0)
        velocity = (forward * segment.vx, segment.vy, segment.wz) if segment else (0.0, 0.0, 0.0)
        tracker.add(now, segment, velocity, tilt)
    return tracker


def test_a_walk_as_asked_passes():
    tracker = walk(1.0)
    assert exit_code(tracker.checks()) == 0
    assert [row["name"] for row in tracker.segments()] == [s.name for s in PROGRAMME]
    expected = sum(math.hypot(s.vx, s.vy) * s.share * 20.0 for s in PROGRAMME)
    assert tracker.distance_m == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("forward", "tilt"), [(0.5, 0.05), (1.5, 0.05), (0.0, 0.05), (1.0, 1.2)])
def test_too_slow_too_fast_or_fallen_fails(forward, tilt):
    assert exit_code(walk(forward, tilt).checks()) == 1


def test_never_walked_fails():
    assert exit_code(Tracker().checks()) == 1


def test_the_first_moments_of_a_segment_do_not_count():
    tracker = Tracker()
    segment = Segment("forward", 0.5, 0.0, 0.0, 1.0)
    for tick in range(250):
        now = tick * 0.02
        tracker.add(now, segment, (0.0 if now < 1.4 else 0.5, 0.0, 0.0), 0.0)
    assert tracker.segments()[0]["error"][0] == pytest.approx(0.0, abs=1e-6)
