"""Isaac Lab: IO_descriptors.yaml, which its training scripts write on request.

It has zeros for the gains of explicit actuators: these are asked for. It has no command ranges: the
usual ones are assumed.
"""

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.draft import (
    Answers,
    Draft,
    Foreign,
    Numbers,
    Range,
    action_clip,
    spread,
)
from sim2real_deploy.policy.importers.places import find_network
from sim2real_deploy.policy.importers.vocabulary import translate

NAME = "Isaac Lab IO descriptors"
TERMS = {"joint_pos": "joint_pos"}


class _Overloads(Foreign):
    clip: Range | None = None
    scale: Numbers | None = None
    history_length: int | None = 0
    flatten_history_dim: bool = True


class _Term(Foreign):
    name: str
    overloads: _Overloads = _Overloads()
    extras: dict[str, Any] = Field(default_factory=dict)
    joint_names: tuple[str, ...] | None = None


class _Action(Foreign):
    name: str
    full_path: str
    joint_names: tuple[str, ...] = ()
    scale: Numbers = 1.0
    offset: Numbers = 0.0
    clip: tuple[Range, ...] | None = None

    @field_validator("scale", "offset", mode="before")
    @classmethod
    def _of_one_environment(cls, values: Any) -> Any:
        """Values by joint are written once for each environment of the run."""
        rows = isinstance(values, list) and values and all(isinstance(row, list) for row in values)
        return values[0] if rows and all(row == values[0] for row in values) else values


class _Articulation(Foreign):
    joint_names: tuple[str, ...]
    default_joint_pos: tuple[float, ...]
    default_joint_stiffness: tuple[float, ...]
    default_joint_damping: tuple[float, ...]


class _Scene(Foreign):
    dt: float = Field(gt=0)


class _Descriptors(Foreign):
    actions: tuple[_Action, ...] = Field(min_length=1, max_length=1)
    articulations: dict[str, _Articulation]
    observations: dict[str, tuple[_Term, ...]]
    scene: _Scene


def recognises(file: Path, content: Any) -> bool:
    wanted = {"articulations", "actions", "observations", "scene"}
    return isinstance(content, dict) and wanted <= content.keys()


def read(file: Path, content: Any, answers: Answers) -> Draft:
    told = configfile.parse(content, _Descriptors, str(file))
    (action,) = told.actions
    if not action.full_path.endswith(".JointPositionAction"):
        raise Refusal(f"{file}: actions.0: only a JointPositionAction can be run")
    body = told.articulations.get("robot")
    terms = told.observations.get("policy")
    if body is None or not terms:
        raise Refusal(f"{file}: articulations.robot and observations.policy must be there")
    acts = action.joint_names
    if sorted(acts) != sorted(body.joint_names):
        raise Refusal(f"{file}: actions.0.joint_names: not all joints of the robot: {list(acts)}")
    # The order of its observations, which may differ from that of its actions.
    joints = next((term.joint_names for term in terms if term.joint_names), acts)
    if sorted(joints) != sorted(acts):
        joints = acts
    rows = [_row(term, joints, f"{file}: observations.policy.{i}") for i, term in enumerate(terms)]
    network = find_network(file, answers.network)
    assumed: list[str] = []
    wanted = {}
    if not any(body.default_joint_stiffness):
        wanted["kp"] = "stiffness in Nm/rad: one number, or one per joint in the policy's order"
        wanted["kd"] = "damping in Nms/rad, likewise"
    given = answers.require(file, wanted) if wanted else {}
    where = f"{file}: actions.0"
    scale = spread(action.scale, len(acts), f"{where}.scale")
    offset = spread(action.offset, len(acts), f"{where}.offset")
    clip = None if action.clip is None else action_clip(action.clip, scale, offset, where)
    places = [acts.index(name) for name in joints]
    scale, offset = [scale[place] for place in places], [offset[place] for place in places]
    clip = clip and [clip[place] for place in places]
    return Draft(
        source=file,
        network=network,
        joints=joints,
        action_joints=acts,
        claims={
            "rate_hz": 1 / told.scene.dt,
            "default_position": _by_name(body, body.default_joint_pos, joints),
            "kp": _gains(given.get("kp"), body.default_joint_stiffness, body, joints, "kp"),
            "kd": _gains(given.get("kd"), body.default_joint_damping, body, joints, "kd"),
            "action": {"scale": scale, "offset": offset, "clip": clip, "observed": "raw"},
            "observations": [{"input": "", "terms": rows}],
            "command_ranges": answers.ranges(assumed),
        },
        notes={"asked": ", ".join(sorted(wanted))} if wanted else {},
        assumed=assumed,
    )


def _row(term: _Term, joints: tuple[str, ...], where: str) -> dict[str, Any]:
    if term.extras.get("modifiers"):
        raise Refusal(f"{where}.extras.modifiers: cannot be run")
    if term.joint_names is not None and term.joint_names != joints:
        raise Refusal(f"{where}.joint_names: only all joints in one order can be run")
    special = term.overloads
    if special.history_length and not special.flatten_history_dim:
        raise Refusal(f"{where}.overloads.flatten_history_dim: only flat history can be run")
    row: dict[str, Any] = {
        "name": translate(term.name, TERMS, where),
        "history": special.history_length or 1,
    }
    if special.scale is not None:
        row["scale"] = special.scale
    if special.clip is not None:
        row["clip"] = special.clip
    return row


def _by_name(
    body: _Articulation, values: tuple[float, ...], joints: tuple[str, ...]
) -> list[float]:
    if len(values) != len(joints):
        raise Refusal(f"articulations.robot: {len(values)} values for {len(joints)} joints")
    table = dict(zip(body.joint_names, values, strict=True))
    return [table[name] for name in joints]


def _gains(
    asked: Any,
    told: tuple[float, ...],
    body: _Articulation,
    joints: tuple[str, ...],
    name: str,
) -> list[float]:
    if asked is None:
        return _by_name(body, told, joints)
    return spread(asked, len(joints), f"--set {name}")
