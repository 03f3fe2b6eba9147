"""Checkpoints are judged by the gate while training goes on, and the best of them is kept."""

import json
import time
from pathlib import Path

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.training.checkpoint import CHECKPOINT
from sim2real_deploy.training.config import Judging, load_training
from sim2real_deploy.training.judge import BEST, CANDIDATE, JUDGEMENTS, Judge, judge
from sim2real_deploy.training.trainer import Run, train

OFTEN = Judging(set="field7", trials=1, every=1e-3, patience=2)


def told(folder: Path, *scores: float) -> Judge:
    """A judge of a run in which these were the judgements so far."""
    rows = [{"steps": n, "score": s, "scenarios": {}} for n, s in enumerate(scores)]
    (folder / JUDGEMENTS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Judge(folder, OFTEN)


def test_the_best_is_the_latest_of_equals(tmp_path: Path) -> None:
    best = told(tmp_path, 0.1, 0.6, 0.4, 0.6, 0.5).best
    assert best is not None
    assert (best.steps, best.score) == (3, 0.6)


def test_it_is_enough_when_nothing_better_has_come_for_long(tmp_path: Path) -> None:
    assert not told(tmp_path).enough()
    assert not told(tmp_path, 0.1, 0.6, 0.4).enough()
    assert told(tmp_path, 0.1, 0.6, 0.4, 0.5).enough()
    patient = Judge(tmp_path, OFTEN.model_copy(update={"patience": None}))
    assert not patient.enough()


def test_a_set_that_is_not_there_is_refused_before_training_begins(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no set 'moon'"):
        Judge(tmp_path, OFTEN.model_copy(update={"set": "moon"}))


@pytest.mark.timeout(300)
def test_a_checkpoint_is_judged_and_kept_where_it_is_the_best(tmp_path: Path) -> None:
    config = load_training("go2_walk")
    ppo = config.ppo.model_copy(update={"workers": 1, "environments": 4, "steps": 4})
    short = config.model_copy(update={"ppo": ppo, "steps": 16})
    checkpoint = train(Run(short, tmp_path, seed=1))
    result = judge(checkpoint, tmp_path / "bundle", ["flat"], trials=1)
    assert (result.steps, result.score) == (16, 0.0)  # it knows nothing yet
    one = told(tmp_path)
    time.sleep(0.01)
    one.look()
    assert (tmp_path / CANDIDATE / CHECKPOINT).exists()
    one._process.kill()  # type: ignore[union-attr]
    one.look()
    assert not one.judgements  # what could not be judged does not count
    assert one.finish() == tmp_path / BEST
    assert one.best is not None
    assert set(one.best.scenarios) >= {"flat", "stairs"}
    assert Judge(tmp_path, OFTEN).judgements == one.judgements
