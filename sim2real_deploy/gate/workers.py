"""Runs many episodes on all cores or a Ray cluster, none of them twice.

Each result is appended to a file as one line, with a key of everything it depends on, so that an
interrupted evaluation resumes where it stopped.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim2real_deploy import __version__
from sim2real_deploy.gate.episodes import Episode, run_episode
from sim2real_deploy.gate.figures import EpisodeFigures
from sim2real_deploy.gate.ray_cluster import join_cluster
from sim2real_deploy.gate.scenarios import Scenario
from sim2real_deploy.policy.bundle import Bundle

Task = tuple[str, Scenario, int]  # engine, scenario, trial
RAY_AHEAD = 2  # tasks queued per worker of a cluster


def run_here(bundle: Bundle, tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Episode]]:
    """Yields results as they finish; with one worker, runs in this process."""
    if workers == 1:
        for task in tasks:
            yield task, run_episode(bundle, *task)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, _begin, (bundle,)) as pool:
        yield from pool.imap_unordered(_run, tasks)


_bundle: Bundle | None = None  # in a worker process


def _begin(bundle: Bundle) -> None:
    global _bundle
    _bundle = bundle


def _run(task: Task) -> tuple[Task, Episode]:
    assert _bundle is not None
    return task, run_episode(_bundle, *task)


def run_on_ray(
    bundle: Bundle, tasks: Sequence[Task], address: str
) -> Iterator[tuple[Task, Episode]]:
    """On the cluster at `address`; "local" starts one here."""
    ray = join_cluster(address)
    try:
        everywhere = ray.put(bundle)
        remote = ray.remote(num_cpus=1)(run_episode)
        todo = list(reversed(tasks))
        running: dict[Any, Task] = {}
        ahead = RAY_AHEAD * int(ray.cluster_resources().get("CPU", 1))
        while todo or running:
            while todo and len(running) < ahead:
                task = todo.pop()
                running[remote.remote(everywhere, *task)] = task
            done, _ = ray.wait(list(running))
            for one in done:
                yield running.pop(one), ray.get(one)
    finally:
        ray.shutdown()


@dataclass(frozen=True, slots=True)
class Key:
    """All that an episode's result depends on."""

    policy: str
    scenario: str  # its digest
    engine: str
    trial: int
    version: str = __version__


def policy_digest(bundle: Bundle) -> str:
    """A hash of the network and its whole contract."""
    content = bundle.contract.model_dump_json().encode()
    return hashlib.sha256(content + hashlib.sha256(bundle.model).digest()).hexdigest()


class Results:
    """A file of results, one per line."""

    def __init__(self, path: Path, bundle: Bundle) -> None:
        self._path, self._policy = path, policy_digest(bundle)
        self._robot = bundle.spec.name
        self._done: dict[Key, Episode] = {}
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for line in text.splitlines():
            self._read(line)
        if text and not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as stream:
                stream.write("\n")

    def _read(self, line: str) -> None:
        try:
            content = json.loads(line)
            self._done[Key(**content["key"])] = episode_from(content["episode"])
        except (ValueError, KeyError, TypeError):
            return  # a line cut off by an interruption

    def key(self, task: Task) -> Key:
        engine, scenario, trial = task
        return Key(self._policy, scenario.digest(self._robot), engine, trial)

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        return [task for task in tasks if self.key(task) not in self._done]

    def add(self, task: Task, episode: Episode) -> None:
        key = self.key(task)
        self._done[key] = episode
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"key": asdict(key), "episode": asdict(episode)})
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def of(self, tasks: Iterable[Task]) -> list[Episode]:
        return [self._done[self.key(task)] for task in tasks]


def episode_from(content: dict[str, Any]) -> Episode:
    figures = content["figures"]
    if figures is not None:
        tuples = {name: tuple(figures[name]) for name in ("velocity", "error")}
        figures = EpisodeFigures(**{**figures, **tuples})
    return Episode(**{**content, "figures": figures})
