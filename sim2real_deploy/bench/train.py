"""Training throughput as a share of the bare physics rate; one worker, one thread."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import TrainingConfig, load_training
from sim2real_deploy.training.environment import Environment
from sim2real_deploy.training.trainer import Collector, make_learner, use_one_thread

COLLECTING = 0.6  # of the bare physics rate
LEARNING = 0.3


@dataclass(frozen=True, slots=True)
class Throughput:
    """Control steps per second of one worker."""

    bare: float  # MuJoCo alone, on the same models
    collecting: float  # with policy, observations, rewards and resets
    learning: float  # and with the PPO update


def run(config: str, seconds: float, progress: Progress) -> BenchResult:
    rate = measure(load_training(config), seconds, progress)
    checks = [
        Check.at_least("collecting / bare physics", rate.collecting / rate.bare, COLLECTING),
        Check.at_least("learning / bare physics", rate.learning / rate.bare, LEARNING),
    ]
    rows = tuple(asdict(rate).items())
    raw = {"steps_per_second": asdict(rate)}
    return BenchResult("bench train", checks, raw, ("one worker", "control steps/s"), rows)


def measure(config: TrainingConfig, seconds: float, progress: Progress) -> Throughput:
    """The parts alternate in one run, so that a busy machine affects all three."""
    use_one_thread(seed=0)
    environment = Environment(config, load_robot(config.robot), config.ppo.environments, seed=0)
    learner = make_learner(config, environment)
    collector = Collector(config, environment, learner)
    collector.collect()  # warm

    def physics() -> None:
        for _ in range(config.ppo.steps):
            environment.advance()

    bare = collecting = updating = 0.0
    rounds = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or not rounds:
        progress("physics, collecting, learning in turn", elapsed / seconds)
        bare += _timed(physics)
        collecting += _timed(collector.collect)
        updating += _timed(lambda: learner.learn(collector.batch, collector.last_value))
        rounds += 1
    steps = rounds * collector.batch.reward.numel()
    return Throughput(steps / bare, steps / collecting, steps / (collecting + updating))


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
