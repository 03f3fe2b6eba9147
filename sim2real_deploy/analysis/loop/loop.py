"""From a policy and the bags of its walks to a policy for that robot, with a comparison."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sim2real_deploy.analysis.gap.gap import Gap, measure_gap
from sim2real_deploy.analysis.gap.walk import Walk, walk_of_bag
from sim2real_deploy.analysis.gap.world_fit import World
from sim2real_deploy.analysis.loop.finetuning import GAINS, TUNED, fine_tune, fine_tuning
from sim2real_deploy.analysis.loop.learning import learn
from sim2real_deploy.analysis.loop.tracking import Tracking, track
from sim2real_deploy.analysis.loop.workshop import Done, Workshop, digest_of
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.engines import FIRST, open_robot
from sim2real_deploy.gate.scenarios import load_scenarios, scenario_set
from sim2real_deploy.gate.workers import Results, policy_digest, run_here, run_on_ray
from sim2real_deploy.identify.pipeline import identify
from sim2real_deploy.identify.recording import Recording, from_bag
from sim2real_deploy.identify.verdicts import twin_file
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.contract import bundle_folder
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import load_training
from sim2real_deploy.training.evidence import as_yaml, ranges_from, with_ranges
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.files import (
    TwinFile,
    load_imperfections,
    load_twin_file,
    write_twin_file,
)
from sim2real_deploy.twin.floors import Floor

Told = Callable[[str], None]

STEPS = 8
TWIN, CONFIG = "twin.yaml", "training.yaml"
TRACK_SEEDS = range(9000, 9003)  # of the comparison of policies in the identified twin


@dataclass(frozen=True, slots=True)
class Settings:
    bags: tuple[Path, ...]
    policy: str  # that walked; "": the one in the first bag
    name: str  # of the policy that is made
    start: str = "default"  # the twin that identification starts from
    config: str = "go2_walk"  # in config/training: how the policy was trained
    steps: int = 1_500_000  # of fine-tuning
    minutes: float | None = None  # of fine-tuning, at most
    scenarios: str = "walk"  # a set of the gate's
    trials: int = 2
    seed: int = 1
    ray: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """What the steps found, in their order; each is kept in a folder of its own."""

    settings: Settings
    steps: tuple[Done, ...]

    def __getitem__(self, name: str) -> Done:
        return next(step for step in self.steps if step.name == name)

    @property
    def seconds(self) -> float:
        """Of all steps, also those of earlier sessions; fine-tuning counts its own."""
        tuned = float(self["finetune"].result["seconds"])
        others = sum(step.seconds for step in self.steps if step.name != "finetune")
        return tuned + others

    @property
    def bundle(self) -> Path:
        return self["finetune"].folder / str(self["track"].result["chosen"])

    def raw(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "bundle": str(self.bundle),
            "steps": {
                step.name: {"cached": step.cached, "digest": step.digest, **step.result}
                for step in self.steps
            },
        }


def run_loop(settings: Settings, folder: Path, told: Told) -> Loop:
    """Every step or its stored result; interrupt it at any time and call it again."""
    recorded = [Recorded(Bag(path)) for path in settings.bags]
    spec = recorded[0].robot
    walks = _walks(recorded)
    policy = load_bundle(_policy_folder(settings, recorded[0].bag, folder), spec)
    start = load_imperfections(settings.start, spec.name)
    digests = {path.name: digest_of(path) for path in settings.bags}
    base = {
        "bags": digests,
        "start": start.model_dump(mode="json"),
        "policy": policy_digest(policy),
    }
    shop = Workshop(folder)
    steps: list[Done] = []

    def step(
        name: str,
        inputs: Mapping[str, Any],
        make: Callable[[Path], Mapping[str, Any]],
        goes_on: bool = False,
    ) -> Done:
        told(f"{len(steps) + 1} of {STEPS}: {name}")
        done = shop.step(name, inputs, make, goes_on)
        steps.append(done)
        if done.cached:
            told("  was done before")
        return done

    found = step(
        "identify",
        {"bags": digests, "start": base["start"]},
        lambda place: _identify(place, spec, [from_bag(r) for r in recorded], start, told),
    )
    before = step("gap_before", base, lambda place: _gaps(place, walks, policy, start))
    learnt = step(
        "learn",
        {"from": [found.digest, before.digest]},
        lambda place: _learn(place, spec, [from_bag(r) for r in recorded], found, before, told),
    )
    twin = load_imperfections(str(learnt.folder / TWIN), spec.name)
    randomised = step(
        "randomise",
        {
            "from": [learnt.digest, found.digest, before.digest],
            "config": load_training(settings.config).model_dump(mode="json"),
        },
        lambda place: _randomise(place, settings, learnt, found, before, spec),
    )
    tuning = load_training(randomised.folder / CONFIG)
    known = load_training(settings.config).twin
    tuning = fine_tuning(tuning, policy, settings.name, settings.steps, known)
    made_from = {
        "loop": {
            "bags": digests,
            "from_policy": policy.contract.name,
            "from_sha256": policy.contract.sha256,
            "identified_from": settings.start,
        }
    }
    finetuned = step(
        "finetune",
        {
            "from": [randomised.digest, base["policy"]],
            "config": tuning.model_dump(mode="json"),
            "minutes": settings.minutes,
            "seed": settings.seed,
        },
        lambda place: fine_tune(
            place, tuning, settings.seed, settings.minutes, policy, made_from, told
        ),
        goes_on=True,
    )
    candidates = {name: load_bundle(finetuned.folder / name, spec) for name in (GAINS, TUNED)}
    identified = {**base, "start": twin.model_dump(mode="json")}
    compared = {
        "twin": identified["start"],
        "policies": [base["policy"], *map(policy_digest, candidates.values())],
        "seeds": [TRACK_SEEDS.start, TRACK_SEEDS.stop],
        "measures": [field.name for field in fields(Tracking)],
    }
    tracked = step("track", compared, lambda place: _tracked(spec, twin, policy, candidates))
    made = candidates[tracked.result["chosen"]]
    gate = {"policy": policy_digest(made), "set": settings.scenarios, "trials": settings.trials}
    step("gate", gate, lambda place: _gate(place, made, settings), goes_on=True)
    step("gap_after", identified, lambda place: _gaps(place, walks, policy, twin))
    return Loop(settings, tuple(steps))


def _policy_folder(settings: Settings, bag: Bag, folder: Path) -> Path:
    """Of the policy that walked: the one that is named, else the one in the first bag."""
    if settings.policy:
        return bundle_folder(settings.policy)
    content = {name: bag.attachments.get(name) for name in ("policy.onnx", "policy.yaml")}
    if None in content.values():
        raise Refusal(f"{bag.path}: holds no policy; name the one that walked: --policy BUNDLE")
    digest = hashlib.sha256(b"".join(data or b"" for data in content.values())).hexdigest()
    place = folder / f"policy-{digest[:12]}"
    place.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (place / name).write_bytes(data or b"")
    return place


def _walks(recorded: Sequence[Recorded]) -> list[Walk]:
    """Of the bags that hold one; bags of a hung robot are for identification alone."""
    walks, refused = [], []
    for one in recorded:
        try:
            walks.append(walk_of_bag(one))
        except Refusal as refusal:
            refused.append(str(refusal))
    if not walks:
        raise Refusal("none of the bags holds a walk to compare with: " + "; ".join(refused))
    return walks


def _progress(told: Told) -> Callable[[str, float], None]:
    """Tells each thing once."""
    last = [""]

    def progress(what: str, _done: float) -> None:
        if what != last[0]:
            last[0] = what
            told(f"  {what}")

    return progress


def _identify(
    place: Path, spec: RobotSpec, recordings: Sequence[Recording], start: Imperfections, told: Told
) -> dict[str, Any]:
    progress = _progress(told)
    names = ", ".join(recording.name for recording in recordings)
    file = twin_file(
        identify(spec, recordings, start, progress), start, f"Identified from {names}."
    )
    write_twin_file(place / TWIN, file)
    single = []
    if len(recordings) > 1:
        for number, recording in enumerate(recordings):
            path = place / f"bag_{number}.yaml"
            found = identify(spec, [recording], start, progress)
            write_twin_file(path, twin_file(found, start, f"Identified from {recording.name}."))
            single.append(path.name)
    return {"single": single}


def _gaps(
    place: Path, walks: Sequence[Walk], policy: Bundle, twin: Imperfections
) -> dict[str, Any]:
    gaps = [measure_gap(walk, policy, twin) for walk in walks]
    (place / "gap.json").write_text(json.dumps({"runs": [g.raw() for g in gaps]}, indent=1))
    worlds = [asdict(g.findings.world) for g in gaps if g.findings is not None]
    return {"runs": [_short(gap) for gap in gaps], "worlds": worlds}


def _short(gap: Gap) -> dict[str, Any]:
    raw = gap.raw()
    kept = ("bag", "gap", "gap_by_chance", "auc", "auc_by_chance", "verdict", "causes", "speeds")
    return {name: raw[name] for name in kept}


def _learn(
    place: Path,
    spec: RobotSpec,
    recordings: Sequence[Recording],
    found: Done,
    before: Done,
    told: Told,
) -> dict[str, Any]:
    file = load_twin_file(str(found.folder / TWIN), spec.name)
    file, words = _completed(file, before.result, spec)
    return {"added_by_gap": words, **learn(place, TWIN, file, spec, recordings, _progress(told))}


def _randomise(
    place: Path, settings: Settings, learnt: Done, found: Done, before: Done, spec: RobotSpec
) -> dict[str, Any]:
    twin = learnt.folder / TWIN
    file = load_twin_file(str(twin), spec.name)
    single = [
        load_twin_file(str(found.folder / name), spec.name) for name in found.result["single"]
    ]
    config = load_training(settings.config)
    lines = ranges_from(config, file, single, before.result["runs"])
    config = with_ranges(config, str(twin.resolve()), lines)
    about = f"{settings.config} randomised around the twin of {len(settings.bags)} bags."
    (place / CONFIG).write_text(as_yaml(config, lines, about), encoding="utf-8")
    return {
        "ranges": [
            {"name": x.name, "was": x.before, "now": x.range, "why": x.reason} for x in lines
        ],
    }


def _completed(
    file: TwinFile, before: Mapping[str, Any], spec: RobotSpec
) -> tuple[TwinFile, list[str]]:
    """Joint friction from the gap's short replays, where identification could not see it."""
    assert file.identified is not None
    findings = file.identified.findings.get("motors.friction", {})
    excited = findings and all(f.verdict == "identified" for f in findings.values())
    if excited or not before["worlds"]:
        return file, []
    times = sum(world["friction"] for world in before["worlds"]) / len(before["worlds"])
    twin = World(friction=times).imperfections(spec, file.twin)
    words = f"joint friction {times:.1f} times the start's, from short replays of the walks"
    sources = {**file.sources, "motors.friction": words}
    return file.model_copy(update={"twin": twin, "sources": sources}), [words]


def _gate(place: Path, bundle: Bundle, settings: Settings) -> dict[str, Any]:
    names = scenario_set(settings.scenarios)
    tasks = [(FIRST, s, t) for s in load_scenarios(names) for t in range(settings.trials)]
    results = Results(place / "episodes.jsonl", bundle)
    todo = results.missing(tasks)
    running = run_on_ray(bundle, todo, settings.ray) if settings.ray else run_here(bundle, todo, 1)
    for task, episode in running:
        results.add(task, episode)
    succeeded = dict.fromkeys(names, 0)
    for (_, scenario, _), episode in zip(tasks, results.of(tasks), strict=True):
        succeeded[scenario.name] += episode.success
    return {"trials": settings.trials, "succeeded": succeeded}


def _tracked(
    spec: RobotSpec, twin: Imperfections, before: Bundle, candidates: Mapping[str, Bundle]
) -> dict[str, Any]:
    """Who walks how well on the identified twin, and which candidate does best there."""
    robot = open_robot(FIRST, spec, Floor(), twin)
    found = {
        name: track(bundle, robot, TRACK_SEEDS)
        for name, bundle in {"before": before, **candidates}.items()
    }
    chosen = min(candidates, key=lambda name: found[name].rank)
    tracked = {name: asdict(one) for name, one in found.items()}
    return {**tracked, "after": tracked[chosen], "chosen": chosen}
