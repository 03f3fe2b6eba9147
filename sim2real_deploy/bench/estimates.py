"""How accurate are the policy network's own estimates of its robot? Reported, not judged: only a
plausibility check of the velocity hold uses them.

Each hidden robot differs in payload, motor strength, delay and floor at once, and has encoder
offsets and sticking joints that were not in training. An estimate is its mean over four seconds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.hidden_changes import hidden_imperfections
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import Drive, heading_velocity
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.per_joint import named
from sim2real_deploy.twin.robot import TwinRobot

COMMANDS = (
    (0.6, 0.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.0, 0.3, 0.0),
    (1.0, 0.0, 0.0),
    (-0.5, 0.0, 0.0),
    (0.4, 0.0, 0.5),
)
SETTLE_S, JUDGED_S = 4.0, 4.0
PERIOD_S = 0.002  # delays are whole wire periods
USUAL_DELAY_S = 0.006  # of the default twin, bus and boards


@dataclass(frozen=True, slots=True)
class UnseenRobot:
    payload: float  # kg
    strength: float  # of the default twin's
    more_delay: float  # s
    floor: float  # friction

    @classmethod
    def of_seed(cls, seed: int) -> "UnseenRobot":
        rng = np.random.default_rng([seed, 99])
        payload, strength = rng.uniform(0.0, 4.0), rng.uniform(0.8, 1.05)
        return cls(payload, strength, PERIOD_S * rng.integers(0, 9), rng.uniform(0.4, 1.1))

    def build(self, spec: RobotSpec, seed: int) -> TwinRobot:
        made = hidden_imperfections(spec, seed)
        motors = made.motors.model_dump()
        motors["delay"] += self.more_delay
        strengths = made.motors.strengths(spec) * self.strength
        motors["strength"] = named(spec, strengths)
        changed = Imperfections.model_validate(made.model_dump() | {"motors": motors})
        robot = TwinRobot(spec, imperfections=changed, floor=Floor(friction=self.floor), seed=seed)
        robot.reset(seed)
        return robot


def run(robot: str, policy: str, seeds: range, progress: Progress) -> BenchResult:
    bundle = load_bundle(policy, load_robot(robot))
    names = bundle.open().estimated
    if not names:
        raise Refusal(f"policy '{policy}': its network estimates nothing")
    walks = []
    for number, seed in enumerate(seeds):
        progress(f"robot {seed}", number / len(seeds))
        walks.append(_walk(bundle, seed))
    rows: list[tuple[str, float, float, float, float]] = []
    for name in names:
        pairs = [(truth[name], told[name]) for truth, told in walks if name in truth]
        if pairs:
            rows.append((name, *_accuracy(np.array(pairs))))
    columns = ("estimate", "bias", "rms error", "spread of the truth", "slope")
    raw: dict[str, Any] = {
        "robots": [{"truth": truth, "told": told} for truth, told in walks],
        "rows": [dict(zip(columns, row, strict=True)) for row in rows],
    }
    title = f"bench estimates: {len(walks)} hidden robots"
    checks = [Check.at_least("hidden robots", len(walks), 2)]
    return BenchResult(title, checks, raw, columns, rows)


def _accuracy(pairs: np.ndarray) -> tuple[float, float, float, float]:
    """Bias, rms error, spread of the truth, and the slope of estimate over truth (1: ideal)."""
    truth, told = pairs.T
    error = told - truth
    spread = float(truth.std())
    slope = float(np.polyfit(truth, told, 1)[0]) if spread else float("nan")
    return float(error.mean()), float(np.sqrt(np.mean(error**2))), spread, slope


def _walk(bundle: Bundle, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """The true figures of a hidden robot, and the network's estimates of them."""
    hidden = UnseenRobot.of_seed(seed)
    robot = hidden.build(bundle.spec, seed)
    drive = Drive(bundle, robot)
    drive.stand_and_walk()
    robot.carry(hidden.payload)
    command, rate = COMMANDS[seed % len(COMMANDS)], bundle.spec.wire.rate_hz
    policy = drive.controller.policy
    assert policy is not None
    reached, told = [], []
    for tick in range(round((SETTLE_S + JUDGED_S) * rate)):
        drive.walk_at(command)
        drive.tick()
        if tick >= SETTLE_S * rate:
            reached.append(heading_velocity(robot.base_truth))
            if drive.controller.walking.stepped:
                told.append(policy.estimates.copy())
    vx, vy, wz = (np.mean(reached, axis=0) - command).tolist()
    truth = {
        "missed_vx": vx,
        "missed_vy": vy,
        "missed_wz": wz,
        "payload": hidden.payload,
        "motor_strength": hidden.strength,
        "delay": USUAL_DELAY_S + hidden.more_delay,
        "friction": hidden.floor,
    }
    means = np.mean(told, axis=0).tolist()
    return truth, dict(zip(policy.estimated, means, strict=True))
