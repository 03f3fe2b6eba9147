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
    assert path.stem == load_training(path).name


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
        (["gait", "period"], 0.6, "gait_phase has a period of 0.52 s, gait.period is 0.6 s"),
    ],
)
def test_mistakes_are_refused_by_name(content: Any, keys: list[Any], value: Any, says: str) -> None:
    part = content
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    with pytest.raises(Refusal, match=says):
        configfile.parse(content, TrainingConfig, "go2_walk.yaml")


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
