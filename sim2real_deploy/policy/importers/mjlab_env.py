"""mjlab: params/env.yaml, which every training run writes, beside a network that describes itself.

The network's metadata has joints, gains, pose and the names of the observations; env.yaml adds the
rate, the command ranges, and scale, clip, history and clock of each observation.
"""

from pathlib import Path
from typing import Any

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import onnx_metadata
from sim2real_deploy.policy.importers.draft import Answers, Draft, Foreign, Range, velocity_ranges
from sim2real_deploy.policy.importers.onnx_metadata import Run, RunTerm
from sim2real_deploy.policy.importers.places import find_network

NAME = "mjlab env.yaml"
GROUPS = ("actor", "policy")  # the older name is the second


class _Mujoco(Foreign):
    timestep: float = Field(gt=0)


class _Sim(Foreign):
    mujoco: _Mujoco


class _Term(Foreign):
    params: dict[str, Any] | None = None
    clip: Range | None = None
    scale: Any = None
    history_length: int | None = None


class _Group(Foreign):
    terms: dict[str, _Term]
    history_length: int | None = None


class _Action(Foreign):
    actuator_names: tuple[str, ...] = (".*",)


class _Env(Foreign):
    decimation: int = Field(gt=0)
    sim: _Sim
    actions: dict[str, Any]
    observations: dict[str, Any]
    commands: dict[str, Any] | None = None


def recognises(file: Path, content: Any) -> bool:
    scene = content.get("scene") if isinstance(content, dict) else None
    wanted = {"decimation", "sim", "actions", "observations"}
    return isinstance(scene, dict) and "entities" in scene and wanted <= content.keys()


def read(file: Path, content: Any, answers: Answers) -> Draft:
    env = configfile.parse(content, _Env, str(file))
    found = find_network(file, answers.network)
    if found.suffix != ".onnx" or not onnx_metadata.recognises(found):
        raise Refusal(
            f"{file}: {found.name} does not describe itself, and mjlab's env.yaml alone does not "
            "say everything: import the ONNX file that mjlab exported (--network FILE)"
        )
    name = next((group for group in GROUPS if group in env.observations), None)
    if name is None:
        raise Refusal(f"{file}: observations: no group is called {' or '.join(GROUPS)}")
    group = configfile.parse(env.observations[name], _Group, f"{file}: observations.{name}")
    run = Run(
        rate_hz=1 / (env.sim.mujoco.timestep * env.decimation),
        ranges=velocity_ranges(env.commands, f"{file}: commands"),
        moved=_moved(env, file),
        terms={
            key: RunTerm(
                scale=term.scale,
                clip=term.clip,
                history=group.history_length or term.history_length or 1,
                period=(term.params or {}).get("period"),
            )
            for key, term in group.terms.items()
        },
    )
    draft = onnx_metadata.read(found, answers, run)
    draft.notes["env"] = file.name
    return draft


def _moved(env: _Env, file: Path) -> tuple[str, ...]:
    """Patterns for the names of the joints that the one action moves."""
    actions = {name: value for name, value in env.actions.items() if value is not None}
    if len(actions) != 1:
        raise Refusal(f"{file}: actions: {', '.join(actions)}: only one can be run, of positions")
    ((name, action),) = actions.items()
    told = configfile.parse(action, _Action, f"{file}: actions.{name}")
    return told.actuator_names
