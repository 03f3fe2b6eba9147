"""The gap report finds what was hidden in a recorded twin, and nothing where nothing was."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.analysis.gap.distances import wasserstein
from sim2real_deploy.analysis.gap.world_fit import World
from sim2real_deploy.cli import main
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor
from support.simulated_run import record_walk

COMMANDS = ((0.5, 0.0, 0.0), (0.3, 0.0, 0.4), (0.0, 0.25, 0.0))


def record(path: Path, world: World, seed: int = 7) -> Path:
    twin = world.twin(load_robot("go2"), load_imperfections(), Floor())
    twin.reset(seed)
    record_walk(path, 12.0, twin=twin, preset="default", commands=COMMANDS)
    return path


def gap_of(bag: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    told, page = folder / "gap.json", folder / "gap.html"
    arguments = ["sim2real", "gap", str(bag), "--json", str(told), "--html", str(page)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    content = re.search(r'application/json">(.*?)</script>', page.read_text(), re.S)
    assert content
    assert json.loads(content[1])["sections"][0]["title"] == "At a glance"
    return json.loads(told.read_text())["runs"][0]


@pytest.mark.slow
def test_nothing_hidden_nothing_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gap = gap_of(record(tmp_path / "bag", World()), tmp_path, monkeypatch)
    assert gap["auc"] <= 0.55
    assert gap["causes"] == []
    assert gap["gap"] < 0.02


@pytest.mark.slow
@pytest.mark.timeout(1200)  # half a minute where nothing else runs
@pytest.mark.parametrize(
    ("world", "name", "size"),
    [
        (World(strength=0.75), "weaker motors", 0.75),
        (World(delay_s=0.006), "delay", 6.0),
        (World(friction=3.0), "joint friction", 3.0),
        (World(payload=2.0), "payload", 2.0),
        (World(floor=0.3), "slippery floor", 0.24),
    ],
)
def test_one_hidden_change_is_named_first(
    world: World, name: str, size: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = gap_of(record(tmp_path / "bag", world), tmp_path, monkeypatch)
    first = gap["causes"][0]
    assert first["name"] == name
    assert first["size"] == pytest.approx(size, rel=0.2)
    assert gap["gap_left"] < gap["gap"]


def test_a_short_walk_is_refused_in_words(
    walk_bag: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sim2real", "gap", str(walk_bag)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "this needs 5.5 s of walking" in capsys.readouterr().err


def test_distance_is_in_standard_deviations() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 20_000))
    assert wasserstein(one, other) < 0.03
    assert wasserstein(one, one + 0.1) == pytest.approx(0.1, abs=0.01)
    assert wasserstein(one, 5 + 0 * one) == wasserstein(5 + 0 * one, one) > 1.0
