"""A training run: workers that collect and learn in step, checkpoints, and a log of figures.

Rank 0 is the calling process; it alone decides when to stop, writes files and reports. All
ranks take the same decisions from the same averaged figures, so nothing else is sent.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.checkpoint import (
    CHECKPOINT,
    LOG,
    parse_checkpoint,
    should_resume,
    versions,
    write_checkpoint,
)
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.crew import Crew, LocalCrew
from sim2real_deploy.training.environment import MISSED_SCALE, Environment
from sim2real_deploy.training.ppo import Batch, Felt, Learner
from sim2real_deploy.training.rewards import Array
from sim2real_deploy.training.symmetry import Mirror, joint_mirror, observation_mirror
from sim2real_deploy.training.warm_start import warm_start

CHECKPOINT_EVERY_S = 30.0
STATISTICS_MEMORY = 0.99  # of the observation statistics, per iteration
ANSWER = timedelta(minutes=10)  # a worker that is silent for longer is lost
LOSSES = 3  # lost workers in a row, without a checkpoint between them, end a run

Figures = dict[str, Any]
Report = Callable[[Figures], None]
Watch = Callable[[Array], None]  # gets the poses of one robot, steps x coordinates


@dataclass(frozen=True, slots=True)
class Run:
    """What to train, where it is kept and how far it goes."""

    config: TrainingConfig
    folder: Path
    seed: int
    minutes: float | None = None
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the calling process is told and may decide during a run."""

    report: Report = lambda figures: None  # gets each iteration
    enough: Callable[[], bool] = lambda: False  # whether to stop early
    say: Callable[[str], None] = lambda words: None
    watch: Watch | None = None


def train(run: Run, hooks: Hooks | None = None, crew: Crew | None = None) -> Path:
    """Train to the end (Ctrl-C, or `enough`) and return the checkpoint. A run that was cut off in
    this folder goes on; so does one that loses a worker."""
    path = run.folder / CHECKPOINT
    run = replace(run, resume=should_resume(run.folder, run.config, run.seed, run.resume))
    run.folder.mkdir(parents=True, exist_ok=True)
    hooks, crew = hooks or Hooks(), crew or LocalCrew()
    workers = run.config.ppo.workers
    begun, losses = time.monotonic(), 0
    while True:
        start = path.read_bytes() if run.resume else None
        with crew.working(partial(_other_rank, run, start), workers) as address:
            try:
                _work(run, start, 0, address, hooks)
                return path
            except RuntimeError as error:
                if not _is_of_a_lost_worker(error):
                    raise
                why = str(error).splitlines()[0]
        kept = path.exists() and path.read_bytes() != start
        losses = 1 if kept else losses + 1
        if losses == LOSSES:
            raise Refusal(f"{run.folder}: workers are lost again and again: {why}")
        hooks.say(f"a worker was lost ({why}); going on from the last checkpoint")
        if run.minutes:
            spent = (time.monotonic() - begun) / 60
            run = replace(run, minutes=max(run.minutes - spent, 0.01))
            begun = time.monotonic()
        run = replace(run, resume=should_resume(run.folder, run.config, run.seed, path.exists()))


def _is_of_a_lost_worker(error: RuntimeError) -> bool:
    """What torch raises when another worker no longer answers."""
    network = (dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError)
    return isinstance(error, network) or "gloo" in str(error)


def _other_rank(run: Run, start: bytes | None, rank: int, address: str) -> None:
    _work(run, start, rank, address, Hooks())


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM end the run after the iteration in hand, with a checkpoint."""
    asked: list[int] = []
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, lambda number, _: asked.append(number)) for name in names]
    try:
        yield lambda: bool(asked)
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def use_one_thread(seed: int) -> None:
    """At this size a second torch thread gains nothing: the second core goes to a second worker."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)


def _work(run: Run, start: bytes | None, rank: int, address: str, hooks: Hooks) -> None:
    """Everything that one rank does; `start` is the checkpoint to continue from."""
    torch.set_num_threads(1)
    workers = run.config.ppo.workers
    dist.init_process_group(
        "gloo", init_method=address, rank=rank, world_size=workers, timeout=ANSWER
    )
    try:
        worker = Worker(run, start, rank)
        if rank == 0:
            with _asked_to_stop() as stop:
                worker.loop(hooks, lambda: stop() or hooks.enough())
        else:
            worker.loop(hooks, lambda: False)
    finally:
        dist.destroy_process_group()


def _torch_mirror(mirror: Mirror) -> Callable[[torch.Tensor], torch.Tensor]:
    source, signs = torch.from_numpy(mirror.source), torch.from_numpy(mirror.signs)
    return lambda values: values[..., source] * signs


def make_learner(config: TrainingConfig, environment: Environment) -> Learner:
    observation, privileged = environment.observe()
    joints = joint_mirror(environment.robot, config.symmetry)
    steering = torch.from_numpy(environment.steering(config.network.steering_gain))
    reach = MISSED_SCALE * config.network.steering_reach
    return Learner(
        observation.shape[1],
        privileged.shape[1],
        len(environment.robot.joints),
        config.network,
        config.ppo,
        Felt(environment.felt, steering, reach),
        _torch_mirror(observation_mirror(config.observation, joints)),
        _torch_mirror(joints),
    )


class Collector:
    """Fills batches with the policy's experience; each batch continues where the last one ended."""

    def __init__(self, config: TrainingConfig, environment: Environment, learner: Learner):
        ppo = config.ppo
        self.ppo, self.environment, self.learner = ppo, environment, learner
        self._observation, self._privileged = map(torch.from_numpy, environment.observe())
        sizes = self._observation.shape[1], self._privileged.shape[1], len(environment.robot.joints)
        self.batch = Batch.empty(ppo.steps, ppo.environments, *sizes)
        self.last_value = torch.zeros(ppo.environments)
        # Position, attitude and joints of the first environment in each step, for --watch.
        self.poses = np.zeros((ppo.steps, environment.physics.poses.shape[1]), np.float32)

    def collect(self) -> None:
        batch, learner = self.batch, self.learner
        with torch.inference_mode():
            for step in range(self.ppo.steps):
                action, log_probability, mean = learner.actor.sample(self._observation)
                value = learner.value(self._privileged)
                batch.observation[step] = self._observation
                batch.privileged[step] = self._privileged
                batch.action[step] = action
                batch.mean[step] = mean
                batch.log_probability[step] = log_probability
                batch.value[step] = value
                outcome = self.environment.step(action.numpy())
                self.poses[step] = self.environment.physics.poses[0]
                # An episode cut short by time would have gone on: its future is worth `value`.
                late = torch.from_numpy(outcome.timed_out) * self.ppo.gamma * value
                batch.reward[step] = torch.from_numpy(outcome.reward) + late
                batch.ended[step] = torch.from_numpy(outcome.fell | outcome.timed_out)
                self._observation = torch.from_numpy(outcome.observation)
                self._privileged = torch.from_numpy(outcome.privileged)
            self.last_value = learner.value(self._privileged)


class Worker:
    """One rank: its environments, its copy of the networks."""

    def __init__(self, run: Run, start: bytes | None, rank: int):
        self.run, self.rank, self.config = run, rank, run.config
        ppo = self.config.ppo
        torch.manual_seed(run.seed)  # equal networks everywhere ...
        robot = load_robot(self.config.robot)
        seed = run.seed * 1000 + rank  # ... unequal experience
        self.environment = Environment(self.config, robot, ppo.environments, seed)
        self.learner = make_learner(self.config, self.environment)
        torch.manual_seed(seed)
        self.steps = self.iteration = 0
        self.seconds = 0.0  # of earlier sessions of this run
        self.collector = Collector(self.config, self.environment, self.learner)
        self.batch = self.collector.batch
        self.moments = torch.zeros(2, self.batch.observation.shape[-1])  # of the observation
        if start is not None:
            self._load(parse_checkpoint(start, run.folder / CHECKPOINT))
        elif self.config.network.warm_start is not None:
            warm_start(self.learner.actor, self.config)

    def loop(self, hooks: Hooks, stop: Callable[[], bool]) -> None:
        begun = saved = time.monotonic()
        limit = self.run.minutes * 60 if self.run.minutes else float("inf")
        before, workers = self.seconds, self.config.ppo.workers
        first = done = self.steps / self.config.steps
        while done < 1.0:
            anneal_from = self.config.ppo.anneal_from
            late = max(0.0, done - anneal_from) / max(1e-9, 1.0 - anneal_from)
            self.environment.config = self.config.at(done)
            started = time.monotonic()
            self.collector.collect()
            collected = time.monotonic()
            figures: Figures = self.learner.learn(
                self.batch, self.collector.last_value, late, self._critic_alone()
            )
            now = time.monotonic()
            self.iteration += 1
            self.steps += workers * self.batch.reward.numel()
            self.seconds = before + now - begun
            done = max(self.steps / self.config.steps, (now - begun) / limit)
            done = self._agree(figures, 1.0 if stop() else done)
            figures |= {
                "done": done,
                "steps": self.steps,
                "seconds": self.seconds,
                "session_seconds": now - begun,
                "progress": done - first,
                "steps_per_s": workers * self.batch.reward.numel() / (now - started),
                "collected_per_s": workers * self.batch.reward.numel() / (collected - started),
            }
            if self.rank == 0:
                with (self.run.folder / LOG).open("a", encoding="utf-8") as log:
                    log.write(json.dumps(figures) + "\n")
                hooks.report(figures)
                if hooks.watch is not None:
                    hooks.watch(self.collector.poses.copy())
                if done >= 1.0 or now - saved > CHECKPOINT_EVERY_S:
                    self._save(self.run.folder / CHECKPOINT)
                    saved = now

    def _critic_alone(self) -> bool:
        """After a warm start, the actor waits until the critic has learnt its value."""
        warm = self.config.network.warm_start is not None
        return warm and self.iteration < self.config.ppo.critic_first

    def _agree(self, figures: Figures, done: float) -> float:
        """Average the ranks' figures; rank 0 decides how much of the run is done."""
        environment = self.environment
        levels = environment.terrain.mean_levels()
        names = [*environment.sums, *environment.reward_sums, *levels]
        sums = torch.tensor(
            [
                *environment.sums.values(),
                *environment.reward_sums.values(),
                *(level / self.config.ppo.workers for level in levels.values()),
                done if self.rank == 0 else 0.0,
            ],
            dtype=torch.float64,
        )
        dist.all_reduce(sums)
        total = dict(zip(names, sums.tolist(), strict=False))
        for sums_of_rank in (environment.sums, environment.reward_sums):
            for name in sums_of_rank:
                sums_of_rank[name] = 0.0
        environment.width.count(total["judged"], total["succeeded"])
        if environment.pushes.width is not environment.width:
            environment.pushes.width.count(total["pushes"], total["withstood"])
        finished = max(total["finished"], 1.0)
        flat = self.batch.observation.flatten(0, 1)
        now = torch.stack([flat.mean(0), flat.square().mean(0)])
        memory = min(STATISTICS_MEMORY, 1.0 - 1.0 / self.iteration)
        self.moments = memory * self.moments + (1 - memory) * now
        figures |= {
            "episodes": total["finished"],
            "fell": total["fell"],
            "judged": total["judged"],
            "succeeded": total["succeeded"],
            "episode_s": total["length"] / finished / self.config.control.rate_hz,
            "error_v": total["error_v"] / total["steps"],
            "error_w": total["error_w"] / total["steps"],
            "width": environment.width.value,
            "pushes": total["pushes"],
            "withstood": total["withstood"],
            "push_width": environment.pushes.width.value,
            "terrain": {name: total[name] for name in levels},
            "rewards": {name: total[name] / total["steps"] for name in environment.reward_sums},
            "reward": sum(total[name] for name in environment.reward_sums) / total["steps"],
        }
        return float(sums[-1])

    def _save(self, path: Path) -> None:
        learner = self.learner
        content = {
            "config": self.config.model_dump(mode="json"),
            "seed": self.run.seed,
            "steps": self.steps,
            "iteration": self.iteration,
            "seconds": self.seconds,
            "actor": learner.actor.state_dict(),
            "critic": learner.critic.state_dict(),
            "actor_optimiser": learner.actor_optimiser.state_dict(),
            "critic_optimiser": learner.critic_optimiser.state_dict(),
            "rate": learner.rate,
            "width": self.environment.width.value,
            "push_width": self.environment.pushes.width.value,
            "terrain": self.environment.terrain.mean_levels(),
            "moments": self.moments,
            "versions": versions(),
        }
        write_checkpoint(path, content)

    def _load(self, content: dict[str, Any]) -> None:
        learner = self.learner
        learner.actor.load_state_dict(content["actor"])
        learner.critic.load_state_dict(content["critic"])
        learner.actor_optimiser.load_state_dict(content["actor_optimiser"])
        learner.critic_optimiser.load_state_dict(content["critic_optimiser"])
        learner.rate = content["rate"]
        self.steps, self.iteration = content["steps"], content["iteration"]
        self.seconds, self.moments = content["seconds"], content["moments"]
        self.environment.width.value = content["width"]
        self.environment.pushes.width.value = content.get("push_width", content["width"])
        self.environment.terrain.resume(content["terrain"])
