"""What learning adds to identification: on robots with terms that identification lacks, in another
engine, on recordings of real robots; and what a network costs.

The parts are independent; `--only` picks some of them. Real recordings are read from a folder with
`go2_chirp` and `go2_walk` in it; without it those parts are left out, and the result says so.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bench import learn_cost, real_logs
from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.bench.hidden import LoadFriction
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress, silent
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.engines import SECOND, engine_physics
from sim2real_deploy.identify.check import below
from sim2real_deploy.identify.figures import JointFigures, figures_of
from sim2real_deploy.identify.learn import summary
from sim2real_deploy.identify.learn.action import WINDOW, windows
from sim2real_deploy.identify.learn.actuator import ActuatorResult, learn_actuator, part_errors
from sim2real_deploy.identify.learn.delta import judge, learn_action, steady
from sim2real_deploy.identify.learn.samples import GainSets, make_samples
from sim2real_deploy.identify.learn.simulator import Simulator, motion_of
from sim2real_deploy.identify.lockstep import excite, walk
from sim2real_deploy.identify.pipeline import Identified, identify
from sim2real_deploy.identify.recording import Recording, from_bag
from sim2real_deploy.identify.verdicts import twin_file
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.mount import Mount
from sim2real_deploy.twin.per_joint import named
from sim2real_deploy.twin.physics import MujocoPhysics
from sim2real_deploy.twin.robot import TwinRobot

PARTS = ("hidden", "nothing", "drake", "chirp", "walk", "cost")
GAINS = ((25.0, 0.5), (40.0, 1.0))  # the same movements at both
MINUTES = 1.5  # of excitation
WALK_S = 24.0
HALVED, DEGRADED, NOISE = 0.5, 1.2, 1.1
REAL_SHARE = 0.12  # of the torque
WALK_FALLS = 0.7  # of the identified twin's error
SLOW_HZ = 20.0

Result = tuple[list[Check], dict[str, Any]]


def run(
    robots: int, only: Sequence[str], real: Path | None, seed: int, progress: Progress
) -> BenchResult:
    unknown = [name for name in only if name not in PARTS]
    if unknown:
        raise Refusal(f"--only {', '.join(unknown)}: there are {', '.join(PARTS)}")
    spec = load_robot("go2")
    measures: dict[str, Callable[[], Result | None]] = {
        "hidden": lambda: hidden(spec, robots, seed),
        "nothing": lambda: nothing(spec, seed),
        "drake": lambda: drake(spec, seed),
        "chirp": lambda: chirp(spec, real),
        "walk": lambda: walking(spec, real),
        "cost": lambda: learn_cost.measure(spec),
    }
    checks: list[Check] = []
    raw: dict[str, Any] = {}
    chosen = [name for name in PARTS if not only or name in only]
    for number, name in enumerate(chosen):
        progress(name, number / len(chosen))
        result = measures[name]()
        if result is None:
            raw[name] = "left out: no recordings of real robots"
            continue
        checks += result[0]
        raw[name] = result[1]
    return BenchResult("what learning adds to identification", checks, raw)


def draw(robot: RobotSpec, seed: int, stribeck: bool) -> tuple[Imperfections, Mount]:
    """A robot near the shipped twin; with `stribeck`, joints also stick at rest."""
    rng = np.random.default_rng(seed)
    start = load_imperfections("default", robot.name)
    nominal, joints = figures_of(start, robot), robot.joint_count

    changes: dict[str, Any] = {
        "strength": named(robot, nominal.strength * rng.uniform(0.9, 1.1, joints)),
        "delay": round(rng.uniform(2, 8)) * 1e-3,
        "armature": named(robot, nominal.armature * rng.uniform(0.7, 1.5, joints)),
        "damping": named(robot, nominal.damping + rng.uniform(0, 0.2, joints)),
        "friction": named(robot, nominal.friction * rng.uniform(0.7, 1.4, joints)),
    }
    if stribeck:
        changes["stribeck"] = named(robot, rng.uniform(0.2, 0.6, joints))
    roll, pitch = rng.uniform(-0.1, 0.1, 2).tolist()
    twin = start.model_copy(update={"motors": start.motors.model_copy(update=changes)})
    return twin, Mount(kind="fixed", roll=roll, pitch=pitch)


def hidden(robot: RobotSpec, robots: int, seed: int) -> Result:
    """Stribeck and load-dependent friction, which identification does not know."""
    ratios, worse, raw = [], [], []
    for number in range(robots):
        twin, mount = draw(robot, seed + number, stribeck=True)
        recordings = [_excited(robot, twin, mount, LoadFriction, gains) for gains in GAINS]
        figures = _identified(robot, *recordings)[0].figures
        found = learn_actuator(robot, recordings, figures, "torque", silent)
        pooled = summary.pooled(found.carried)
        ratios.append(pooled.learned / pooled.identified)
        degraded = [unseen / seen for _, unseen, seen in found.unseen_gains.values()]
        worse.append(max(degraded))
        raw.append({"held_out": _errors(found), "unseen_gains": found.unseen_gains})
    checks = [
        Check.at_most("hidden friction: torque error by identified, worst", max(ratios), HALVED),
        Check.at_most("hidden friction: at unseen gains, times worse", max(worse), DEGRADED),
    ]
    return checks, {"robots": raw, "ratios": ratios, "degraded": worse}


def nothing(robot: RobotSpec, seed: int) -> Result:
    """No term hidden: with the true figures, what is left is the noise."""
    twin, mount = draw(robot, seed + 1000, stribeck=False)
    recording = _excited(robot, twin, mount, MujocoPhysics, GAINS[0])
    figures = _identified(robot, recording)[0].figures
    found = learn_actuator(robot, [recording], figures, "torque", silent, leave_out=False)
    true_figures = figures_of(twin, robot)
    truth = learn_actuator(robot, [recording], true_figures, "torque", silent, leave_out=False)
    noise = summary.pooled(truth.carried).identified
    learned = summary.pooled(found.carried).learned
    worst = max(
        new.learned / new.identified for new in (*found.reported, *found.carried) if new.identified
    )
    checks = [
        Check.at_most("nothing hidden: torque error by noise", learned / noise, NOISE),
        Check.at_most("nothing hidden: worst joint, by identified", worst, 1.0 + 1e-3),
    ]
    return checks, {"noise": noise, "held_out": _errors(found), "worst_joint": worst}


def drake(robot: RobotSpec, seed: int) -> Result:
    """Another engine as the robot: two walks to learn from, a third to judge."""
    physics = engine_physics(SECOND)
    imperfections = load_imperfections("default", robot.name)
    bundle = load_bundle("go2_walk", robot)
    recordings = []
    for number in range(3):
        body = TwinRobot(robot, imperfections=imperfections, seed=seed + number, physics=physics)
        with tempfile.TemporaryDirectory() as folder:
            bag = Path(folder) / f"walk_{number}"
            walk(body, bag, bundle, WALK_S)
            recordings.append(from_bag(Recorded.open(bag)))
    told, start = _identified(robot, *recordings[:2])
    twin = twin_file(told, start, "").twin
    found = learn_action(robot, recordings[:2], twin, silent)
    errors = _held_out(robot, recordings[2:], twin, found.network, 0.5)
    ratio = errors["learned"] / errors["identified"]
    checks = [Check.at_most("Drake: 0.5 s replay error by identified", ratio, HALVED)]
    return checks, errors | {"blocks": found.rows()}


def chirp(robot: RobotSpec, real: Path | None) -> Result | None:
    """Chirps of a real Go2: learnt at some gains, judged on all other files in the folder."""
    files = real_logs.chirps(real)
    if not files:
        return None
    seen = [real_logs.chirp(files[name], robot) for name in real_logs.SEEN]
    figures = _identified(robot, *seen)[0].figures
    others = [real_logs.chirp(p, robot) for n, p in files.items() if n not in real_logs.SEEN]
    raw: dict[str, Any] = {}
    for form in ("torque", "history"):
        found = learn_actuator(robot, seen, figures, form, silent, leave_out=False)
        raw[form] = {"held_out_blocks": _errors(found)} | _on_unseen(found, others, figures)
    share = raw["torque"]["all"]
    checks = [
        Check.at_most("real chirps, unseen gains: error by torque", share["learned"], REAL_SHARE),
        Check.at_most("the same below 20 Hz", share["learned_below_20_hz"], REAL_SHARE),
    ]
    return checks, raw


def _on_unseen(
    found: ActuatorResult, others: Sequence[Recording], figures: JointFigures
) -> dict[str, Any]:
    """Shares of the torque, file by file and for all together."""
    total, result = np.zeros(6), {}
    for part in make_samples(others, figures, GainSets()):
        rows = np.arange(60, len(part.torque) - 10)
        squares = np.zeros(6)
        for joint in range(found.robot.joint_count):
            errors = part_errors(found.weights, part, rows, joint, False)
            assert errors is not None
            fresh = part.usable[rows]
            squares[:4] += (errors[:, fresh] ** 2).sum(1)
            slow = below(errors[2:].T, part.period, SLOW_HZ).T
            squares[4:] += (slow[:, fresh] ** 2).sum(1)
        total += squares
        result[part.name] = _shares(squares)
    return {"all": _shares(total), "files": result}


def _shares(squares: Any) -> dict[str, float]:
    share = np.sqrt(squares[1:] / squares[0])
    names = ("ideal", "identified", "learned", "identified_below_20_hz", "learned_below_20_hz")
    return dict(zip(names, share.tolist(), strict=True))


def walking(robot: RobotSpec, real: Path | None) -> Result | None:
    """A real Go2 walks, without torque: learnt on the first trial of each command, judged on the
    others. The identified twin is the one that ships: of another Go2, identified from chirps."""
    files = real_logs.walks(real)
    if not files:
        return None
    first = [p for n, p in files.items() if n.endswith("trial_1")]
    rest = [p for n, p in files.items() if not n.endswith("trial_1")]
    twin = load_imperfections("default", robot.name)
    found = learn_action(robot, [real_logs.walk(p, robot) for p in first], twin, silent)
    errors = _held_out(robot, [real_logs.walk(p, robot) for p in rest], twin, found.network, 0.2)
    ratio = errors["learned"] / errors["identified"]
    checks = [Check.at_most("real walking: 0.2 s error by identified", ratio, WALK_FALLS)]
    return checks, errors | {"blocks": found.rows(), "trials": len(rest)}


def _held_out(
    robot: RobotSpec,
    recordings: Sequence[Recording],
    twin: Imperfections,
    network: Any,
    seconds: float,
) -> dict[str, Any]:
    """rad rms over joints and windows of whole recordings that nothing was learnt from."""
    kp, kd = np.median(recordings[0]["kp"], axis=0), np.median(recordings[0]["kd"], axis=0)
    simulator = Simulator(robot, twin, kp, kd)
    try:
        motions = [motion_of(steady(r, kp, kd), simulator) for r in recordings]
        held = [(m, windows(m, robot.wire.rate_hz, WINDOW)) for m in motions]
        plain = [judge(simulator, [one], None, (seconds,))[0] for one in held]
        learned = [judge(simulator, [one], network, (seconds,))[0] for one in held]
    finally:
        simulator.close()
    ratios = [
        float(np.linalg.norm(b) / np.linalg.norm(a)) for a, b in zip(plain, learned, strict=True)
    ]
    return {
        "identified": float(np.sqrt(np.mean(np.square(plain)))),
        "learned": float(np.sqrt(np.mean(np.square(learned)))),
        "by_recording": dict(zip((r.name for r in recordings), ratios, strict=True)),
    }


def _excited(
    robot: RobotSpec,
    twin: Imperfections,
    mount: Mount,
    physics: type[MujocoPhysics],
    gains: tuple[float, float],
) -> Recording:
    body = TwinRobot(robot, imperfections=twin, mount=mount, physics=physics)
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "excited"
        excite(body, bag, MINUTES, gains, silent)
        return from_bag(Recorded.open(bag))


def _identified(robot: RobotSpec, *recordings: Recording) -> tuple[Identified, Imperfections]:
    """What is found, and the twin that it starts from."""
    start = load_imperfections("default", robot.name)
    return identify(robot, recordings, start, silent), start


def _errors(found: ActuatorResult) -> dict[str, Any]:
    return summary.card(found, "", ())["held_out_rms_nm"]  # type: ignore[return-value]
