"""From episodes to a verdict: a row per scenario, with warnings in words."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Any

from sim2real_deploy import __version__
from sim2real_deploy.checks import Check
from sim2real_deploy.gate.episodes import AXES, Episode
from sim2real_deploy.gate.figures import EpisodeFigures
from sim2real_deploy.gate.record import GateRecord, GateRow, save_record, sha256_of
from sim2real_deploy.gate.scenarios import Scenario, load_scenarios
from sim2real_deploy.policy.bundle import Bundle

Z = 1.96  # of a 95 % interval

# Beyond these a figure is flagged, even if the run succeeds.
SHUFFLE_LIFT, SHUFFLE_SPEED = 0.015, 0.2  # m; m/s of command from which on feet must lift
ROUGH_ACTION = 0.1  # rad
NEAR_TORQUE = 0.95  # of the limit
LIMITED = 0.05  # share of ticks
SLIDING = 0.5  # m/m
KNOCKING = 0.02  # share of time
ENGINES_DIFFER = 0.15  # difference of success rates
UNFAMILIAR = 2.0  # standard deviations of training


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario in one engine, over all trials."""

    scenario: str
    why: str
    engine: str
    runs: int
    successes: int
    falls: int
    rate: float
    interval: tuple[float, float]  # Wilson, 95 %
    error: tuple[float, float, float] | None  # medians of runs that walked; None if none did
    velocity: tuple[float, float, float] | None
    cost_of_transport: float | None
    torque: float | None  # the worst
    temperature: float | None  # the worst
    surprise: float | None
    smoothness: float | None
    slip: float | None
    lift: float | None
    clearance: float | None
    limits: dict[str, float]
    flags: tuple[str, ...]
    reasons: dict[str, int]  # of failure, with counts

    def passes(self, threshold: float) -> bool:
        return self.rate >= threshold


def wilson(successes: int, runs: int) -> tuple[float, float]:
    """Confidence interval of a success rate; has width even at 0 and 1."""
    rate, z2 = successes / runs, Z * Z
    middle = (rate + z2 / (2 * runs)) / (1 + z2 / runs)
    half = Z * sqrt(rate * (1 - rate) / runs + z2 / (4 * runs * runs)) / (1 + z2 / runs)
    return min(rate, max(0.0, middle - half)), max(rate, min(1.0, middle + half))


def summarise(
    scenario: Scenario, engine: str, episodes: Iterable[Episode], threshold: float
) -> Row:
    every = sorted(episodes, key=lambda episode: episode.trial)
    walked = [episode.figures for episode in every if episode.figures is not None]
    runs, successes = len(every), sum(episode.success for episode in every)
    rate = successes / runs
    reasons: dict[str, int] = {}
    for episode in every:
        if not episode.success:
            kind = "fell" if episode.fell else episode.reason.split(" by 0.")[0]
            reasons[kind] = reasons.get(kind, 0) + 1
    failed = (f"{successes} of {runs} succeed: {scenario.if_failed}",) if rate < threshold else ()
    return Row(
        scenario=scenario.name,
        why=scenario.why,
        engine=engine,
        runs=runs,
        successes=successes,
        falls=sum(episode.fell for episode in every),
        rate=rate,
        interval=wilson(successes, runs),
        error=_medians([figures.error for figures in walked]),
        velocity=_medians([figures.velocity for figures in walked]),
        cost_of_transport=_median([figures.cost_of_transport for figures in walked]),
        torque=max((figures.torque for figures in walked), default=None),
        temperature=max((figures.temperature for figures in walked), default=None),
        surprise=_median([figures.surprise for figures in walked]),
        smoothness=_median([figures.smoothness for figures in walked]),
        slip=_median([figures.slip for figures in walked]),
        lift=_median([figures.lift for figures in walked]),
        clearance=_median([figures.clearance for figures in walked]),
        limits=_limits(walked),
        flags=failed + (_flags(scenario, walked) if walked else ()),
        reasons=reasons,
    )


def compared(rows: Sequence[Row], judged_in: str) -> list[Row]:
    """Flag rows whose success rate is much lower in another engine."""
    found = []
    for row in rows:
        worse = [
            f"in {other.engine} only {other.successes} of {other.runs} succeed - it may have "
            "learnt the simulator: randomise more"
            for other in rows
            if row.engine == judged_in
            and (other.scenario, other.engine) != (row.scenario, row.engine)
            and other.scenario == row.scenario
            and other.rate < row.rate - ENGINES_DIFFER
        ]
        found.append(replace(row, flags=(*row.flags, *worse)))
    return found


def judge(rows: Sequence[Row], threshold: float) -> list[Check]:
    return [
        Check.at_least(f"{row.scenario} in {row.engine}", row.rate, threshold, "succeed")
        for row in rows
    ]


def as_json(
    bundle: Bundle, rows: Sequence[Row], episodes: Sequence[Episode], threshold: float
) -> dict[str, Any]:
    """Raw figures beside the checks."""
    return {
        "policy": bundle.contract.name,
        "sha256": bundle.contract.sha256,
        "threshold": threshold,
        "rows": [asdict(row) for row in rows],
        "episodes": [asdict(episode) for episode in episodes],
    }


def store_rows(bundle: Bundle, rows: Sequence[Row], threshold: float, engine: str) -> Path:
    """Store the result in the bundle, where a launch on a real robot looks for it. `engine` is the
    one whose rows are judged."""
    scenarios = {scenario.name: scenario for scenario in load_scenarios()}
    record = GateRecord(
        policy=bundle.contract.name,
        sha256=bundle.contract.sha256,
        contract=sha256_of(bundle.folder / "policy.yaml"),
        robot=bundle.spec.name,
        version=__version__,
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S}",
        threshold=threshold,
        engine=engine,
        rows=tuple(
            GateRow(
                scenario=row.scenario,
                content=scenarios[row.scenario].digest(bundle.spec.name),
                engine=row.engine,
                runs=row.runs,
                successes=row.successes,
                interval=row.interval,
                flags=row.flags,
            )
            for row in rows
        ),
    )
    return save_record(bundle.folder, record)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _medians(values: Sequence[tuple[float, float, float]]) -> tuple[float, float, float] | None:
    if not values:
        return None
    first, second, third = (median(axis) for axis in zip(*values, strict=True))
    return first, second, third


def _limits(walked: Sequence[EpisodeFigures]) -> dict[str, float]:
    kinds = sorted({kind for figures in walked for kind in figures.limits})
    return {
        kind: sum(figures.limits.get(kind, 0.0) for figures in walked) / len(walked)
        for kind in kinds
    }


def _flags(scenario: Scenario, walked: Sequence[EpisodeFigures]) -> tuple[str, ...]:
    """Known signs of a policy that will not transfer to the robot."""
    flags = []
    moves = max(max(abs(v) for v in command.velocity[:2]) for command in scenario.commands)
    lift = median(figures.lift for figures in walked)
    if moves >= SHUFFLE_SPEED and lift < SHUFFLE_LIFT:
        flags.append(
            f"shuffles: feet lift {100 * lift:.1f} cm - the gait reward (air time, height)"
        )
    smoothness = median(figures.smoothness for figures in walked)
    if smoothness > ROUGH_ACTION:
        flags.append(f"jerks: targets jump {smoothness:.2f} rad - the action-rate reward")
    torque = max(figures.torque for figures in walked)
    if torque > NEAR_TORQUE:
        flags.append(f"a motor reaches {torque:.0%} of its torque - the torque reward, or gains")
    for kind, share in _limits(walked).items():
        if share > LIMITED:
            flags.append(f"the {kind} limit acts {share:.0%} of the time - it asks for too much")
    slips = [figures.slip for figures in walked if figures.slip is not None]
    if slips and moves and median(slips) > SLIDING:
        flags.append(f"feet slide {median(slips):.1f} m a metre - the slip reward")
    knocks = median(figures.knocks for figures in walked)
    if knocks > KNOCKING:
        flags.append(f"knees or trunk touch {knocks:.0%} of the time - the contact reward")
    surprise = median(figures.surprise for figures in walked)
    if surprise > UNFAMILIAR:
        flags.append(f"it sees what it was not trained on: {surprise:.1f} times training's spread")
    if len(scenario.commands) == 1:
        flags += _bias(scenario, walked)
    return tuple(flags)


def _bias(scenario: Scenario, walked: Sequence[EpisodeFigures]) -> list[str]:
    """A consistent error in one direction is learnt, not chance."""
    flags = []
    wanted = scenario.commands[0].velocity
    reached = _medians([figures.velocity for figures in walked])
    assert reached is not None
    for axis, asked, came in zip(AXES, wanted, reached, strict=True):
        if abs(came - asked) > max(0.2 * abs(asked), 0.1):
            flags.append(f"{axis}: told {asked:g}, does {came:.2f} - the tracking reward")
    return flags
