"""unitree_rl_lab and unitree_rl_mjlab: params/deploy.yaml and exported/policy.onnx.

Gains are in motor order, everything else in the policy's; `joint_ids_map` maps between them. The
clip of an action applies to the joint target; the action observed is the one before clipping.
"""

from pathlib import Path
from typing import Any

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import motions, network
from sim2real_deploy.policy.importers.draft import (
    Answers,
    Draft,
    Foreign,
    Numbers,
    Range,
    action_clip,
    spread,
    velocity_ranges,
)
from sim2real_deploy.policy.importers.places import find_network
from sim2real_deploy.policy.importers.robots import (
    known_robots,
    robot_of_folder,
    same_on_both_sides,
)
from sim2real_deploy.policy.importers.vocabulary import extra_command, follows_motion, translate

NAME = "unitree_rl_lab deploy.yaml"
TERMS = {
    "keyboard_velocity_commands": "velocity_command",
    "joint_pos": "joint_pos",
    "gait_phase": "gait_phase",
    "gait_phase_my": "gait_phase",
}
MOST_MOTORS = 100  # of any robot
STANDING_STILL = 0.1  # m/s: below it unitree_rl_mjlab's clock is zero


class _Action(Foreign):
    scale: Numbers
    offset: Numbers
    clip: tuple[Range, ...] | None = None
    joint_ids: Any = None


class _Actions(Foreign):
    JointPositionAction: _Action


class _Term(Foreign):
    params: dict[str, Any] | None = None
    clip: Range | None = None
    scale: Numbers | None = None
    history_length: int | None = 1


class _Deploy(Foreign):
    joint_ids_map: tuple[int, ...] = Field(min_length=1)
    step_dt: float = Field(gt=0)
    stiffness: tuple[float, ...]
    damping: tuple[float, ...]
    default_joint_pos: tuple[float, ...]
    commands: dict[str, Any] | None = None
    actions: _Actions
    observations: dict[str, Any] = Field(min_length=1)


def recognises(file: Path, content: Any) -> bool:
    wanted = {"joint_ids_map", "stiffness", "actions", "observations"}
    return isinstance(content, dict) and wanted <= content.keys()


def read(file: Path, content: Any, answers: Answers) -> Draft:
    actions = content["actions"] if isinstance(content["actions"], dict) else {}
    others = sorted(str(name) for name in actions.keys() - {"JointPositionAction"})
    if others:
        raise Refusal(f"{file}: actions.{others[0]}: only JointPositionAction can be run")
    deploy = configfile.parse(content, _Deploy, str(file))
    order = deploy.joint_ids_map
    count = len(order)
    if len(set(order)) != count:
        raise Refusal(f"{file}: joint_ids_map: names a motor more than once")
    beyond = [motor for motor in order if not 0 <= motor < MOST_MOTORS]
    if beyond:
        raise Refusal(f"{file}: joint_ids_map: there is no motor {beyond[0]}")
    action = deploy.actions.JointPositionAction
    _all_joints(action.joint_ids, count, f"{file}: actions.JointPositionAction.joint_ids")
    where = f"{file}: actions.JointPositionAction"
    scale = spread(action.scale, count, f"{where}.scale")
    offset = spread(action.offset, count, f"{where}.offset")
    clip = None
    if action.clip is not None:
        if len(action.clip) != count:
            raise Refusal(f"{where}.clip: {len(action.clip)} values for {count} joints")
        clip = action_clip(action.clip, scale, offset, where)
    assumed: list[str] = []
    kp = _by_motor(deploy.stiffness, order, f"{file}: stiffness", assumed)
    kd = _by_motor(deploy.damping, order, f"{file}: damping", assumed)
    found = find_network(file, answers.network)
    groups = _groups(deploy.observations, count, file, _clock_rests(found), answers)
    follows = follows_motion(term for group in groups for term in group["terms"])
    return Draft(
        source=file,
        network=found,
        joints=order,
        lies_in=robot_of_folder(file),
        claims={
            "rate_hz": 1 / deploy.step_dt,
            "default_position": spread(
                deploy.default_joint_pos, count, f"{file}: default_joint_pos"
            ),
            "kp": [kp[motor] for motor in order],
            "kd": [kd[motor] for motor in order],
            "action": {"scale": scale, "offset": offset, "clip": clip, "observed": "raw"},
            "observations": groups,
            "command_ranges": motions.STANDS_STILL
            if follows
            else velocity_ranges(deploy.commands, f"{file}: commands") or answers.ranges(assumed),
        },
        assumed=assumed,
        hold_rest=_moves_a_part(order),
        motion=motions.beside(file, answers) if follows else None,
    )


def _moves_a_part(order: tuple[int, ...]) -> bool:
    """Whether some motors are left out: numbers are skipped, or no robot has so few."""
    whole = {spec.joint_count for spec in known_robots()}
    return sorted(order) != list(range(len(order))) or len(order) not in whole


def _by_motor(
    gains: tuple[float, ...], order: tuple[int, ...], where: str, assumed: list[str]
) -> dict[int, float]:
    """Gains by motor number: one per motor slot, or one per motor that is moved.

    Some files have them in the policy's order instead: read as motors, left and right differ."""
    motors = range(len(gains)) if len(gains) > max(order) else sorted(order)
    if len(gains) != len(motors):
        raise Refusal(f"{where}: {len(gains)} values for {len(order)} joints")
    as_motors = dict(zip(motors, gains, strict=True))
    if len(gains) != len(order):
        return as_motors
    as_policy = dict(zip(order, gains, strict=True))
    of_that_size = [spec for spec in known_robots() if spec.joint_count == len(order)]
    for spec in of_that_size:
        by_name = [
            {spec.joint_names[motor]: gain for motor, gain in gains_.items()}
            for gains_ in (as_motors, as_policy)
        ]
        if [same_on_both_sides(named, spec) for named in by_name] == [False, True]:
            assumed.append(
                f"{where.rpartition(' ')[2]} in the policy's order: as motors, left and right "
                "would differ"
            )
            return as_policy
    return as_motors


def _clock_rests(policy: Path) -> bool:
    """Whether the gait clock is zero at rest: so in versions of unitree_rl_mjlab that write network
    metadata, where it is named `phase`."""
    if policy.suffix != ".onnx":
        return False
    return "phase" in network.metadata(policy).get("observation_names", "").split(",")


def _groups(
    content: dict[str, Any], joints: int, file: Path, clock_rests: bool, answers: Answers
) -> list[dict[str, Any]]:
    """One group, or one per network input; `use_gym_history` anywhere applies to all."""
    first = next((value for value in content.values() if isinstance(value, dict)), {})
    nested = bool(first) and not {"params", "clip", "scale", "history_length"} & first.keys()
    named = content if nested else {"": content}
    layout = "by_term"
    groups = []
    for name, terms in named.items():
        where = f"{file}: observations" + (f".{name}" if name else "")
        if not isinstance(terms, dict):
            raise Refusal(f"{where}: a mapping of terms was expected, not {terms!r}")
        rows: list[dict[str, Any]] = []
        scale_first = False
        for key, value in terms.items():
            if key == "use_gym_history":
                layout = "by_frame" if _flag(value, f"{where}.{key}") else layout
            elif key == "scale_first":
                if rows:
                    raise Refusal(f"{where}.scale_first: must come before the terms it applies to")
                scale_first = _flag(value, f"{where}.{key}")
            else:
                rows.append(_term(key, value, joints, f"{where}.{key}", clock_rests, answers))
        groups.append({"input": name, "terms": rows, "clip_first": not scale_first})
    return [{**group, "layout": layout} for group in groups]


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise Refusal(f"{where}: must be true or false (it is {value!r})")
    return value


def _term(
    name: str, content: Any, joints: int, where: str, clock_rests: bool, answers: Answers
) -> dict[str, Any]:
    term = configfile.parse(content or {}, _Term, where)
    params = term.params or {}
    selected = params.get("asset_cfg")
    if isinstance(selected, dict):
        _all_joints(selected.get("joint_ids"), joints, f"{where}.params.asset_cfg.joint_ids")
    row = extra_command(name, answers) or {"name": translate(name, TERMS, where)}
    row["history"] = max(term.history_length or 1, 1)
    if term.scale is not None:
        row["scale"] = term.scale
    if term.clip is not None:
        row["clip"] = term.clip
    if row["name"] == "gait_phase":
        if "period" not in params:
            raise Refusal(f"{where}.params.period: is missing")
        row["params"] = {"period": params["period"]}
        if name == "gait_phase_my" or clock_rests:
            row["params"]["zero_below"] = STANDING_STILL
    return row


def _all_joints(ids: Any, count: int, where: str) -> None:
    """All joints, however written: nothing, an empty slice, or all numbers in order."""
    if ids is None or ids == slice(None) or ids == list(range(count)):
        return
    raise Refusal(f"{where}: only all joints in their own order can be run, not {ids!r}")
