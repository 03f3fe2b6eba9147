"""Runs with different seeds side by side: the gate decides, then reward."""

import json
from pathlib import Path

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.training.checkpoint import CHECKPOINT, LOG, write_checkpoint
from sim2real_deploy.training.judge import JUDGEMENTS
from sim2real_deploy.training.seeds import compare


def run(folder: Path, seed: int, reward: float, *scores: float) -> Path:
    folder.mkdir()
    write_checkpoint(folder / CHECKPOINT, {"seed": seed})
    rows = [{"steps": 10, "seconds": 60.0, "reward": reward, "error_v": 0.1}] * 3
    (folder / LOG).write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = [
        {"steps": n, "score": score, "scenarios": {"flat": score, "turn": 1.0}}
        for n, score in enumerate(scores)
    ]
    (folder / JUDGEMENTS).write_text("".join(json.dumps(row) + "\n" for row in judged))
    return folder


def test_the_gate_decides_between_seeds_and_then_reward(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / "a", 1, 9.0, 0.2, 0.5),
        run(tmp_path / "b", 2, 3.0, 0.9, 0.1),
        run(tmp_path / "c", 3, 5.0),
        run(tmp_path / "d", 4, 4.0, 0.9),
    ]
    outcomes = compare(runs)
    assert [one.seed for one in outcomes] == [4, 2, 1, 3]
    assert (outcomes[1].score, outcomes[1].fails) == (0.9, ("flat",))
    assert outcomes[-1].score is None
    assert (outcomes[0].steps, outcomes[0].minutes, outcomes[0].error) == (10, 1.0, 0.1)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="not a checkpoint"):
        compare([tmp_path])
