"""Scenarios of the gate as data: config/scenarios/*.yaml, one file each, named as the file."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.control.stages import load_stage, stages_up_to
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.faults import Fault
from sim2real_deploy.twin.files import DEFAULT, IDEAL, known_twin, load_imperfections
from sim2real_deploy.twin.floors import Floor

SETTLE_S = 1.5  # after a change of command, before tracking is judged
WORDS = {"why", "if_failed", "needed_from"}  # do not influence results


class Command(Strict):
    """A velocity held for a while: vx, vy in m/s, wz in rad/s."""

    velocity: tuple[float, float, float]
    seconds: float = Field(default=8.0, gt=SETTLE_S + 1, le=600)


class Pushes(Strict):
    """A repeated force on the trunk, from a random side each time."""

    force: float = Field(gt=0, le=2000)  # N
    direction: Literal["lateral", "any"] = "lateral"
    duration: float = Field(default=0.3, gt=0, le=5)  # s
    every: float = Field(default=2.0, gt=0)  # s


class Start(Strict):
    """Displacement at the start, drawn uniformly up to these bounds."""

    # Displaced before it stands up, or at the hand-over to the policy.
    pose: Literal["lying", "standing"]
    joints: float = Field(default=0.0, ge=0, le=1)  # rad
    tilt: float = Field(default=0.0, ge=0, le=0.6)  # rad, in a random direction
    speed: float = Field(default=0.0, ge=0, le=2)  # m/s, in a random direction
    drop: float = Field(default=0.0, ge=0, le=0.5)  # m, dropped from this height


class TimedFault(Fault):
    at: float = Field(ge=0)  # s after the hand-over to the policy


class Success(Strict):
    """Bounds on a run, besides not falling and not being stopped by safety."""

    linear_error: float = Field(default=0.2, gt=0)  # m/s, of vx and of vy
    turning_error: float = Field(default=0.25, gt=0)  # rad/s
    distance: float = Field(default=0.0, ge=0)  # m from the start


@dataclass(frozen=True, slots=True)
class Conditions:
    """The world of one episode, and its seed."""

    floor: Floor
    imperfections: Imperfections
    payload: float
    seed: int


class Scenario(Strict):
    name: str = Field(pattern=r"^[a-z0-9_]+$")
    why: str  # one line for people
    if_failed: str  # advice for a policy that fails here
    needed_from: str | None = None  # lowest stage that requires it on a real robot; None: none does
    commands: tuple[Command, ...] = Field(min_length=1)
    floor: Floor = Floor()
    payload: float = Field(default=0.0, ge=0, le=50)  # kg on the trunk
    pushes: Pushes | None = None
    start: Start | None = None
    faults: tuple[TimedFault, ...] = ()
    weak_motor: float = Field(default=1.0, gt=0, le=1)  # of one joint, in each trial another
    preset: str = "default"  # the twin it runs on,
    imperfections: dict[str, Any] = Field(default_factory=dict)  # and changes to it
    spread: float = Field(default=0.1, ge=0, le=0.5)  # +- friction, strength, drag between trials
    stage: str = "field"
    success: Success = Success()

    @property
    def seconds(self) -> float:
        return sum(command.seconds for command in self.commands)

    def seed(self, trial: int) -> int:
        """Seed of all randomness in one episode."""
        return int.from_bytes(hashlib.sha256(f"{self.name} {trial}".encode()).digest()[:7], "big")

    def conditions(self, robot: RobotSpec, trial: int) -> "Conditions":
        """The world of this trial: floor and robot differ from trial to trial."""
        rng = np.random.default_rng(self.seed(trial))
        friction, strength, drag = rng.uniform(1 - self.spread, 1 + self.spread, 3).tolist()
        seed = self.floor.seed + trial
        floor = {"seed": seed, "friction": self.floor.friction * friction}
        twin = self._twin(robot.name)
        motors = twin.motors.scaled(strength, drag)
        if self.weak_motor < 1.0:
            weak = {robot.joint_names[trial % robot.joint_count]: self.weak_motor}
            motors = motors.model_copy(update={"weak": weak})
        return Conditions(
            floor=self.floor.model_copy(update=floor),
            imperfections=twin.model_copy(update={"motors": motors}),
            payload=self.payload,
            seed=int(rng.integers(2**31)),
        )

    def digest(self, robot: str) -> str:
        """A hash of all that a result depends on besides policy, engine and code: this scenario,
        the robot, its twin, the stage's limits and the safety events in force."""
        content = json.dumps(self.model_dump(mode="json", exclude=WORDS), sort_keys=True)
        content += _in_other_files(self.preset, self.stage, robot)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def _twin(self, robot: str) -> Imperfections:
        merged = _merged(load_imperfections(self.preset, robot).model_dump(), self.imperfections)
        return configfile.parse(merged, Imperfections, f"{self.name}: imperfections")


@lru_cache
def _in_other_files(preset: str, stage: str, robot: str) -> str:
    """Cached: every episode asks for it."""
    spec = load_robot(robot)
    models = (spec, load_imperfections(preset, robot), load_stage(stage))
    return "".join(model.model_dump_json() for model in models) + repr(load_events(spec, stage))


def load_scenarios(names: Sequence[str] = (), folder: Path | None = None) -> list[Scenario]:
    """The named scenarios of a folder, or all of them."""
    folder = folder or paths.config_file("scenarios")
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    unknown = [name for name in names if name not in files]
    if unknown or not files:
        known = ", ".join(files) or "none"
        raise Refusal(f"{folder}: no scenario {', '.join(unknown)}; there are: {known}")
    return [_load(files[name]) for name in (names or files)]


class ScenarioSets(Strict):
    """config/scenario_sets.yaml: names of scenarios by the name of their set."""

    sets: dict[str, tuple[str, ...]]


def scenario_set(name: str) -> list[str]:
    """The names in a set."""
    path = paths.config_file("scenario_sets.yaml")
    sets = configfile.load(path, ScenarioSets).sets
    if name not in sets:
        raise Refusal(f"{path}: no set '{name}'; there are: {', '.join(sets)}")
    return list(sets[name])


def needed_for(stage: str, scenarios: Sequence[Scenario]) -> list[Scenario]:
    """What a stage requires: its own scenarios and those of all stages below."""
    below = stages_up_to(stage)
    return [scenario for scenario in scenarios if scenario.needed_from in below]


def _load(path: Path) -> Scenario:
    scenario = configfile.load(path, Scenario)
    if scenario.name != path.stem:
        raise Refusal(f"{path}: name: is '{scenario.name}'; it must be that of the file")
    configfile.parse(dict(scenario.imperfections), Imperfections, f"{path}: imperfections")
    if scenario.preset not in (IDEAL, DEFAULT):
        known_twin(scenario.preset)
    for stage in filter(None, (scenario.stage, scenario.needed_from)):
        load_stage(stage)
    return scenario


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = _merged(below, value)
        merged[key] = value
    return merged
