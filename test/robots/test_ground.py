"""The ground under the trunk: a height that drifts is held by the feet that stand."""

import itertools

import pytest

from sim2real_deploy.robots.ground import Ground

HIPS = ((0.2, 0.13), (0.2, -0.13), (-0.2, 0.13), (-0.2, -0.13))
PAIRS = ((0, 3), (1, 2))  # a trot
STEP_S, STRIDE_S = 0.002, 0.25
HEIGHT = 0.3


def walk(slope: float, speed: float, drift: float, seconds: float = 20.0) -> tuple[float, float]:
    """Trot up a slope with a height that is integrated wrongly; the height found, and the true."""
    ground, x, z = Ground(len(HIPS)), 0.0, 0.0
    feet: dict[int, tuple[float, float, float]] = {}
    for tick in range(round(seconds / STEP_S)):
        stride, phase = divmod(tick * STEP_S, STRIDE_S)
        x += speed * STEP_S
        z += (slope * speed + drift) * STEP_S
        height = slope * x + HEIGHT
        if phase < STEP_S:  # the other pair has landed
            feet = {
                number: (x + HIPS[number][0], HIPS[number][1], slope * (x + HIPS[number][0]))
                for number in PAIRS[int(stride) % 2]
            }
        seen = {n: (a - x, b, c - height) for n, (a, b, c) in feet.items()}
        _, _, z = ground.correct((x, 0.0, z), seen if phase > 0.12 else {}, STEP_S)
    return z, slope * x


@pytest.mark.parametrize(
    ("slope", "speed", "drift"),
    list(itertools.product((0.0, 0.2, -0.2), (0.0, 0.5, -0.3), (0.0, -0.03, 0.03))),
)
def test_it_rises_with_the_ground_and_by_nothing_else(
    slope: float, speed: float, drift: float
) -> None:
    """After 20 s a drift of 0.03 m/s would be 0.6 m."""
    found, true = walk(slope, speed, drift)
    assert found == pytest.approx(true, abs=0.06)


def test_in_the_air_it_goes_where_the_velocity_says() -> None:
    ground = Ground(4)
    assert ground.correct((1.0, 2.0, 3.0), {}, STEP_S) == (1.0, 2.0, 3.0)


def test_feet_in_a_line_make_no_slope() -> None:
    ground = Ground(2)
    standing = {0: (0.1, 0.0, -0.3), 1: (-0.1, 0.0, -0.5)}
    for k in range(100):
        x, _, z = ground.correct((0.01 * k, 0.0, 0.0), standing, STEP_S)
    assert (x, z) == pytest.approx((0.99, 0.0), abs=1e-9)
