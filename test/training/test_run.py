"""A training run from the command line: it learns, stops when asked, goes on, and exports."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml

from sim2real_deploy import paths
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot

COMMAND = [sys.executable, "-c", "from sim2real_deploy.cli import main; main()", "train"]


def write_config(folder: Path, **changes: Any) -> Path:
    content = yaml.safe_load(paths.config_file("training/go2_walk.yaml").read_text())
    content["ppo"] |= changes.pop("ppo", {})
    del content["judging"]
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content | changes))
    return path


def figures(folder: Path, name: str) -> list[float]:
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [json.loads(line)[name] for line in lines]


@pytest.mark.timeout(600)
def test_a_short_run_learns_and_its_export_loads(tmp_path: Path) -> None:
    config = write_config(tmp_path, steps=24 * 128 * 24, ppo={"environments": 64})
    run = tmp_path / "run"
    done = subprocess.run(
        [*COMMAND, str(config), "--seed", "3", "--folder", str(run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reward = figures(run, "reward")
    assert np.mean(reward[-5:]) > np.mean(reward[:5]) + 0.2
    bundle = load_bundle(run / "bundle", load_robot("go2"))  # replays the golden steps
    assert bundle.contract.provenance["steps"] == 24 * 128 * 24
    assert (run / "training.png").stat().st_size > 10_000
    assert "steps" in done.stdout


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_can_go_on(tmp_path: Path) -> None:
    config = write_config(tmp_path, ppo={"environments": 8, "steps": 8})
    run = tmp_path / "run"
    command = [*COMMAND, str(config), "--folder", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        give_up = time.monotonic() + 200
        while not (run / "log.jsonl").exists() and time.monotonic() < give_up:
            time.sleep(0.2)
        assert (run / "log.jsonl").exists()
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert load_bundle(run / "bundle", load_robot("go2")).contract.provenance["seed"] == 1
    before = figures(run, "steps")[-1]

    other = [*command, "--seed", "7"]
    refused = subprocess.run(other, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "another seed is there; --resume" in " ".join(refused.stderr.split())

    resumed = subprocess.run(
        [*command, "--minutes", "0.02"], capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0, resumed.stderr
    steps = figures(run, "steps")
    assert steps[-1] > before
    assert steps == sorted(set(steps))


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_killed_run_goes_on_by_itself(tmp_path: Path) -> None:
    config = write_config(tmp_path, ppo={"environments": 8, "steps": 8})
    run = tmp_path / "run"
    command = [*COMMAND, str(config), "--folder", str(run), "--minutes"]
    subprocess.run([*command, "0.02"], capture_output=True, check=True)
    kept = figures(run, "steps")[-1]  # the checkpoint is of the end
    process = subprocess.Popen([*command, "10"], stdout=subprocess.DEVNULL, text=True)
    give_up = time.monotonic() + 200
    while figures(run, "steps")[-1] == kept and time.monotonic() < give_up:
        time.sleep(0.1)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert workers
    assert not psutil.wait_procs(workers, timeout=10)[1]  # none outlives it
    assert figures(run, "steps")[-1] > kept
    with (run / "log.jsonl").open("a") as log:
        log.write('{"steps": 1')  # what a kill leaves of a line
    subprocess.run([*command, "0.02"], capture_output=True, check=True)
    steps = figures(run, "steps")
    assert steps == sorted(set(steps))  # nothing is told twice
    assert np.diff(steps).tolist() == [2 * 8 * 8] * (len(steps) - 1)
    assert not (run / "checkpoint.partial").exists()


def test_nothing_to_resume_is_refused(tmp_path: Path) -> None:
    refused = subprocess.run(
        [*COMMAND, "go2_walk", "--resume", "--folder", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "nothing to resume" in refused.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_minutes_of_training_from_scratch(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = subprocess.run(
        [*COMMAND, "go2_walk", "--minutes", "2", "--folder", str(run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reward, episode = figures(run, "reward"), figures(run, "episode_s")
    assert np.mean(reward[-10:]) > np.mean(reward[:10]) + 0.5
    assert max(episode[-50:]) > 10  # it has learnt not to fall, at least
    load_bundle(run / "bundle", load_robot("go2"))
