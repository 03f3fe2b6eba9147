"""How much of the velocity lost to a hidden change does adaptation restore?

For each seed three twins walk: one stays healthy, one changes in mid-walk without adaptation, one
changes with it. From three seconds after the change on, both are compared with the healthy one. A
healthy robot with adaptation must walk as without.
"""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.hidden_changes import CHANGES, NOTHING, HiddenChange, hidden_robot
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.control.adaptation import Adaptation
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import Drive, fallen, heading_velocity
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.safety.chain import CLEAR

COMMANDS = ((0.6, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.3, 0.0), (1.0, 0.0, 0.0))  # by seed
SETTLE_S = 5.0  # of walking before the change
ADAPT_S = 3.0  # after it, before tracking counts
JUDGED_S = 4.0
RECOVERED = 0.8  # share of the lost velocity
STRENGTH_ERROR, PAYLOAD_ERROR_KG = 0.03, 0.5
LEAST_LOSS = 0.02  # m/s and rad/s: a loss below this is no loss
TREMOR_HZ, TREMOR = 10.0, 1.05  # torque above this frequency, with adaptation by without
TICK_US = 50.0
OFF, ON = "none", "all"


@dataclass(frozen=True, slots=True)
class AdaptationWalk:
    """One run over the judged time, measured from outside."""

    velocity: tuple[float, float, float]
    height: float
    tremor: float  # Nm, root mean square of torques above TREMOR_HZ
    strength_error: float  # largest of all joints; 0 without adaptation
    payload_error_kg: float
    switched_off: bool
    fell: bool


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change over all seeds; lengths of (vx, vy, wz), m/s and rad/s."""

    name: str
    lost: float
    left: float  # of that, with adaptation
    height_lost: float  # m
    height_left: float
    strength_error: float  # largest
    payload_error_kg: float  # largest
    switched_off: int
    falls: tuple[int, int]  # without, with
    judged: bool

    @property
    def recovered(self) -> float:
        return 1.0 - self.left / self.lost if self.lost else 1.0


def run(
    robot: str, policy: str, seeds: range, only: str, workers: int, progress: Progress
) -> BenchResult:
    """`only`: the changes whose name contains it, beside the robot with nothing wrong."""
    bundle = load_bundle(policy, load_robot(robot))
    cost = tick_cost(bundle)
    chosen = [0, *(i + 1 for i, change in enumerate(CHANGES) if only in change.name)]
    if len(chosen) == 1:
        names = ", ".join(change.name for change in CHANGES)
        raise Refusal(f"no change's name contains '{only}'; there are: {names}")
    every = (NOTHING, *CHANGES)
    trials = [(index, adaptation) for index in chosen for adaptation in (OFF, ON)]
    walks: list[list[AdaptationWalk]] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for number, (index, adaptation) in enumerate(trials):
            progress(f"{every[index].name}, adaptation {adaptation}", number / len(trials))
            jobs = [(robot, policy, index, adaptation, seed) for seed in seeds]
            walks.append(pool.starmap(_job, jobs, chunksize=1))
    healthy = walks[0]
    rows = [
        _row(every[index], healthy, walks[2 * place], walks[2 * place + 1])
        for place, index in enumerate(chosen)
    ]
    tremor = float(np.mean([b.tremor / a.tremor for a, b in zip(healthy, walks[1], strict=True)]))
    columns = ("change", "lost", "left", "recovered", "strength", "payload kg", "switched off")
    shown = [
        (r.name, r.lost, r.left, r.recovered, r.strength_error, r.payload_error_kg, r.switched_off)
        for r in rows
    ]
    raw = {
        "seeds": [seeds.start, seeds.stop - 1],
        "rows": [asdict(r) | {"recovered": r.recovered} for r in rows],
        "walks": [
            {
                "change": every[index].name,
                "adaptation": adaptation,
                "walks": list(map(asdict, done)),
            }
            for (index, adaptation), done in zip(trials, walks, strict=True)
        ],
        "tremor": tremor,
        "tick_us": cost,
    }
    title = f"bench adaptation: seeds {seeds.start} to {seeds.stop - 1}"
    return BenchResult(title, _checks(rows, tremor, cost), raw, columns, shown)


def _checks(rows: list[ChangeRow], tremor: float, cost: dict[str, float]) -> list[Check]:
    nothing, *changed = rows
    checks = [
        Check.at_most("nothing wrong: changed by", nothing.left, LEAST_LOSS, "m/s"),
        Check.at_most("nothing wrong: tremor", tremor, TREMOR, "times"),
        Check.at_most("added to the slowest tick", cost["slowest"], TICK_US, "us"),
    ]
    for row in rows:
        if row.judged:
            name = row.name
            strength = Check.at_most(f"{name}: strength", row.strength_error, STRENGTH_ERROR)
            payload = Check.at_most(f"{name}: load", row.payload_error_kg, PAYLOAD_ERROR_KG, "kg")
            checks += [strength, payload]
    return checks + [
        Check.at_least(f"{row.name}: recovered", row.recovered, RECOVERED)
        for row in changed
        if row.judged
    ]


def _row(
    change: HiddenChange,
    healthy: list[AdaptationWalk],
    without: list[AdaptationWalk],
    with_it: list[AdaptationWalk],
) -> ChangeRow:
    def apart(walks: list[AdaptationWalk]) -> float:
        """Root mean square of the distance."""
        off = [np.subtract(a.velocity, b.velocity) for a, b in zip(healthy, walks, strict=True)]
        return float(np.sqrt(np.mean(np.sum(np.square(off), axis=1))))

    def sunk(walks: list[AdaptationWalk]) -> float:
        return float(np.mean([a.height - b.height for a, b in zip(healthy, walks, strict=True)]))

    return ChangeRow(
        change.name,
        apart(without),
        apart(with_it),
        sunk(without),
        sunk(with_it),
        max(walk.strength_error for walk in with_it),
        max(walk.payload_error_kg for walk in with_it),
        sum(walk.switched_off for walk in with_it),
        (sum(walk.fell for walk in without), sum(walk.fell for walk in with_it)),
        change.judged,
    )


def _job(robot: str, policy: str, change: int, adaptation: str, seed: int) -> AdaptationWalk:
    bundle = load_bundle(policy, load_robot(robot))
    return walk(bundle, (NOTHING, *CHANGES)[change], adaptation, seed)


def walk(bundle: Bundle, change: HiddenChange, adaptation: str, seed: int) -> AdaptationWalk:
    """Walk, apply the change, and measure from ADAPT_S after it."""
    spec, rate = bundle.spec, bundle.spec.wire.rate_hz
    robot = hidden_robot(spec, seed)
    drive = Drive(bundle, robot, supervised=True, adaptation=adaptation)
    drive.stand_and_walk()
    command = COMMANDS[seed % len(COMMANDS)]
    begins = round((SETTLE_S + 0.5 * np.random.default_rng(seed).random()) * rate)
    comes, judged = max(1, round(change.seconds * rate)), round(JUDGED_S * rate)
    ends = begins + comes + round(ADAPT_S * rate) + judged
    velocities, heights, torques, fell = [], [], [], False
    for tick in range(ends):
        age = tick - begins
        if 0 <= age < comes and (comes == 1 or age % 50 == 0):
            change.apply(robot, (age + 1) / comes)
        drive.walk_at(command)
        state = drive.tick()
        if tick >= ends - judged:
            truth = robot.base_truth
            velocities.append(heading_velocity(truth))
            heights.append(float(truth.position[2]))
            if state is not None:
                torques.append(state.torque.copy())
            fell = fell or (tick % 25 == 0 and fallen(robot, truth))
    vx, vy, wz = np.mean(velocities, 0).tolist()
    strength, payload = _errors(drive, change)
    assert drive.safety is not None
    off = any(c.event.key == "adaptation_bound" for c in drive.safety.changes)
    height, tremor = float(np.mean(heights)), _tremor(np.array(torques), rate)
    return AdaptationWalk((vx, vy, wz), height, tremor, strength, payload, off, fell)


def _errors(drive: Drive, change: HiddenChange) -> tuple[float, float]:
    adaptation = drive.controller.adaptation
    if adaptation is None:
        return 0.0, 0.0
    found = adaptation.motors.strength / adaptation.nominal
    strength = np.abs(found / change.strengths(drive.spec) - 1.0).max()
    return float(strength), abs(adaptation.load.payload_kg - change.payload_kg)


def _tremor(torques: npt.NDArray[Any], rate_hz: float) -> float:
    spectrum = np.abs(np.fft.rfft(torques - torques.mean(0), axis=0)) ** 2
    fast = np.fft.rfftfreq(len(torques), 1 / rate_hz) > TREMOR_HZ
    return float(np.sqrt(spectrum[fast].sum()) / len(torques))


def tick_cost(bundle: Bundle, seconds: float = 20.0) -> dict[str, float]:
    """CPU time (us) that adaptation adds to a tick while it compensates a weak motor, a payload and
    friction: medians by tick of its cycle, with and without a policy step in it."""
    ordinary, stepped = {}, 0.0
    for adaptation in (OFF, ON):
        robot = hidden_robot(bundle.spec, 0)
        drive = Drive(bundle, robot, adaptation=adaptation)
        drive.stand_and_walk()
        for change in (CHANGES[0], CHANGES[2], CHANGES[3]):
            change.apply(robot, 1.0)
        ticks = round(seconds * bundle.spec.wire.rate_hz)
        ordinary[adaptation], stepped = _time_steps(drive, ticks)
    added = ordinary[ON] - ordinary[OFF].mean()
    slowest = max(float(added.max()), stepped)
    return {"mean": float(added.mean()), "with_a_step": stepped, "slowest": slowest}


class _Stopwatch:
    """Times adaptation's own methods. In ticks with a policy step, the difference between two runs
    would be the noise of the network."""

    def __init__(self, adaptation: Adaptation | None) -> None:
        self.us = 0.0
        for name in ("tell", "correct", "learn") if adaptation is not None else ():
            setattr(adaptation, name, self._timed(getattr(adaptation, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            start_ns = time.thread_time_ns()
            answer = method(*given)
            self.us += (time.thread_time_ns() - start_ns) / 1e3
            return answer

        return timed


def _time_steps(drive: Drive, ticks: int) -> tuple[npt.NDArray[np.float64], float]:
    """Median time (us) of each tick of adaptation's cycle between policy steps; and adaptation's
    own share of the slowest tick with a policy step."""
    controller, link = drive.controller, drive.link
    between: list[tuple[int, float]] = []
    stepped: list[tuple[int, float]] = [(0, 0.0)]
    watch = _Stopwatch(None)
    for tick in range(ticks):
        if tick == 2 * ticks // 3:
            watch = _Stopwatch(controller.adaptation)
        drive.walk_at(COMMANDS[0])
        state = link.wait(1 / drive.spec.wire.rate_hz)
        phase = 0 if controller.adaptation is None else controller.adaptation.phase
        watch.us, start_ns = 0.0, time.thread_time_ns()
        sent = controller.step(state, link.now_ns(), CLEAR)
        took_us = (time.thread_time_ns() - start_ns) / 1e3
        if tick > 2 * ticks // 3 and controller.walking.stepped:
            stepped.append((phase, watch.us))
        elif ticks // 3 < tick < 2 * ticks // 3 and not controller.walking.stepped:
            between.append((phase, took_us))
        if sent is not None:
            link.send(sent)
    return _medians(between), float(_medians(stepped).max())


def _medians(took: list[tuple[int, float]]) -> npt.NDArray[np.float64]:
    """By tick of the cycle."""
    phases, us = np.array(took).T
    return np.array([np.median(us[phases == phase]) for phase in np.unique(phases)])
