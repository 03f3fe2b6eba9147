"""mjlab and whole_body_tracking: an ONNX file that carries part of its contract as metadata.

The metadata has no rate, no observation scales and no command ranges: those are asked for.
"""

from collections.abc import Mapping
from pathlib import Path

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import network
from sim2real_deploy.policy.importers.draft import (
    RANGES_HINT,
    Answers,
    Draft,
    Numbers,
    spread,
    translate,
)

NAME = "mjlab ONNX metadata"
TERMS = {
    "base_ang_vel": "base_ang_vel",
    "projected_gravity": "projected_gravity",
    "command": "velocity_command",
    "velocity_commands": "velocity_command",
    "joint_pos": "joint_pos_rel",  # their term joint_pos is their function joint_pos_rel
    "joint_pos_rel": "joint_pos_rel",
    "joint_vel": "joint_vel",
    "joint_vel_rel": "joint_vel",
    "actions": "last_action",
    "last_action": "last_action",
    "phase": "gait_phase",
}


def find(source: Path) -> Path | None:
    candidates = [source] if source.is_file() else sorted(source.glob("*.onnx"))
    found = [
        file
        for file in candidates
        if file.suffix == ".onnx" and "observation_names" in network.metadata(file)
    ]
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise Refusal(f"{source}: holds more than one policy ({names}); name the file")
    return found[0] if found else None


def read(file: Path, answers: Answers) -> Draft:
    data = network.metadata(file)
    joints = _words(data, "joint_names", file)
    names = _words(data, "observation_names", file)
    commands = _words(data, "command_names", file)
    if commands == ["motion"]:
        raise Refusal(
            f"{file}: command_names: 'motion' is a recorded motion to follow; only policies that "
            "follow a velocity can be run"
        )
    wanted = {
        "rate_hz": "how often the policy runs; 1 / (physics time step x decimation)",
        "scales": "of the observations: one number for all, or {joint_vel: 0.05, ...}",
        "command_ranges": RANGES_HINT,
    }
    if "phase" in names:
        wanted["gait_period"] = "seconds of the clock behind the observation 'phase'"
    given = answers.require(file, wanted)
    scales = given["scales"]
    history = answers.optional("history", 1)
    terms = []
    for name in names:
        row = {"name": translate(name, TERMS, f"{file}: observation_names"), "history": history}
        row["scale"] = scales.get(name, 1.0) if isinstance(scales, dict) else scales
        if name == "phase":
            row["params"] = {"period": given["gait_period"]}
        terms.append(row)
    unknown = sorted(scales.keys() - set(names)) if isinstance(scales, dict) else []
    if unknown:
        raise Refusal(f"--set scales.{unknown[0]}: there is no such observation in {file}")
    default = _numbers(data, "default_joint_pos", file)
    return Draft(
        source=file,
        network=answers.network or file,
        joints=joints,
        claims={
            "rate_hz": given["rate_hz"],
            "default_position": default,
            "kp": _numbers(data, "joint_stiffness", file),
            "kd": _numbers(data, "joint_damping", file),
            "action": {
                "scale": spread(action_scale(data, file), len(joints), f"{file}: action_scale"),
                "offset": default,
                "observed": "raw",
            },
            "observations": [{"input": "", "terms": terms}],
            "command_ranges": given["command_ranges"],
        },
        notes={"asked": ", ".join(sorted(wanted)), "run_path": data.get("run_path", "")},
    )


def cross_check(draft: Draft) -> None:
    """A description beside a network that describes itself: where they differ, one is wrong."""
    if draft.network.suffix != ".onnx" or draft.network == draft.source:
        return
    data = network.metadata(draft.network)
    if "joint_names" not in data:
        return
    file = draft.network
    joints = _words(data, "joint_names", file)
    if list(draft.joints) != joints:
        raise Refusal(f"{draft.source}: joints: {_differ(draft.joints, joints)}; {file} says so")
    claims = draft.claims
    for field, ours, theirs in (
        ("default_position", claims["default_position"], _numbers(data, "default_joint_pos", file)),
        ("kp", claims["kp"], _numbers(data, "joint_stiffness", file)),
        ("kd", claims["kd"], _numbers(data, "joint_damping", file)),
        (
            "action.scale",
            claims["action"]["scale"],
            spread(action_scale(data, file), len(joints), f"{file}: action_scale"),
        ),
    ):
        for name, one, other in zip(joints, ours, theirs, strict=True):
            if abs(one - other) > 0.006 + 0.01 * abs(other):  # both files round, to 2 or 3 digits
                raise Refusal(
                    f"{draft.source}: {field}: {name} has {one:g}, but the network was trained "
                    f"with {other:g} (metadata of {file})"
                )
    groups = claims["observations"]
    told = [term["name"] for group in groups for term in group["terms"]]
    names = _words(data, "observation_names", file)
    theirs_ = [translate(name, TERMS, f"{file}: observation_names") for name in names]
    if told != theirs_:
        raise Refusal(f"{draft.source}: observations: {_differ(told, theirs_)}; {file} says so")


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


def _differ(ours: object, theirs: object) -> str:
    return f"{ours} stands where {theirs} must"
