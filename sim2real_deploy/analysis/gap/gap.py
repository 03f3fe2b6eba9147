"""The gap between a robot and its simulator: one number, its causes, and what they rest on."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sim2real_deploy.analysis.gap.beliefs import Belief
from sim2real_deploy.analysis.gap.causes import Cause, Findings, causes_of, find, in_order
from sim2real_deploy.analysis.gap.closed_loop import How, walk_in_twin
from sim2real_deploy.analysis.gap.distances import auc, distances
from sim2real_deploy.analysis.gap.figures import Figure, Speed, compare_figures, compare_speeds
from sim2real_deploy.analysis.gap.walk import LEAST_S, LEAST_WATCHED_S, SETTLE_S, Walk
from sim2real_deploy.analysis.gap.world_fit import World, motion_of_walk
from sim2real_deploy.analysis.twin_replay import ReplayErrors, replay_errors
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor

SEEDS = (1, 2)
HORIZONS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
SAME = 0.55  # AUC up to which nobody could tell robot and twin apart
AUC_SPREAD = 0.03  # by which it differs from one pair of equal walks to the next
UNEXPLAINED = 0.5  # share of the gap that stays: a world of another kind
NAMED_CHANNELS = 5


@dataclass(frozen=True, slots=True)
class Gap:
    robot: Walk
    twin: Walk
    number: float  # mean distance of all channels, in standard deviations, chance taken off
    chance: float  # the same between two walks of the twin, taken off
    auc: float
    auc_chance: float  # between two walks of the twin
    channels: dict[str, float]
    causes: tuple[Cause, ...]  # the largest first
    left: float | None  # `number` once the twin has all the causes; None where none was named
    left_channels: dict[str, float]
    findings: Findings | None  # None where torque was not recorded
    figures: tuple[Figure, ...]
    speeds: tuple[Speed, ...]
    open_loop: ReplayErrors
    twin_fell_s: float | None
    beliefs: tuple[Belief, ...] = ()  # the robot's own, where the bag holds them

    @property
    def same(self) -> bool:
        return not self.told_apart and not self.causes

    @property
    def told_apart(self) -> bool:
        """Better than two walks of one twin are."""
        return self.auc > max(SAME, self.auc_chance + AUC_SPREAD)

    @property
    def another_world(self) -> bool:
        """Most of the gap is none of the causes that have a name."""
        left = self.number if self.left is None else self.left
        return self.told_apart and left > UNEXPLAINED * self.number

    def verdict(self) -> str:
        if self.same:
            return "This robot cannot be told from the twin."
        if not self.another_world:
            return "The causes below explain most of it."
        furthest = ", ".join(list(self.left_channels)[:NAMED_CHANNELS])
        some = "The causes found do not explain it" if self.causes else "No known cause explains it"
        return (
            f"{some}: the robot differs in ways that the twin does not model, most in {furthest}."
        )

    def raw(self) -> dict[str, Any]:
        """For --json."""
        return {
            "bag": self.robot.name,
            "gap": self.number,
            "gap_by_chance": self.chance,
            "gap_left": self.left,
            "auc": self.auc,
            "auc_by_chance": self.auc_chance,
            "verdict": self.verdict(),
            "causes": [
                {
                    "name": c.name,
                    "size": c.size,
                    "unit": c.unit,
                    "explains": c.explains,
                    "words": c.words,
                    "remedy": c.remedy,
                }
                for c in self.causes
            ],
            "channels": self.channels,
            "channels_left": self.left_channels,
            "figures": {f.name: {"unit": f.unit, "robot": f.robot, "twin": f.twin}
                        for f in self.figures},
            "speeds": [
                {"command": s.command, "robot": s.robot, "twin": s.twin, "apart_m_s": s.apart}
                for s in self.speeds
            ],
            "open_loop": {
                f"{h:g} s": {
                    "joints_rad": float(np.sqrt(np.mean(self.open_loop.joints[i] ** 2))),
                    "tilt_deg": float(self.open_loop.tilt[i]),
                    "velocity_m_s": float(self.open_loop.velocity[i]),
                }
                for h in HORIZONS_S
                for i in [self.open_loop.at(h)]
            },
            "twin_fell_s": self.twin_fell_s,
            "beliefs": [asdict(belief) for belief in self.beliefs],
        }  # fmt: skip


def measure_gap(
    robot: Walk,
    bundle: Bundle,
    imperfections: Imperfections,
    floor: Floor | None = None,
    stage: str = "field",
) -> Gap:
    floor = floor or Floor()
    spec = robot.robot
    commands, how = robot["command"], How.as_in(robot, stage)

    def walked(world: World, seed: int) -> tuple[Walk, float | None]:
        twin = world.twin(spec, imperfections, floor)
        simulated = walk_in_twin(bundle, twin, seed, commands, how)
        return simulated.walk, simulated.fell_s

    (twin, fell_s), (second, _) = (walked(World(), seed) for seed in SEEDS)
    least_s = SETTLE_S + (LEAST_WATCHED_S if robot.watched else LEAST_S)
    if len(twin) < least_s * spec.wire.rate_hz:
        raise Refusal(
            f"the twin fell {fell_s or 0:.1f} s into the walk that the robot walked: too early to "
            "compare; try another --twin"
        )
    whole = [walk for walk in (twin, second) if len(walk) >= least_s * spec.wire.rate_hz]
    chance = _mean(distances(second, twin))
    channels = distances(robot, twin)
    number = max(_mean(channels) - chance, 0.0)
    findings, causes = None, []
    if robot.torque_known:
        findings = find(robot, twin, imperfections, floor)
        causes = causes_of(findings, floor)
    left, left_channels = None, channels
    if causes:
        every = World()
        for cause in causes:
            every = cause.apply(every)
        left_channels = distances(robot, walked(every, SEEDS[0])[0])
        left = max(_mean(left_channels) - chance, 0.0)
        if len(causes) == 1:
            causes = [replace(causes[0], explains=_share(number, left))]
        else:
            alone = [walked(cause.apply(World()), SEEDS[0])[0] for cause in causes]
            causes = [
                replace(c, explains=_share(number, max(_mean(distances(robot, w)) - chance, 0.0)))
                for c, w in zip(causes, alone, strict=True)
            ]
    replayed = World().twin(spec, imperfections.without_chance(), floor)
    return Gap(
        robot=robot,
        twin=twin,
        number=number,
        chance=chance,
        auc=auc(robot, twin),
        auc_chance=auc(second, twin),
        channels=channels,
        causes=tuple(in_order(causes)),
        left=left,
        left_channels=left_channels,
        findings=findings,
        figures=tuple(compare_figures(robot, whole)),
        speeds=tuple(compare_speeds(robot, whole)),
        open_loop=replay_errors(replayed, motion_of_walk(robot), HORIZONS_S[-1]),
        twin_fell_s=fell_s,
    )


def _mean(channels: dict[str, float]) -> float:
    return float(np.mean(list(channels.values())))


def _share(before: float, after: float) -> float:
    return (before - after) / before if before > 0 else 0.0
