"""The whole loop on hidden robots: does the retrained policy walk better on the robot itself?

A hidden robot differs from the twin in several figures at once; the loop sees only a bag of its
walk. For comparison, with the same budget of fine-tuning: wide randomisation around the initial
twin and, on request, fine-tuning for a wrong robot.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.analysis.gap.closed_loop import How, tape_walk
from sim2real_deploy.analysis.gap.world_fit import World
from sim2real_deploy.analysis.loop.finetuning import GAINS, fine_tuning
from sim2real_deploy.analysis.loop.loop import TWIN, Settings, run_loop
from sim2real_deploy.analysis.loop.tracking import Tracking, track
from sim2real_deploy.analysis.loop.workshop import Workshop, digest_of
from sim2real_deploy.bags.import_log import EPOCH_NS, WALK_ATTACHMENT, walk_attachment
from sim2real_deploy.bags.wire_bag import WireBag
from sim2real_deploy.bench.loop import BenchPart, commands_of
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.gate.workers import policy_digest
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import load_training
from sim2real_deploy.training.nominal import nominal_of
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.files import TwinFile, load_imperfections, write_twin_file
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.per_joint import named

BETTER = 0.2  # share by which the velocity error must fall
LONGEST_S = 45 * 60.0
JUDGED = range(20_000, 20_008)  # seeds of the walks on the hidden robot that judge a policy
RECORDED = 5000  # first seed of the walks that the loop sees
CONFIG = "go2_walk"


def hidden_twin(bundle: Bundle, nominal: Imperfections, number: int) -> Imperfections:
    """A twin with weak and uneven motors, more friction, a payload and delayed commands."""
    rng = np.random.default_rng([77, number])
    world = World(
        strength=float(rng.uniform(0.7, 0.85)),
        delay_s=float(rng.choice((0.0, 0.002, 0.004, 0.006))),
        friction=float(rng.uniform(1.0, 2.5)),
        payload=float(rng.uniform(0.5, 3.0)),
    )
    made = world.imperfections(bundle.spec, nominal)
    uneven = rng.uniform(0.92, 1.08, bundle.spec.joint_count)
    strength = made.motors.strengths(bundle.spec) * uneven
    uneven_strength = named(bundle.spec, np.round(strength, 4))
    motors = made.motors.model_copy(update={"strength": uneven_strength, "weak": {}})
    return made.model_copy(update={"motors": motors})


def record(path: Path, bundle: Bundle, twin: Imperfections, seed: int) -> None:
    """A walk as a bag of the wire alone, with the commands it was given."""
    robot = World().twin(bundle.spec, twin, Floor())
    tape = tape_walk(bundle, robot, seed, commands_of(seed, bundle.spec.wire.rate_hz), How())
    attachments = {
        WALK_ATTACHMENT: walk_attachment(EPOCH_NS + tape.asked_ns, {"asked": tape.asked}),
        "policy.onnx": bundle.model,
        "policy.yaml": (bundle.folder / "policy.yaml").read_bytes(),
    }
    bag = WireBag(path, bundle.spec, {"policy": bundle.contract.name}, attachments)
    both = [(ns, 0, sample) for ns, sample in tape.states]
    both += [(ns, 1, sample) for ns, sample in tape.commands]
    for now_ns, kind, sample in sorted(both, key=lambda row: row[:2]):
        (bag.command if kind else bag.state)(EPOCH_NS + now_ns, sample)
    bag.close()


def robots_part(
    bundle: Bundle,
    nominal: Imperfections,
    robots: int,
    seeds: int,
    steps: int,
    wrong: bool,
    folder: Path,
    progress: Progress,
) -> BenchPart:
    checks: list[Check] = []
    rows: list[list[object]] = []
    raw: dict[str, Any] = {}
    total = robots * seeds
    for number in range(robots):
        for seed in range(1, seeds + 1):
            title = f"robot {number}, seed {seed}"
            share = (number * seeds + seed - 1) / total
            told = lambda words, t=title, s=share: progress(f"{t}: {words}", s)  # noqa: E731
            found = _one(bundle, nominal, number, seed, steps, wrong, folder, told)
            raw[title] = found
            before, after, wide = (found[name]["velocity"] for name in ("start", "loop", "wide"))
            lost = {n: found[n]["falls"] + found[n]["stops"] for n in ("start", "loop")}
            fewer = Check.at_most(f"{title}: velocity error by before", after / before, 1 - BETTER)
            checks += [
                fewer,
                Check.at_most(f"{title}: by wide randomisation", after / wide, 1.0),
                Check.at_most(f"{title}: falls and stops", lost["loop"], lost["start"]),
                Check.at_most(f"{title}: the loop", found["seconds"], LONGEST_S, "s"),
            ]
            for name, figures in found.items():
                if isinstance(figures, dict) and "velocity" in figures:
                    lost_here = f"{figures['falls']} falls, {figures['stops']} stops"
                    rows.append([f"{title}, {name}", figures["velocity"], figures["turning"],
                                 lost_here])  # fmt: skip
            rows.append([f"{title}, identified", "", "", _words(found["identified"])])
    return BenchPart(checks, rows, raw)


def _one(
    bundle: Bundle,
    nominal: Imperfections,
    number: int,
    seed: int,
    steps: int,
    wrong: bool,
    folder: Path,
    told: Any,
) -> dict[str, Any]:
    place = folder / f"robot_{number}"
    hidden = hidden_twin(bundle, nominal, number)
    bag = place / "walk"
    if not (bag / "metadata.yaml").is_file():
        told("walks")
        record(bag, bundle, hidden, RECORDED + number)
    settings = Settings(
        (bag,), str(bundle.folder), "looped", config=CONFIG, steps=steps, trials=1, seed=seed
    )
    loop = run_loop(settings, place / "loop", told)
    gains = loop["finetune"].folder / GAINS
    policies = {
        "start": bundle,
        "gains alone": load_bundle(gains, bundle.spec),
        "loop": load_bundle(loop.bundle, bundle.spec),
    }
    told("wide randomisation")
    policies["wide"] = _fine_tuned(folder, bundle, "default", "wide", steps, seed)
    if wrong:
        told("a wrong robot")
        path = folder / "wrong.yaml"
        if not path.is_file():
            write_twin_file(path, _wrong(bundle, nominal))
        policies["wrong"] = _fine_tuned(folder, bundle, str(path.resolve()), "wrong", steps, seed)
    shop = Workshop(place / "judged")
    found: dict[str, Any] = {}
    for name, policy in policies.items():
        told(f"judging {name}")
        inputs = {
            "robot": hidden.model_dump(mode="json"),
            "policy": policy_digest(policy),
            "seeds": [JUDGED.start, JUDGED.stop],
            "measures": [field.name for field in fields(Tracking)],
        }
        make = _judge(policy, hidden)
        found[name] = dict(shop.step("track", inputs, make).result)
    tuned = loop["finetune"].result
    identified = load_imperfections(str(loop["learn"].folder / TWIN), bundle.spec.name)
    return {
        **found,
        "seconds": loop.seconds,
        "finetune": dict(tuned),
        "chosen": loop["track"].result["chosen"],
        "gap_before": [run["gap"] for run in loop["gap_before"].result["runs"]],
        "gap_after": [run["gap"] for run in loop["gap_after"].result["runs"]],
        "gate": loop["gate"].result["succeeded"],
        "hidden": hidden.motors.model_dump(mode="json"),
        "identified": _compared(bundle.spec, identified, hidden),
    }


def _compared(spec: RobotSpec, found: Imperfections, hidden: Imperfections) -> dict[str, Any]:
    """What the loop identified beside the truth that it never saw."""
    own, true = nominal_of(found, spec), nominal_of(hidden, spec)
    return {
        "strength_off": float(np.abs(own.strength / true.strength - 1).max()),
        "delay_ms": [1e3 * own.delay, 1e3 * true.delay],
        "friction_Nm": [float(own.friction.mean()), float(true.friction.mean())],
        "payload_kg": [found.trunk.mass, hidden.trunk.mass],
    }


def _words(identified: Mapping[str, Any]) -> str:
    pairs = {name: identified[name] for name in ("delay_ms", "friction_Nm", "payload_kg")}
    words = [f"{name.replace('_', ' ')} {a:.2f} (true {b:.2f})" for name, (a, b) in pairs.items()]
    return ", ".join([f"strength within {identified['strength_off']:.1%}", *words])


def _judge(policy: Bundle, hidden: Imperfections) -> Any:
    robot = World().twin(policy.spec, hidden, Floor())

    def make(place: Path) -> Mapping[str, Any]:
        return asdict(track(policy, robot, JUDGED))

    return make


def _wrong(bundle: Bundle, nominal: Imperfections) -> TwinFile:
    """Stronger, faster and lighter: the opposite of the hidden robots."""
    twin = World(strength=1.15, delay_s=-0.004, friction=0.5, payload=-1.0).imperfections(
        bundle.spec, nominal
    )
    about = "Deliberately wrong, for comparison."
    return TwinFile(robot=bundle.spec.name, about=about, sources={"all": about}, twin=twin)


def _fine_tuned(place: Path, bundle: Bundle, twin: str, name: str, steps: int, seed: int) -> Bundle:
    """The same budget from the same policy, with the training config's ranges around `twin`. It
    knows of no hidden robot, so one serves all."""
    from sim2real_deploy.training.export import export
    from sim2real_deploy.training.trainer import Run, train

    base = load_training(CONFIG).model_copy(update={"twin": twin})
    config = fine_tuning(base, bundle, name, steps, load_training(CONFIG).twin)

    def make(folder: Path) -> Mapping[str, Any]:
        checkpoint = train(Run(config, folder / "run", seed))
        return {"steps": export(checkpoint, folder / "bundle").provenance["steps"]}

    inputs = {
        "config": config.model_dump(mode="json"),
        "seed": seed,
        "twin": digest_of(Path(twin)) if twin.endswith(".yaml") else twin,
    }
    done = Workshop(place / name).step("finetune", inputs, make, goes_on=True)
    return load_bundle(done.folder / "bundle", bundle.spec)
