"""Workers of a run, here or on a cluster: the same results, and none is irreplaceable."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sim2real_deploy.training.config import TrainingConfig, load_training
from sim2real_deploy.training.crew import LocalCrew, RayCrew
from sim2real_deploy.training.trainer import Figures, Hooks, Run, train

ITERATIONS = 6
KEPT = ("reward", "policy_loss", "value_loss", "felt_error", "error_v", "std")


def small(workers: int, iterations: int = ITERATIONS) -> TrainingConfig:
    config = load_training("go2_walk")
    ppo = config.ppo.model_copy(update={"workers": workers, "environments": 4, "steps": 8})
    return config.model_copy(update={"ppo": ppo, "steps": workers * 4 * 8 * iterations})


def curve(folder: Path) -> list[list[float]]:
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [[row[name] for name in KEPT] for row in rows]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one core each on this computer."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    try:
        yield nodes
    finally:
        import ray

        ray.shutdown()
        nodes.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [2, 3])
def test_two_ray_nodes_learn_what_local_workers_learn(
    tmp_path: Path, cluster: Any, workers: int
) -> None:
    """With three workers, worker 0 is here and each node has one."""
    train(Run(small(workers), tmp_path / "here", seed=5), crew=LocalCrew())
    train(Run(small(workers), tmp_path / "there", seed=5), crew=RayCrew(cluster.address))
    assert len(curve(tmp_path / "here")) == ITERATIONS
    assert curve(tmp_path / "there") == curve(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_goes_on_when_a_ray_node_is_lost(tmp_path: Path, cluster: Any) -> None:
    said: list[str] = []
    lost = [cluster.worker_nodes]

    def lose(figures: Figures) -> None:
        if lost and figures["steps"] > 3 * 4 * 8:
            cluster.remove_node(next(iter(lost.pop())), allow_graceful=False)

    run = Run(small(3), tmp_path, seed=5)
    train(run, Hooks(report=lose, say=said.append), RayCrew(cluster.address))
    assert not lost
    assert len(said) == 1
    assert "a worker was lost" in said[0]
    assert len(curve(tmp_path)) == ITERATIONS


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_goes_on_when_a_local_worker_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    killed: list[int] = []

    def kill(figures: Figures) -> None:
        if not killed and figures["steps"] > 2 * 4 * 8:
            mine = psutil.Process().children()
            worker = next(one for one in mine if "spawn_main" in " ".join(one.cmdline()))
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    train(Run(small(2), tmp_path, seed=5), Hooks(report=kill, say=said.append))
    assert killed
    assert len(said) == 1
    assert len(curve(tmp_path)) == ITERATIONS
