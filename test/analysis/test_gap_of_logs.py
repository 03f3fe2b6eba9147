"""A walk that somebody else recorded under motion capture, compared with the twin."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from sim2real_deploy.analysis.gap.figures import Speed
from sim2real_deploy.analysis.gap.together import CommandError, Together, _unlike_speeds
from sim2real_deploy.analysis.gap.walk import walk_of_bag
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.import_log import import_log
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.cli import main
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots.geometry import attitude_of_gravity, gravity_in_body_rows

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared/data/real/go2_walk"
MAPPING = ROOT / "docs/examples/isaac_observations.yaml"


def observations(rows: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    obs = 0.05 * rng.normal(size=(rows, 48))
    obs[:, 0:3], obs[:, 9:12] = (0.45, 0.02, 0.0), (0.5, 0.0, 0.0)
    obs[:, 6:9] = (0.1, -0.05, -0.99)
    return obs


def write_log(path: Path, rows: int) -> Path:
    np.savez(path, obs=observations(rows), time_step=np.arange(rows))
    return path


def test_a_log_with_velocities_becomes_a_walk(tmp_path: Path) -> None:
    import_log(write_log(tmp_path / "log.npz", 800), MAPPING, tmp_path / "bag")
    walk = walk_of_bag(Recorded(Bag(tmp_path / "bag")))
    assert walk.watched
    assert not walk.torque_known
    assert len(walk) == pytest.approx(800 * 2.5, abs=10)
    np.testing.assert_allclose(walk["velocity"].mean(axis=0), (0.45, 0.02, 0.0), atol=1e-6)
    np.testing.assert_allclose(walk["command"].mean(axis=0), (0.5, 0.0, 0.0), atol=1e-6)
    down = np.array((0.1, -0.05, -0.99))
    np.testing.assert_allclose(walk["gravity"].mean(axis=0), down / np.linalg.norm(down), atol=1e-4)


def test_a_short_log_is_refused_in_words(tmp_path: Path) -> None:
    import_log(write_log(tmp_path / "log.npz", 400), MAPPING, tmp_path / "bag")
    with pytest.raises(Refusal, match=r"is 2\.0 s long; this needs 3\.5 s"):
        walk_of_bag(Recorded(Bag(tmp_path / "bag")))


def test_an_unknown_velocity_is_refused_and_nothing_written(tmp_path: Path) -> None:
    mapping = yaml.safe_load(MAPPING.read_text())
    mapping["velocity"]["wished"] = mapping["velocity"].pop("asked")
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(mapping))
    with pytest.raises(Refusal, match=r"velocity\.wished: unknown; known are asked, measured"):
        import_log(write_log(tmp_path / "log.npz", 10), tmp_path / "map.yaml", tmp_path / "bag")
    assert not (tmp_path / "bag").exists()


def test_attitude_of_gravity_turns_it_back() -> None:
    down = np.random.default_rng(1).normal(size=(50, 3))
    down /= np.linalg.norm(down, axis=1, keepdims=True)
    np.testing.assert_allclose(gravity_in_body_rows(attitude_of_gravity(down)), down, atol=1e-9)


def test_errors_are_averaged_by_kind_of_command() -> None:
    commands = (
        CommandError((0.5, 0.0, 0.0), 2, 0.485, 0.50, 0.1),
        CommandError((0.0, 0.4, 0.0), 1, 0.40, 0.34, -0.3),
        CommandError((0.5, -0.4, 0.0), 1, 0.66, 0.65, 0.0),
    )
    together = Together(commands, (), 0)
    assert together.speed_error() == pytest.approx(0.085 / 3)
    assert together.speed_error("sideways") == pytest.approx(0.06)
    assert together.gait_error == pytest.approx(0.4 / 3)
    assert [u.name for u in _unlike_speeds(commands)] == ["speed sideways"]
    speed = Speed((0.3, -0.4, 0.0), (0.3, -0.4, 0.1), (0.0, 0.0, 0.0))
    assert speed.along(speed.robot) == pytest.approx(0.5)


POLICY = """\
robot: go2
network: rsl_flat_noise.pt
rate_hz: 50
joints: isaac
default_position: [0.1, -0.1, 0.1, -0.1, 0.8, 0.8, 1.0, 1.0, -1.5, -1.5, -1.5, -1.5]
kp: 25.0
kd: 0.5
action: {scale: 0.25, observed: raw}
observations:
  - input: ''
    terms: [{name: base_lin_vel}, {name: base_ang_vel}, {name: projected_gravity},
            {name: velocity_command}, {name: joint_pos_rel}, {name: joint_vel}, {name: last_action}]
command_ranges: {vx: [-1.0, 1.0], vy: [-1.0, 1.0], wz: [-1.0, 1.0]}
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)  # two minutes where nothing else runs
@pytest.mark.skipif(not REAL.is_dir(), reason=f"no recordings of a real Go2 in {REAL}")
def test_the_default_twin_walks_as_a_real_go2_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials 2: the floor's friction was chosen on trials 1. Wanted are 0.035 and 0.02 m/s;
    measured were 0.036 and 0.029 (both halves together 0.031 and 0.021): a guard, not proof."""

    def sim2real(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", ["sim2real", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code

    source = tmp_path / "policy"
    source.mkdir()
    (source / "policy.yaml").write_text(POLICY)
    (source / "rsl_flat_noise.pt").write_bytes((REAL / "rsl_flat_noise.pt").read_bytes())
    sim2real("policy", "import", source, "--output", tmp_path / "rsl")
    bags = []
    for log in sorted(REAL.glob("*_trial_2.npz")):
        bags.append(tmp_path / log.stem)
        import_log(log, MAPPING, bags[-1])
    told = tmp_path / "gap.json"
    arguments = ["--policy", tmp_path / "rsl", "--floor-friction", 1.0, "--json", told]
    sim2real("gap", *bags, *arguments)
    together = json.loads(told.read_text())["together"]
    assert together["twin_falls"] == 0
    assert together["speed_error_m_s"] <= 0.043  # as Isaac's own walks of these commands
    assert together["speed_error_by_kind_m_s"]["forward and back"] <= 0.035
    assert any("roll rate" in words for words in together["still_unlike"])
