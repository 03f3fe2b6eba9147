"""Training configs: what shapes a policy is data, and a typo in it is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim2real_deploy import configfile, paths
from sim2real_deploy.errors import Refusal
from sim2real_deploy.training.config import TrainingConfig, load_training

SHIPPED = sorted(paths.config_file("training").glob("*.yaml"))


@pytest.fixture
def content() -> Any:
    return yaml.safe_load(paths.config_file("training/go2_walk.yaml").read_text())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_loads(path: Path) -> None:
    assert path.stem.startswith(load_training(path).name)


@pytest.mark.parametrize(
    ("keys", "value", "says"),
    [
        (["lerning_rate"], 1e-3, "lerning_rate: unknown key"),
        (["ppo", "epoch"], 3, "ppo.epoch: unknown key"),
        (["rewards", "track_vz"], 1.0, "no reward 'track_vz'"),
        (["randomisation", "noise", "base_lin_vel"], 0.1, "'base_lin_vel' is not an observation"),
        (["randomisation", "friction"], [1.2, 0.3], "friction: 1.2 is above 0.3"),
        (["commands", "standing"], 0.9, "sum to"),
        (["terrain", "kinds", 1, "kind"], "lava", "terrain.kinds.1.kind"),
        (["terrain", "kinds", 0, "kind"], "rough", "the first must be flat"),
        (["control", "kp"], -25.0, "control.kp"),
        (["ppo", "gamma"], float("nan"), "ppo.gamma"),
    ],
)
def test_mistakes_are_refused_by_name(content: Any, keys: list[Any], value: Any, says: str) -> None:
    part = content
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    with pytest.raises(Refusal, match=says):
        configfile.parse(content, TrainingConfig, "go2_walk.yaml")


def test_a_config_that_extends_another_says_only_what_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "later.yaml"
    file.write_text("extends: go2_walk\nsteps: 5\npolish: {rewards: {power: -1.0}}\n")
    base, later = load_training("go2_walk"), load_training(file)
    assert later.steps == 5
    assert later.polish.rewards == base.polish.rewards | {"power": -1.0}
    assert later.model_copy(update={"steps": base.steps, "polish": base.polish}) == base


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("extends: later.yaml\n", "must name another config"),
        ("extends: 3\n", "must name another config"),
        ("extends: go2_wlak\n", "no such file"),
        ("extends: go2_walk\ngate: {}\n", "gate: unknown key"),
    ],
)
def test_a_config_that_extends_nothing_is_refused(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("later.yaml").write_text(text)
    with pytest.raises(Refusal, match=says):
        load_training("later.yaml")


def test_a_missing_config_is_refused() -> None:
    with pytest.raises(Refusal, match="no such file"):
        load_training("no_such_training")


def test_polishing_begins_when_the_robot_walks_and_changes_only_what_it_names() -> None:
    config = load_training("go2_walk")
    polish = config.polish
    assert config.at(polish.begin - 0.01) is config
    late = config.at(polish.begin)
    assert late.rewards == config.rewards | polish.rewards
    assert late.rewards["base_height"] == config.rewards["base_height"]
    assert late.shape.tracking_shares == polish.tracking_shares
    assert late.shape.base_height == config.shape.base_height
    assert late.randomisation.push_sideways == polish.push_sideways
    assert late.randomisation.friction == config.randomisation.friction
    assert (late.network, late.observation) == (config.network, config.observation)
