"""mjlab and its relatives: an ONNX file with part of its contract as metadata.

The metadata has no rate, no scales, no history and no command ranges. mjlab's own tasks run at
50 Hz and scale nothing: that is assumed, reported, and can be set. A history shows in the size of
the network's input. The env.yaml of the training run (mjlab_env.py) says all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import motions, network
from sim2real_deploy.policy.importers.draft import (
    Answers,
    Draft,
    DraftHeldJoint,
    Numbers,
    Range,
    spread,
)
from sim2real_deploy.policy.importers.robots import known_robots, matching_joints
from sim2real_deploy.policy.importers.vocabulary import extra_command, translate

NAME = "mjlab ONNX metadata"
TERMS = {
    "joint_pos": "joint_pos_rel",  # their term joint_pos uses their function joint_pos_rel
    "phase": "gait_phase",
}
FOLLOWING = {"command": "motion_command"}  # of a policy that follows a recorded motion
RATE_HZ = 50.0
# unitree_rl_mjlab's gait clock: its period, and the command below which it is zero.
GAIT_PERIOD, STANDING_STILL = 0.6, 0.1
# Both files round, to one digit or more; a difference of 8 % is not due to rounding.
LARGEST_SHARE, LARGEST_ANGLE = 0.08, 0.05
# How many numbers a term has; None: one for each joint.
_SIZES = {
    "base_lin_vel": 3,
    "base_ang_vel": 3,
    "projected_gravity": 3,
    "velocity_command": 3,
    "gait_phase": 2,
    "joint_pos_rel": None,
    "joint_vel": None,
    "last_action": None,
}
LONGEST_HISTORY = 30


@dataclass(frozen=True, slots=True)
class RunTerm:
    """One observation, as the training run was configured."""

    scale: Any = None
    clip: Range | None = None
    history: int = 1
    period: float | None = None  # s, of a gait clock


@dataclass(frozen=True, slots=True)
class Run:
    """What the env.yaml of a training run adds to the metadata."""

    rate_hz: float
    ranges: dict[str, Range] | None
    moved: tuple[str, ...]  # patterns for the names of the joints that the action moves
    terms: dict[str, RunTerm]


def recognises(file: Path) -> bool:
    return "observation_names" in network.metadata(file)


def read(file: Path, answers: Answers, run: Run | None = None) -> Draft:
    data = network.metadata(file)
    every = _words(data, "joint_names", file)
    joints = _moved_joints(every, run)
    places = [every.index(name) for name in joints]
    names = _words(data, "observation_names", file)
    follows = _words(data, "command_names", file) == ["motion"]
    assumed: list[str] = []
    orders: dict[str, tuple[Any, ...]] = {}
    terms = _terms(names, file, answers, run, follows)
    group: dict[str, Any] = {"input": "", "terms": terms}
    if run is None:
        assumed = _stock_task(answers)
        frames = _frames(terms, len(joints), file)
        if frames > 1:
            layout = answers.order("layout", ("by_term", "by_frame"), orders)
            assumed.append(f"a history of {frames} frames, from the size of the network's input")
            group = {
                **group,
                "terms": [{**term, "history": frames} for term in terms],
                "layout": layout,
            }
    pose, kp, kd = (
        _of_moved(_numbers(data, key, file), list(range(len(every))), len(every), f"{file}: {key}")
        for key in ("default_joint_pos", "joint_stiffness", "joint_damping")
    )
    default = [pose[place] for place in places]
    scale = _of_moved(action_scale(data, file), places, len(every), f"{file}: action_scale")
    rest = {every[i]: DraftHeldJoint(every[i], pose[i], kp[i], kd[i]) for i in range(len(every))}
    rate_hz = answers.optional("rate_hz", RATE_HZ if run is None else run.rate_hz)
    motion = _motion(data, file, rate_hz, answers) if follows else None
    groups = [group, *_step_input(file, group)]
    return Draft(
        source=file,
        network=answers.network or file,
        joints=joints,
        held=_held(joints, rest, answers),
        claims={
            "rate_hz": rate_hz,
            "default_position": default,
            "kp": [kp[place] for place in places],
            "kd": [kd[place] for place in places],
            "action": {"scale": scale, "offset": default, "observed": "raw"},
            "observations": groups,
            "command_ranges": motions.STANDS_STILL
            if follows
            else (run and run.ranges) or answers.ranges(assumed),
        },
        motion=motion,
        notes={"run_path": data.get("run_path", "")},
        assumed=assumed,
        open_orders=orders,
    )


def _motion(
    data: Mapping[str, str], file: Path, rate_hz: float, answers: Answers
) -> motions.RecordedMotion:
    """The motion inside the network, or a file beside it."""
    anchor = answers.optional("anchor", data.get("anchor_body_name", ""))
    bodies = data.get("body_names", "").split(",")
    return motions.in_network(file, rate_hz, anchor, bodies) or motions.beside(file, answers)


def _step_input(file: Path, group: dict[str, Any]) -> list[dict[str, Any]]:
    """A network that holds its motion is told a time step, on which its action does not depend."""
    inputs = network.input_sizes(file)
    if motions.STEP_INPUT not in inputs:
        return []
    group["input"] = next(name for name in inputs if name != motions.STEP_INPUT)
    zero = {"name": "constant", "params": {"values": (0.0,)}}
    return [{"input": motions.STEP_INPUT, "terms": [zero]}]


def _moved_joints(every: list[str], run: Run | None) -> list[str]:
    patterns = (".*",) if run is None else run.moved
    where = "env.yaml: actions"
    return [name for name in every if any(matching_joints(one, [name], where) for one in patterns)]


def _held(
    joints: list[str], rest: Mapping[str, DraftHeldJoint], answers: Answers
) -> list[DraftHeldJoint]:
    """The joints that the policy leaves alone, of those that the robot has: no fingers."""
    for spec in known_robots(answers.robot):
        if set(joints) <= set(spec.joint_names):
            return [rest[name] for name in spec.joint_names if name in rest and name not in joints]
    return []


def _stock_task(answers: Answers) -> list[str]:
    """What is taken from mjlab's own tasks, since no env.yaml says it."""
    return [
        f"{key} (--set {how})"
        for key, how in (
            (f"{RATE_HZ:g} Hz, as mjlab's tasks run", "rate_hz=..."),
            ("no observation is scaled, as in mjlab's tasks", "scales='{joint_vel: 0.05}'"),
        )
        if not answers.has(how.partition("=")[0])
    ]


def _terms(
    names: list[str], file: Path, answers: Answers, run: Run | None, follows: bool = False
) -> list[dict[str, Any]]:
    special = {**TERMS, **(FOLLOWING if follows else {})}
    scales = answers.optional("scales", {})
    told = {} if run is None else run.terms
    missing = [name for name in names if run is not None and name not in told]
    if missing:
        raise Refusal(
            f"{file}: observation_names: {missing[0]}: env.yaml has no such observation: "
            "the two are not of one training run"
        )
    rows = []
    for name in names:
        term = told.get(name, RunTerm())
        row = extra_command(name, answers) or {
            "name": translate(name, special, f"{file}: observation_names")
        }
        scale = scales.get(name) if isinstance(scales, dict) else scales
        scale = term.scale if scale is None else scale
        if scale is not None:
            row["scale"] = scale
        if term.clip is not None:
            row["clip"] = term.clip
        if term.history > 1:
            row["history"] = term.history
        if row["name"] == "gait_phase":
            period = answers.optional("gait_period", term.period or GAIT_PERIOD)
            row["params"] = {"period": period, "zero_below": STANDING_STILL}
        if row["name"] == "height_scan":
            hint = "'{count: 187, flat: 0.3}': how many, and the value of flat ground"
            row["params"] = answers.require(file, {"height_scan": hint})["height_scan"]
        rows.append(row)
    unknown = sorted(scales.keys() - set(names)) if isinstance(scales, dict) else []
    if unknown:
        raise Refusal(f"--set scales.{unknown[0]}: there is no such observation in {file}")
    return rows


def _frames(terms: list[dict[str, Any]], joints: int, file: Path) -> int:
    """How many frames the network's one input holds; 1 where that cannot be told."""
    sizes = list(network.input_sizes(file).values())
    if len(sizes) != 1 or any(term["name"] not in _SIZES for term in terms):
        return 1
    frame = sum(_SIZES[term["name"]] or joints for term in terms)
    frames, rest = divmod(sizes[0], frame)
    return frames if not rest and 1 <= frames <= LONGEST_HISTORY else 1


def cross_check(draft: Draft) -> bool:
    """Compare a description with the network's own metadata, written as its training ended.

    Where they differ, the metadata is believed and the difference noted, unless the user trusts
    the file. True if the network's figures were put into the draft."""
    if draft.network.suffix != ".onnx" or draft.network == draft.source:
        return False
    data = network.metadata(draft.network)
    if "joint_names" not in data:
        return False
    file = draft.network
    joints = _words(data, "joint_names", file)
    moved = [name for name in joints if name in draft.joints]  # it may hold the others
    if list(draft.joints) != moved:
        raise Refusal(f"{draft.source}: joints: {_differ(draft.joints, joints)}; {file} says so")
    places = [joints.index(name) for name in moved]
    claims, changed = draft.claims, False
    _check_observations(draft, _words(data, "observation_names", file))
    for field, part, theirs in (
        ("default_position", claims, _numbers(data, "default_joint_pos", file)),
        ("kp", claims, _numbers(data, "joint_stiffness", file)),
        ("kd", claims, _numbers(data, "joint_damping", file)),
        ("action.scale", claims["action"], action_scale(data, file)),
    ):
        key = field.removeprefix("action.")
        theirs = _of_moved(theirs, places, len(joints), f"{file}: {field}")
        differing = [
            f"{name} {one:g} and {other:g}"
            for name, one, other in zip(moved, part[key], theirs, strict=True)
            if _differs(field, one, other)
        ]
        if differing and draft.trusted != "file":
            if key == "default_position" and claims["action"]["offset"] == part[key]:
                claims["action"]["offset"] = list(theirs)
            part[key] = list(theirs)
            changed = True
            _note(draft, field, differing)
    return changed


def _note(draft: Draft, field: str, differing: Sequence[str]) -> None:
    if draft.trusted:
        return
    more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
    draft.assumed.append(
        f"{field} as the network's metadata has it, which differs: {differing[0]}{more} "
        "(--set trust=file)"
    )
    if draft.motion is None:
        draft.open_orders["trust"] = ("network", "file")


def _differs(field: str, one: float, other: float) -> bool:
    """By more than what rounding explains."""
    most = LARGEST_ANGLE if field == "default_position" else LARGEST_SHARE * abs(other)
    return abs(one - other) > min(_rounding(one) + _rounding(other), most) + 1e-9


def _check_observations(draft: Draft, names: Sequence[str]) -> None:
    """Refuse a network that observes something else than its description says: no answer settles
    that."""
    told = [term["name"] for group in draft.claims["observations"] for term in group["terms"]]
    theirs = [
        "extra_command"
        if told[place : place + 1] == ["extra_command"]  # as the user named it
        else translate(name, TERMS, f"{draft.network}: observation_names")
        for place, name in enumerate(names)
    ]
    if told != theirs:
        raise Refusal(
            f"{draft.source}: observations: {_differ(told, theirs)}; {draft.network} says so: it "
            "is another policy's network. Name the right one with --network FILE, or import this "
            "one by itself"
        )


def _of_moved(
    values: float | Sequence[float], places: list[int], joints: int, where: str
) -> list[float]:
    """The values of the joints that are moved, from a list for these or for all joints."""
    if not isinstance(values, float) and len(values) == len(places):
        return list(values)
    whole = spread(values if isinstance(values, float) else tuple(values), joints, where)
    return [whole[place] for place in places]


def _rounding(value: float) -> float:
    """The largest rounding error, from the number of digits written."""
    _, _, decimals = f"{value:.6f}".rstrip("0").partition(".")
    return float(0.5 * 10.0 ** -max(len(decimals), 1))


def action_scale(data: Mapping[str, str], file: Path) -> Numbers:
    values = _numbers(data, "action_scale", file)
    return values[0] if len(values) == 1 else tuple(values)


def _words(data: Mapping[str, str], key: str, file: Path) -> list[str]:
    if not data.get(key):
        raise Refusal(f"{file}: metadata {key}: is missing")
    return data[key].split(",")


def _numbers(data: Mapping[str, str], key: str, file: Path) -> list[float]:
    try:
        return [float(word) for word in _words(data, key, file)]
    except ValueError as error:
        raise Refusal(f"{file}: metadata {key}: {error}") from None


def _differ(ours: Sequence[Any], theirs: Sequence[Any]) -> str:
    return f"{list(ours)}, but must be {list(theirs)}"
