"""Lists, pins and exports of runs, and the notebook that reads the exports."""

import contextlib
import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from sim2real_deploy.analysis.run_list import KEPT, Filter, describe_run, find_runs, list_runs
from sim2real_deploy.cli import main
from support.places import ROOT


@pytest.fixture(scope="module")
def folder(walk_bag: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("first", "second"):
        shutil.copytree(walk_bag, folder / name)
    (folder / "second" / "gap.json").write_text(json.dumps({"runs": [{"gap": 0.25}]}))
    (folder / "no_run").mkdir()
    return folder


def sim2real(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sim2real", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_runs_are_listed_filtered_and_pinned(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "runs.json"
    assert sim2real(monkeypatch, "runs", "list", str(folder), "--json", str(told)) == 0
    rows = {row["name"]: row for row in json.loads(told.read_text())["runs"]}
    assert set(rows) == {"first", "second"}
    assert rows["first"]["distance_m"] == pytest.approx(1.7, abs=0.4)
    assert (rows["first"]["gap"], rows["second"]["gap"]) == (None, 0.25)
    assert sim2real(monkeypatch, "runs", "pin", str(folder / "first"), "--reason", "nice") == 0
    bags = find_runs(folder)
    assert [run.pinned for run in list_runs(bags, Filter(pinned=True))[0]] == ["nice"]
    assert [run.name for run in list_runs(bags, Filter(most_gap=0.3))[0]] == ["second"]
    assert list_runs(bags, Filter(least_distance=50.0))[0] == []
    assert list_runs(bags, Filter(stopped=True))[0] == []
    assert sim2real(monkeypatch, "runs", "pin", str(folder / "no_run")) == 2


def test_a_changed_bag_is_read_again(folder: Path, tmp_path: Path) -> None:
    bag = tmp_path / "run"
    shutil.copytree(folder / "first", bag)
    before = describe_run(bag)
    kept = json.loads((bag / KEPT).read_text())
    kept["row"]["stops"] = 9
    (bag / KEPT).write_text(json.dumps(kept))
    assert describe_run(bag).stops == 9  # what was kept
    (bag / KEPT).write_text(json.dumps(kept | {"key": "of another version"}))
    assert describe_run(bag).stops == before.stops == 0


def test_the_notebook_reads_both_exports(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bags = [str(folder / name) for name in ("first", "second")]
    for form in ("parquet", "lerobot"):
        output = str(tmp_path / f"runs_{form}")
        arguments = ("runs", "export", *bags, "--output", output, "--format", form)
        assert sim2real(monkeypatch, *arguments) == 0
        assert sim2real(monkeypatch, *arguments) == 2  # nothing is written over
    _check_dataset(tmp_path / "runs_lerobot")
    notebook = json.loads((ROOT / "docs/examples/runs.ipynb").read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec("\n".join(cells), {})
    assert "2 episodes at 50 Hz; actions" in said.getvalue()


def _check_dataset(dataset: Path) -> None:
    info = json.loads((dataset / "meta/info.json").read_text())
    lines = (dataset / "meta/episodes.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["length"] for line in lines) == info["total_frames"]
    first = 0
    for number in range(info["total_episodes"]):
        path = dataset / info["data_path"].format(episode_chunk=0, episode_index=number)
        table = pyarrow.parquet.read_table(path)
        assert set(table.column_names) == set(info["features"])
        for name, feature in info["features"].items():
            values = np.stack(table[name].to_numpy())
            assert str(values.dtype) == feature["dtype"]
            assert values.reshape(len(values), -1).shape[1] == feature["shape"][0]
        assert table["index"][0].as_py() == first
        first += len(table)
        np.testing.assert_allclose(np.diff(table["timestamp"]), 1 / info["fps"], atol=1e-4)
