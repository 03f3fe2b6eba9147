"""legged_rl_deploy: config.yaml with `policy`, with every processing step of each term.

Gains are in motor order, everything else in the policy's; `joint_ids_map` maps between them.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.draft import (
    Answers,
    Draft,
    Foreign,
    Numbers,
    action_clip,
    spread,
)
from sim2real_deploy.policy.importers.places import find_network
from sim2real_deploy.policy.importers.vocabulary import translate

NAME = "legged_rl_deploy config.yaml"
TERMS = {
    "base_ang_vel_B": "base_ang_vel",
    "base_lin_vel_B": "base_lin_vel",
    "eulerZYX_rpy": "roll_pitch_yaw",
    "joint_pos": "joint_pos",
    "gait_phase_2": "gait_phase",
}
NEAR = 1e-6

Step = Literal["clip", "scale", "offset"]


class _Steps(Foreign):
    process_order: tuple[Step, ...] = ()
    params: dict[str, Any] = Field(default_factory=dict)
    scale: Numbers = 1.0
    offset: Numbers = 0.0
    min: Numbers | None = None
    max: Numbers | None = None


class _Stack(Foreign):
    length: int = Field(default=1, ge=1)
    order: Literal["oldest_first", "newest_first"] = "oldest_first"


class _Observations(Foreign):
    stack: _Stack = _Stack()
    terms: dict[str, _Steps | None] = Field(min_length=1)


class _Actions(Foreign):
    JointPositionAction: _Steps


class _Policy(Foreign):
    model_path: str = ""
    policy_dt: float = Field(gt=0)
    joint_ids_map: tuple[int, ...] = Field(min_length=1)
    stiffness: Numbers
    damping: Numbers
    actions: _Actions
    commands: dict[str, _Steps | None] = Field(default_factory=dict)
    observations: _Observations


def recognises(file: Path, content: Any) -> bool:
    below = content.get("policy") if isinstance(content, dict) else None
    return isinstance(below, dict) and {"joint_ids_map", "policy_dt"} <= below.keys()


def read(file: Path, content: Any, answers: Answers) -> Draft:
    told = configfile.parse(content["policy"], _Policy, f"{file}: policy")
    order = told.joint_ids_map
    count = len(order)
    if sorted(order) != list(range(count)):
        raise Refusal(f"{file}: joint_ids_map: must name each motor from 0 to {count - 1} once")
    action = told.actions.JointPositionAction
    where = f"{file}: policy.actions.JointPositionAction"
    scale = spread(action.scale, count, f"{where}.scale")
    offset = spread(action.offset, count, f"{where}.offset")
    terms, clip_first = _terms(told.observations, offset, file)
    network = find_network(file, answers.network, told.model_path)
    kp = spread(told.stiffness, count, f"{file}: policy.stiffness")
    kd = spread(told.damping, count, f"{file}: policy.damping")
    stack = told.observations.stack
    assumed: list[str] = []
    return Draft(
        source=file,
        network=network,
        joints=order,
        claims={
            "rate_hz": 1 / told.policy_dt,
            "default_position": offset,
            "kp": [kp[motor] for motor in order],
            "kd": [kd[motor] for motor in order],
            "action": {
                "scale": scale,
                "offset": offset,
                "clip": _action_clip(action, scale, offset, where),
                "observed": "raw",
            },
            "observations": [
                {
                    "input": "",
                    "terms": terms,
                    "clip_first": clip_first,
                    "layout": "by_frame",
                    "newest": "last" if stack.order == "oldest_first" else "first",
                    "start": "zeros",
                }
            ],
            "command_ranges": _ranges(told.commands.get("base_velocity"), file, answers, assumed),
        },
        assumed=assumed,
    )


def _terms(
    told: _Observations, default: list[float], file: Path
) -> tuple[list[dict[str, Any]], bool]:
    rows, clipped_first = [], set()
    for name, steps in told.terms.items():
        where = f"{file}: policy.observations.terms.{name}"
        steps = steps or _Steps()
        order = steps.process_order
        row: dict[str, Any] = {"name": translate(name, TERMS, where), "history": told.stack.length}
        if "offset" in order:
            minus = [-value for value in default]
            shift = spread(steps.offset, len(default), f"{where}.offset")
            if row["name"] != "joint_pos" or order[0] != "offset" or _differ(shift, minus):
                raise Refusal(f"{where}.offset: only joint_pos minus the default pose can be run")
            row["name"] = "joint_pos_rel"
        if "scale" in order:
            row["scale"] = steps.scale
        if "clip" in order:
            row["clip"] = _one_range(steps, where)
            if "scale" in order:
                clipped_first.add(order.index("clip") < order.index("scale"))
        if row["name"] == "gait_phase":
            row["params"] = {"period": steps.params.get("cycle_time") or steps.params.get("period")}
        rows.append(row)
    if len(clipped_first) > 1:
        raise Refusal(f"{file}: process_order: some terms clip before they scale, others after")
    return rows, clipped_first != {False}


def _differ(one: list[float], other: list[float]) -> bool:
    return any(abs(a - b) > NEAR for a, b in zip(one, other, strict=True))


def _one_range(steps: _Steps, where: str) -> tuple[float, float]:
    if not isinstance(steps.min, float) or not isinstance(steps.max, float):
        raise Refusal(f"{where}: min, max: one number each was expected")
    return steps.min, steps.max


def _action_clip(steps: _Steps, scale: list[float], offset: list[float], where: str) -> Any:
    if "clip" not in steps.process_order:
        return None
    count = len(scale)
    low = spread(steps.min if steps.min is not None else (), count, f"{where}.min")
    high = spread(steps.max if steps.max is not None else (), count, f"{where}.max")
    bounds = list(zip(low, high, strict=True))
    if steps.process_order[-1] == "clip":  # of the joint target
        return action_clip(bounds, scale, offset, where)
    return bounds


def _ranges(steps: _Steps | None, file: Path, answers: Answers, assumed: list[str]) -> Any:
    if steps is None or steps.min is None or steps.max is None:
        return answers.ranges(assumed)
    low = spread(steps.min, 3, f"{file}: policy.commands.base_velocity.min")
    high = spread(steps.max, 3, f"{file}: policy.commands.base_velocity.max")
    return dict(zip(("vx", "vy", "wz"), zip(low, high, strict=True), strict=True))
