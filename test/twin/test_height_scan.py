"""The height scan of the twin: the true ground where a grid says, then noise, delay and holes."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.repertoire import Fallback, Repertoire
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import Drive
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.height_grid import HeightGrid, height_grid
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.height_scan import PERFECT, HeightScan, ScanErrors
from sim2real_deploy.twin.robot import BaseTruth, TwinRobot
from support.import_samples import GO2, JOINTS
from support.policy_samples import PLAIN_TERMS, contract_for, make_state, network, write_bundle

GRID = HeightGrid(1.6, 1.0, 0.1, 0.5)
STAIRS = Floor(kind="stairs", rise=0.2, run=0.3)
SCAN = {"count": 187, "flat": -0.2, "size": [1.6, 1.0], "resolution": 0.1, "offset": 0.5}


def base(x: float = 0.0, yaw: float = 0.0) -> BaseTruth:
    attitude = np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
    return BaseTruth(np.array([x, 0.0, 0.3]), attitude, np.zeros(3), np.zeros(3))


def test_points_run_along_x_row_by_row_as_isaac_lab_has_them() -> None:
    assert len(GRID.points) == 17 * 11
    assert GRID.points[0] == pytest.approx([-0.8, -0.5])
    assert GRID.points[1] == pytest.approx([-0.7, -0.5])
    assert GRID.points[17] == pytest.approx([-0.8, -0.4])


def test_a_stair_ahead_is_seen_ahead_whichever_way_it_faces() -> None:
    seen = HeightScan(STAIRS, GRID, PERFECT).look(0.0, base(0.45))
    assert seen is not None
    scan = np.array(seen).reshape(11, 17)
    assert scan[:, :12] == pytest.approx(-0.2)  # level: 0.3 m above the ground, less 0.5
    assert scan[:, 13:15] == pytest.approx(-0.4)  # the first stair, 20 cm nearer
    back = HeightScan(STAIRS, GRID, PERFECT).look(0.0, base(0.45, math.pi))
    assert back is not None
    assert np.array(back).reshape(11, 17)[::-1, ::-1] == pytest.approx(scan)


def test_a_scan_is_known_after_its_delay_and_as_often_as_it_looks() -> None:
    scan = HeightScan(Floor(), GRID, ScanErrors(delay=0.1, period=0.05))
    known = [scan.look(tick * 0.01, base()) is not None for tick in range(31)]
    assert [tick for tick, new in enumerate(known) if new] == [10, 15, 20, 25, 30]


def test_noise_and_holes_are_as_large_as_said() -> None:
    noisy = HeightScan(Floor(), GRID, ScanErrors(noise=0.02))
    values = np.array([noisy.look(0.02 * i, base()) for i in range(50)])
    assert values.mean() == pytest.approx(-0.2, abs=0.002)
    assert values.std() == pytest.approx(0.02, rel=0.05)
    # Just landed on a stair's edge: what is not seen is taken as level with the base.
    holes = np.array(HeightScan(STAIRS, GRID, ScanErrors(holes=0.5)).look(0.0, base(0.45)))
    true = np.array(HeightScan(STAIRS, GRID, PERFECT).look(0.0, base(0.45)))
    changed = (holes != true)[true != true[0]]
    assert 0.3 < changed.mean() < 0.7


def perceptive(folder: Path, **changes: Any) -> Bundle:
    model = network(9 + 3 * JOINTS + 187, JOINTS)
    terms = [*PLAIN_TERMS, {"name": "height_scan", "params": {**SCAN, **changes}}]
    content = contract_for(GO2, model, observations=[{"input": "obs", "terms": terms}])
    return load_bundle(write_bundle(folder, content, model), GO2)


def test_a_policy_that_sees_the_ground_gets_it_in_the_twin(tmp_path: Path) -> None:
    drive = Drive(perceptive(tmp_path), TwinRobot(GO2, Floor(kind="slope", slope=0.2)))
    for _ in range(3):
        drive.tick()
    policy = drive.controller.policy
    assert policy is not None
    policy.observe(make_state(GO2), (0.0, 0.0, 0.0))
    scan = policy.observation[-187:]
    assert scan.max() - scan.min() == pytest.approx(1.6 * math.tan(0.2), abs=0.01)


def test_a_grid_that_does_not_add_up_is_refused(tmp_path: Path) -> None:
    bundle = perceptive(tmp_path, size=[1.0, 1.0])
    with pytest.raises(Refusal, match="its grid has 121 points"):
        height_grid(bundle.contract)


@pytest.mark.parametrize("placed", [True, False])
def test_it_goes_nowhere_without_a_fresh_scan(tmp_path: Path, placed: bool) -> None:
    """Silent or old, the scan is not walked on: it stands, and walks on when one comes."""
    changes = {} if placed else {"size": [], "resolution": 0.0}
    drive = Drive(perceptive(tmp_path, **changes), TwinRobot(GO2))
    scan, flat = drive._scan, drive._flat
    assert (scan is None, flat is None) == (not placed, placed)

    def walk(seconds: float) -> float:
        for _ in range(round(seconds / 0.002)):
            drive.walk_at((0.3, 0.0, 0.0))
            drive.tick()
        return drive.controller.velocity.shaped[0]

    drive.stand()
    drive._scan = drive._flat = None
    drive.start()
    assert walk(0.3) == 0.0  # none since the walk began
    drive._scan, drive._flat = scan, flat
    assert walk(1.0) == pytest.approx(0.3)
    drive._scan = drive._flat = None
    assert walk(0.3) == pytest.approx(0.3)  # not old yet
    assert walk(1.2) == 0.0
    assert drive.controller.mode is Mode.WALKING
    drive._scan, drive._flat = scan, flat
    assert walk(1.0) == pytest.approx(0.3)


def test_a_fallback_takes_over_from_a_policy_that_no_longer_sees(tmp_path: Path) -> None:
    bundle = perceptive(tmp_path)
    blind = load_bundle("go2_walk", GO2)
    both = Repertoire([bundle.open(), blind.open()], Fallback("go2_walk", 12.0, 0.1))
    drive = Drive(bundle, TwinRobot(GO2), policies=both)
    drive.stand_and_walk()
    for _ in range(500):
        drive.tick()
    assert both.active == 0
    drive._scan = None
    for _ in range(400):
        drive.tick()
    assert both.name == "go2_walk"
    assert "no height scan for 0.5 s" in drive.controller.walking.switched
