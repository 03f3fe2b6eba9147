"""Long bags are read in parts: the parts together say what the whole says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.analysis import export, policy_replay, report
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bench import scale
from sim2real_deploy.identify import recording
from sim2real_deploy.topics import LOW_STATE


def test_parts_hold_every_message_once(walk_bag: Path) -> None:
    bag = Bag(walk_bag)
    spans = bag.parts(2.0)
    assert len(spans) > 3
    counts = [sum(1 for _ in bag.within(span).messages()) for span in spans]
    assert all(counts)
    assert sum(counts) == sum(1 for _ in bag.messages())
    assert bag.parts(1e6) == [bag.recorded_span()]


def test_replay_in_parts_is_the_replay_of_the_whole(
    walk_bag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = policy_replay.replay_policy(Recorded(Bag(walk_bag)))
    monkeypatch.setattr(policy_replay, "PART_S", 1.3)
    parts = policy_replay.replay_policy(Recorded(Bag(walk_bag)))
    assert parts.steps == whole.steps > 0
    assert parts.values_different == 0
    same = {"replay_s": 0.0, "target_rms": None, "target_max": None}
    assert replace(parts, **same) == replace(whole, **same)


def test_a_long_run_has_a_page_for_each_part(
    walk_bag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PART_S", 4.0)
    page = report.write_report(Bag(walk_bag), tmp_path / "report.html").read_text(encoding="utf-8")
    pages = sorted(tmp_path.glob("report_*.html"))
    assert len(pages) == len(Bag(walk_bag).parts(4.0)) > 1
    assert all(part.name in page for part in pages)


def test_a_long_bag_is_exported_as_folders_of_parts(
    walk_bag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PART_S", 4.0)
    written = export.export(Bag(walk_bag), tmp_path / "tables", "numpy")
    states = [path for path in written if path.parent.name == LOW_STATE.replace("/", "__")]
    rows = sum(len(np.load(path)["log_ns"]) for path in states)
    assert len(states) > 1
    assert rows == len(Recorded(Bag(walk_bag)).load([LOW_STATE])[LOW_STATE])


def test_identification_takes_the_part_that_moves(
    walk_bag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = recording.from_bag(Recorded(Bag(walk_bag)))
    monkeypatch.setattr(recording, "LONGEST_S", 3.0)
    monkeypatch.setattr(recording, "GLANCE_S", 0.5)
    part = recording.from_bag(Recorded(Bag(walk_bag)))
    assert part.seconds < 3.1
    assert np.abs(part["dq"]).mean() > np.abs(whole["dq"]).mean()


def test_a_repeated_bag_is_one_long_run(walk_bag: Path, tmp_path: Path) -> None:
    once = policy_replay.replay_policy(Recorded(Bag(walk_bag)))
    start_ns, end_ns = Bag(walk_bag).recorded_span()
    scale.repeat(walk_bag, tmp_path / "long", 2 * (end_ns - start_ns) / 60e9)
    twice = policy_replay.replay_policy(Recorded(Bag(tmp_path / "long")))
    assert twice.steps == 2 * once.steps
    assert twice.values_different == twice.ticks_missing == twice.states_missing == 0
