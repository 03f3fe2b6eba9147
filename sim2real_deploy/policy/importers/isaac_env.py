"""Isaac Lab: params/env.yaml, which every training run writes, with exported/policy.onnx.

It contains everything but the joint order, which is Isaac's own, breadth first (`isaac` in the
robot's file), unless actions or observations list the joints and preserve their order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.draft import (
    Answers,
    Draft,
    Foreign,
    Range,
    action_clip,
    velocity_ranges,
)
from sim2real_deploy.policy.importers.places import find_network
from sim2real_deploy.policy.importers.robots import (
    all_robots,
    by_pattern,
    known_robots,
    matching_joints,
    robot_called,
)
from sim2real_deploy.policy.importers.vocabulary import translate
from sim2real_deploy.robots import RobotSpec

NAME = "Isaac Lab env.yaml"
TERMS = {
    "joint_pos": "joint_pos",
    "joint_pos_rel_without_wheel": "joint_pos_rel",
    "gait_phase": "gait_phase",
    "phase": "gait_phase",
}
OF_JOINTS = {"joint_pos_rel", "joint_pos", "joint_vel"}
ENDLESS: Range = (-1e9, 1e9)
FOLDERS_OF_A_MODEL = 3  # .../Unitree/Go2/go2.usd: the names that may be a robot's
GROUP_SETTINGS = {
    "concatenate_terms",
    "concatenate_dim",
    "enable_corruption",
    "history_length",
    "flatten_history_dim",
    "nan_policy",
    "nan_check_per_term",
}


class _Sim(Foreign):
    dt: float = Field(gt=0)


class _Term(Foreign):
    func: str
    params: dict[str, Any] | None = None
    modifiers: Any = None
    clip: Range | None = None
    scale: Any = None
    history_length: int | None = 0


class _Action(Foreign):
    class_type: str
    joint_names: tuple[str, ...]
    scale: Any = 1.0
    offset: Any = 0.0
    use_default_offset: bool = True
    preserve_order: bool = False
    clip: Any = None


@dataclass(frozen=True, slots=True)
class _JointAction:
    """One group of actions, with the joints that it moves in its order."""

    told: _Action
    joints: tuple[str, ...]
    by_speed: bool
    where: str

    def scale(self) -> dict[str, float]:
        return self._by_joint(self.told.scale, "scale")

    def offset(self, default: Mapping[str, float]) -> dict[str, float]:
        """Of positions from the start pose, if so told; a wheel's start pose has no speed."""
        if not self.told.use_default_offset:
            return self._by_joint(self.told.offset, "offset")
        return {joint: 0.0 if self.by_speed else default[joint] for joint in self.joints}

    def clip(self) -> dict[str, Range]:
        if self.told.clip is None:
            return dict.fromkeys(self.joints, ENDLESS)
        bounds = _clips(self.told.clip, self.joints, f"{self.where}.clip")
        return dict(zip(self.joints, bounds, strict=True))

    def _by_joint(self, values: Any, field: str) -> dict[str, float]:
        numbers = by_pattern(values, self.joints, f"{self.where}.{field}")
        return dict(zip(self.joints, numbers, strict=True))


class _Actuator(Foreign):
    joint_names_expr: tuple[str, ...]
    stiffness: Any = None
    damping: Any = None


class _Init(Foreign):
    joint_pos: dict[str, float]


class _Robot(Foreign):
    spawn: Any = None
    init_state: _Init
    actuators: dict[str, _Actuator]


class _Scene(Foreign):
    robot: _Robot
    height_scanner: Any = None


class _Observations(Foreign):
    policy: dict[str, Any]


class _Env(Foreign):
    decimation: int = Field(gt=0)
    sim: _Sim
    scene: _Scene
    actions: dict[str, Any]
    observations: _Observations
    commands: dict[str, Any] | None = None


def recognises(file: Path, content: Any) -> bool:
    wanted = {"decimation", "sim", "scene", "actions", "observations"}
    return isinstance(content, dict) and wanted <= content.keys()


def read(file: Path, content: Any, answers: Answers) -> Draft:
    env = configfile.parse(content, _Env, str(file))
    assumed: list[str] = []
    spec = _robot(env, file, answers, assumed)
    actions = _actions(env, spec, file)
    acts = tuple(joint for action in actions for joint in action.joints)
    if sorted(acts) != sorted(spec.joint_names):
        raise Refusal(f"{file}: actions: only all joints together can be run, each of them once")
    terms, flat, joints = _terms(env, spec, acts, file)
    if acts == spec.joint_orders.get("isaac"):
        assumed.append("joints in Isaac's order")
    default = _start_pose(env, joints, f"{file}: joint_pos")
    scale = _in_order([action.scale() for action in actions], joints)
    at_rest = dict(zip(joints, default, strict=True))
    offset = _in_order([action.offset(at_rest) for action in actions], joints)
    clip = _clip(actions, joints, scale, offset)
    if flat:
        assumed.append("flat ground as its height scan until one is sent")
    return Draft(
        source=file,
        network=find_network(file, answers.network),
        joints=joints,
        action_joints=acts,
        robot=spec.name,
        claims={
            "rate_hz": 1 / (env.sim.dt * env.decimation),
            "default_position": default,
            "kp": _gains(env, joints, "stiffness", file),
            "kd": _gains(env, joints, "damping", file),
            "action": {
                "scale": scale,
                "offset": offset,
                "clip": clip,
                "observed": "raw",
                "speeds": [j for action in actions if action.by_speed for j in action.joints],
            },
            "observations": [{"input": "", "terms": terms}],
            "command_ranges": velocity_ranges(env.commands, f"{file}: commands")
            or answers.ranges(assumed),
        },
        assumed=assumed,
    )


def _start_pose(env: _Env, joints: tuple[str, ...], where: str) -> list[float]:
    """Joints that the start pose does not name start at zero, as in Isaac Lab."""
    told = env.scene.robot.init_state.joint_pos
    named = {name for key in told for name in matching_joints(key, joints, where)}
    rest = [name for name in joints if name not in named]
    return by_pattern({**told, **{re.escape(name): 0.0 for name in rest}}, joints, where)


def _actions(env: _Env, spec: RobotSpec, file: Path) -> list[_JointAction]:
    """Of positions and, for wheels, of velocities, in the order of the network's output."""
    found = []
    for name, told in env.actions.items():
        if told is None:
            continue
        where = f"{file}: actions.{name}"
        kind = told.get("class_type") if isinstance(told, dict) else None
        matched = re.search(r"[.:]Joint(Position|Velocity)Action$", str(kind))
        if matched is None:
            raise Refusal(
                f"{where}: only a JointPositionAction can be run and, for wheels, a "
                f"JointVelocityAction, not {kind}"
            )
        action = configfile.parse(told, _Action, where)
        joints = _selected(action.joint_names, action.preserve_order, spec, where)
        if joints is None:
            raise Refusal(f"{where}: config/robots/{spec.name}.yaml has no joint order 'isaac'")
        found.append(_JointAction(action, joints, matched[1] == "Velocity", where))
    return found


def _in_order(parts: Iterable[Mapping[str, float]], joints: Sequence[str]) -> list[float]:
    values = {joint: value for part in parts for joint, value in part.items()}
    return [values[joint] for joint in joints]


def _clip(
    actions: Sequence[_JointAction],
    joints: Sequence[str],
    scale: Sequence[float],
    offset: Sequence[float],
) -> list[Range] | None:
    """Bounds of the actions, if any of them has some; those of the others are endless."""
    if all(action.told.clip is None for action in actions):
        return None
    bounds = {joint: pair for action in actions for joint, pair in action.clip().items()}
    return action_clip([bounds[joint] for joint in joints], scale, offset, actions[0].where)


def _robot(env: _Env, file: Path, answers: Answers, assumed: list[str]) -> RobotSpec:
    """The robot whose model was simulated; where its name tells none, the one that fits: each
    pattern of the start pose matches at least one joint."""
    model = _model(env.scene.robot.spawn)
    named = answers.robot or robot_called(model, FOLDERS_OF_A_MODEL)
    why_not: list[str] = []
    fitting = _fitting(env, known_robots(named), why_not)
    if not fitting and not named:
        fitting = _fitting(env, (spec for spec in all_robots() if spec.twin_only), why_not)
    if not fitting:
        raise Refusal(f"{file}: fits no known robot:\n" + "\n".join(why_not))
    if len(fitting) > 1:
        names = ", ".join(spec.name for spec in fitting)
        raise Refusal(f"{file}: fits several robots ({names}); name one with --robot")
    if model.name and not named:
        assumed.append(
            f"that it is for {fitting[0].name}, whose joints have the same names as those of "
            f"{model.name} (--robot ...)"
        )
    return fitting[0]


def _fitting(env: _Env, robots: Iterable[RobotSpec], why_not: list[str]) -> list[RobotSpec]:
    fitting = []
    for spec in robots:
        try:
            _start_pose(env, spec.joint_names, "joint_pos")
            _all_match(env, spec)
            fitting.append(spec)
        except Refusal as refusal:
            why_not.append(f"  {spec.name}: {refusal}")
    return fitting


def _all_match(env: _Env, spec: RobotSpec) -> None:
    """Refuse a robot that lacks joints that an action names."""
    for name, told in env.actions.items():
        patterns = told.get("joint_names") if isinstance(told, dict) else None
        for pattern in patterns if isinstance(patterns, list) else ():
            where = f"actions.{name}.joint_names"
            if not matching_joints(str(pattern), spec.joint_names, where):
                raise Refusal(f"{where}: {pattern}: matches no joint")


def _model(spawn: Any) -> Path:
    """The file of the model that was simulated; several robots have joints of the same names."""
    told = spawn if isinstance(spawn, dict) else {}
    path = told.get("usd_path") or told.get("asset_path")
    return Path(path if isinstance(path, str) else "")


def _selected(
    patterns: Sequence[str], preserve_order: bool, spec: RobotSpec, where: str
) -> tuple[str, ...] | None:
    """The joints that match, in Isaac's order or, if it is preserved, that of the patterns; None
    where Isaac's order is needed and not known."""
    if preserve_order and set(patterns) <= set(spec.joint_names):
        return tuple(patterns)
    isaac = spec.joint_orders.get("isaac")
    if isaac is None:
        return None
    chosen = [name for one in patterns for name in matching_joints(one, isaac, where)]
    if preserve_order:
        return tuple(dict.fromkeys(chosen))
    return tuple(name for name in isaac if name in chosen)


def _terms(
    env: _Env, spec: RobotSpec, acts: tuple[str, ...], file: Path
) -> tuple[list[dict[str, Any]], bool, tuple[str, ...]]:
    """The observations, whether one is a height scan, and in which order they have the joints."""
    told = env.observations.policy
    if told.get("concatenate_terms") is False:
        raise Refusal(f"{file}: observations.policy.concatenate_terms: only true can be run")
    rows = []
    joints: tuple[str, ...] | None = None
    for name, value in told.items():
        if name in GROUP_SETTINGS or not isinstance(value, dict):
            continue
        where = f"{file}: observations.policy.{name}"
        term = configfile.parse(value, _Term, where)
        if term.modifiers:
            raise Refusal(f"{where}.modifiers: cannot be run")
        function = re.split(r"[.:]", term.func)[-1]
        params = term.params or {}
        row: dict[str, Any] = {
            "name": translate(function, TERMS, where),
            "history": told.get("history_length") or term.history_length or 1,
        }
        order = _whole_robot(params.get("asset_cfg"), spec, acts, where)
        if function in ("joint_pos", "joint_pos_rel") and any(j.wheel for j in spec.joints):
            raise Refusal(
                f"{where}: observes how far the wheels have turned, which cannot be run; train "
                "with joint_pos_rel_without_wheel"
            )
        if row["name"] in OF_JOINTS:
            if joints is not None and order != joints:
                raise Refusal(f"{where}: has another order of joints than the observations before")
            joints = order
        if term.clip is not None:
            row["clip"] = term.clip
        if term.scale is not None:
            row["scale"] = term.scale
        if row["name"] == "gait_phase":
            row["params"] = {"period": params.get("period", params.get("cycle_time"))}
        if row["name"] == "height_scan":
            row["params"] = _scan(env, spec, params, where)
        rows.append(row)
    return rows, any(row["name"] == "height_scan" for row in rows), joints or acts


def _whole_robot(
    chosen: Any, spec: RobotSpec, acts: tuple[str, ...], where: str
) -> tuple[str, ...]:
    """The order in which an observation has the joints; refused unless it has all of them."""
    told = chosen if isinstance(chosen, dict) else {}
    names = told.get("joint_names")
    listed = [".*"] if names is None else names if isinstance(names, list) else [names]
    preserved = names is not None and bool(told.get("preserve_order"))
    joints = _selected([str(name) for name in listed], preserved, spec, where)
    if joints is None:
        joints = acts
    if len(joints) != spec.joint_count:
        raise Refusal(f"{where}.params.asset_cfg.joint_names: only all joints can be run")
    return joints


def _scan(env: _Env, spec: RobotSpec, params: dict[str, Any], where: str) -> dict[str, Any]:
    try:
        pattern = env.scene.height_scanner["pattern_cfg"]
        resolution, (long, wide) = pattern["resolution"], pattern["size"]
        count = (round(long / resolution) + 1) * (round(wide / resolution) + 1)
    except (TypeError, KeyError, ValueError):
        raise Refusal(f"{where}: scene.height_scanner.pattern_cfg: no grid of rays") from None
    offset = params.get("offset", 0.5)
    return {
        "count": count,
        "flat": spec.base_height - offset,
        "size": (long, wide),
        "resolution": resolution,
        "offset": offset,
    }


def _gains(env: _Env, joints: tuple[str, ...], field: str, file: Path) -> list[float]:
    found: dict[str, float] = {}
    for name, actuator in env.scene.robot.actuators.items():
        where = f"{file}: scene.robot.actuators.{name}.{field}"
        driven = [
            joint
            for joint in joints
            if any(matching_joints(one, [joint], where) for one in actuator.joint_names_expr)
        ]
        values = by_pattern(getattr(actuator, field), driven, where)
        found |= dict(zip(driven, values, strict=True))
    missing = [joint for joint in joints if joint not in found]
    if missing:
        raise Refusal(
            f"{file}: scene.robot.actuators: none for {', '.join(missing)}: its model has other "
            "joints. Import the run's deploy.yaml if it has one, or describe the policy: sim2real "
            "policy new"
        )
    return [found[joint] for joint in joints]


def _clips(clip: Any, joints: tuple[str, ...], where: str) -> list[Range]:
    if not isinstance(clip, dict):
        raise Refusal(f"{where}: bounds by joint name were expected, not {clip!r}")
    low = by_pattern({name: bounds[0] for name, bounds in clip.items()}, joints, where)
    high = by_pattern({name: bounds[1] for name, bounds in clip.items()}, joints, where)
    return list(zip(low, high, strict=True))
