"""What training's robots see of the ground: where it is, how late, and how wrong."""

import numpy as np
import pytest

from sim2real_deploy.policy.contract import Term
from sim2real_deploy.policy.height_grid import HeightGrid
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import HeightErrors, load_training
from sim2real_deploy.training.environment import Environment
from sim2real_deploy.training.ground import Ground
from sim2real_deploy.training.height_maps import HeightMaps
from sim2real_deploy.training.symmetry import joint_mirror, observation_mirror
from sim2real_deploy.training.terrain import Tile
from sim2real_deploy.twin.floors import Box

GRID = HeightGrid(1.0, 0.4, 0.1, 0.3)
STEP = Tile("stairs", 0, 12.0, boxes=[Box((0.45, 6.0), (-6.0, 6.0), (0.0, 0.2))])
TILE = np.zeros(1, np.int64)
RATE_HZ = 50.0


def seen(maps: HeightMaps, base: float, first: bool, width: float = 1.0) -> np.ndarray:
    """On level ground, with the base this high."""
    true = np.full((1, len(GRID.points)), base - GRID.offset, np.float32)
    rng = np.random.default_rng(0)
    return maps.look(true, np.array([base]), np.array([first]), width, rng)[0].copy()


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_a_step_ahead_is_seen_ahead_and_one_behind_behind(way: float) -> None:
    maps = HeightMaps(GRID, HeightErrors(), RATE_HZ, 1)
    forward, place = np.array([[way, 0.0]]), np.array([[0.1, 0.0, 0.3]])
    seen = maps.true(Ground([STEP]), TILE, place, forward).reshape(5, 11)[:, :: int(way)]
    assert seen[:, :8] == pytest.approx(0.0)
    assert seen[:, 9:] == pytest.approx(-0.2)


def test_a_map_is_known_after_its_delay_and_holds_until_the_next() -> None:
    maps = HeightMaps(GRID, HeightErrors(delay=(0.06, 0.06), period=0.1), RATE_HZ, 1)
    heights = [seen(maps, 0.3 + 0.01 * i, i == 0)[0] for i in range(30)]
    changes = np.flatnonzero(np.diff(heights)) + 1
    assert heights[0] == pytest.approx(0.0)  # an episode begins with a map
    assert (np.diff(changes) == 5).all()  # 10 Hz
    assert heights[changes[1]] == pytest.approx(0.01 * (changes[1] - 3))  # three steps ago


def test_noise_and_holes_are_as_large_as_said() -> None:
    noisy = HeightMaps(GRID, HeightErrors(noise=0.02), RATE_HZ, 200)
    true = np.zeros((200, len(GRID.points)), np.float32)
    rng, base, first = np.random.default_rng(0), np.full(200, 0.3), np.ones(200, bool)
    assert noisy.look(true, base, first, 1.0, rng).std() == pytest.approx(0.02, rel=0.05)
    assert noisy.look(true, base, first, 0.5, rng).std() == pytest.approx(0.01, rel=0.05)
    holed = HeightMaps(GRID, HeightErrors(holes=0.2), RATE_HZ, 200)
    holed.look(true, base, first, 1.0, rng)
    later = holed.look(true - 0.1, base, ~first, 1.0, rng)
    held = np.abs(later) < 1e-6  # the last value at that point: still the level ground of before
    assert held.mean() == pytest.approx(0.2, rel=0.1)


def test_the_mirror_swaps_left_and_right() -> None:
    params = {"count": 55, "size": (1.0, 0.4), "resolution": 0.1, "offset": 0.3}
    config = load_training("go2_perceptive")
    joints = joint_mirror(load_robot("go2"), config.symmetry)
    mirror = observation_mirror((Term(name="height_scan", params=params),), joints)
    x, y = GRID.points.T.astype(np.float32)
    assert (mirror(x) == x).all()
    assert mirror(y) == pytest.approx(-y)


def test_the_perceptive_policy_sees_its_stairs() -> None:
    """Its input has the grid as the contract says it, on every kind of terrain."""
    config = load_training("go2_perceptive")
    environment = Environment(config, load_robot("go2"), 12, seed=0)
    columns, scale = environment.observer.newest("height_scan")
    assert len(columns) == 85
    observation, _ = environment.observe()
    heights = observation[:, columns] / scale
    stairs = environment.terrain.on("stairs")
    assert heights[stairs].min() < -0.1  # a riser within reach
    assert np.abs(heights[environment.terrain.on("flat")]).max() < 0.2
