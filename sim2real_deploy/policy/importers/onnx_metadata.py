"""mjlab and its relatives: an ONNX file that carries part of its contract as metadata.

The metadata has no rate, no observation scales and no command ranges. mjlab's own tasks run at
50 Hz and scale nothing: that is taken, said, and can be set.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import network
from sim2real_deploy.policy.importers.draft import Answers, Draft, Numbers, spread
from sim2real_deploy.policy.importers.vocabulary import translate

NAME = "mjlab ONNX metadata"
TERMS = {
    "joint_pos": "joint_pos_rel",  # their term joint_pos is their function joint_pos_rel
    "phase": "gait_phase",
}
RATE_HZ = 50.0
# unitree_rl_mjlab's clock: its period, and the command below which it is zero.
GAIT_PERIOD, STANDING_STILL = 0.6, 0.1
# Both files round, to one digit or more; where 8 % apart, rounding is not the reason.
LARGEST_SHARE, LARGEST_ANGLE = 0.08, 0.05


def recognises(file: Path) -> bool:
    return "observation_names" in network.metadata(file)


def read(file: Path, answers: Answers) -> Draft:
    data = network.metadata(file)
    joints = _words(data, "joint_names", file)
    names = _words(data, "observation_names", file)
    if _words(data, "command_names", file) == ["motion"]:
        raise Refusal(
            f"{file}: command_names: 'motion' is a recorded motion to follow; only policies that "
            "follow a velocity can be run"
        )
    ours = [translate(name, TERMS, f"{file}: observation_names") for name in names]
    scales = answers.optional("scales", {})
    unknown = sorted(scales.keys() - set(names)) if isinstance(scales, dict) else []
    if unknown:
        raise Refusal(f"--set scales.{unknown[0]}: there is no such observation in {file}")
    assumed = [
        f"{key} (--set {how})"
        for key, how in (
            (f"{RATE_HZ:g} Hz, as mjlab's tasks run", "rate_hz=..."),
            ("no observation is scaled, as in mjlab's tasks", "scales='{joint_vel: 0.05}'"),
        )
        if not answers.has(how.partition("=")[0])
    ]
    terms = [_row(name, our, scales, file, answers) for name, our in zip(names, ours, strict=True)]
    default = _numbers(data, "default_joint_pos", file)
    return Draft(
        source=file,
        network=answers.network or file,
        joints=joints,
        claims={
            "rate_hz": answers.optional("rate_hz", RATE_HZ),
            "default_position": default,
            "kp": _numbers(data, "joint_stiffness", file),
            "kd": _numbers(data, "joint_damping", file),
            "action": {
                "scale": spread(action_scale(data, file), len(joints), f"{file}: action_scale"),
                "offset": default,
                "observed": "raw",
            },
            "observations": [{"input": "", "terms": terms}],
            "command_ranges": answers.ranges(assumed),
        },
        notes={"run_path": data.get("run_path", "")},
        assumed=assumed,
    )


def _row(name: str, ours: str, scales: Any, file: Path, answers: Answers) -> dict[str, Any]:
    row: dict[str, Any] = {"name": ours}
    scale = scales.get(name) if isinstance(scales, dict) else scales
    if scale is not None:
        row["scale"] = scale
    if ours == "gait_phase":
        period = answers.optional("gait_period", GAIT_PERIOD)
        row["params"] = {"period": period, "zero_below": STANDING_STILL}
    if ours == "height_scan":
        row["params"] = answers.require(
            file,
            {"height_scan": "'{count: 187, flat: 0.3}': how many, and the value of flat ground"},
        )["height_scan"]
    return row


def cross_check(draft: Draft) -> bool:
    """A description beside a network that describes itself: where they differ, one is wrong.

    A person may say which: `draft.trusted`. True if the network's figures were put into the draft.
    """
    if draft.network.suffix != ".onnx" or draft.network == draft.source:
        return False
    data = network.metadata(draft.network)
    if "joint_names" not in data:
        return False
    file = draft.network
    joints = _words(data, "joint_names", file)
    if list(draft.joints) != joints:
        raise Refusal(f"{draft.source}: joints: {_differ(draft.joints, joints)}; {file} says so")
    claims, changed = draft.claims, False
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
            most = LARGEST_ANGLE if field == "default_position" else LARGEST_SHARE * abs(other)
            if abs(one - other) > min(_rounding(one) + _rounding(other), most) + 1e-9:
                if draft.trusted == "network":
                    part = claims["action"] if field == "action.scale" else claims
                    part[field.removeprefix("action.")] = list(theirs)
                    changed = True
                elif draft.trusted != "file":
                    raise Refusal(
                        f"{draft.source}: {field}: {name} has {one:g}, but the network was trained "
                        f"with {other:g} (metadata of {file}). Say which is right: "
                        "--set trust=network or --set trust=file"
                    )
    groups = claims["observations"]
    told = [term["name"] for group in groups for term in group["terms"]]
    names = _words(data, "observation_names", file)
    theirs_ = [translate(name, TERMS, f"{file}: observation_names") for name in names]
    if told != theirs_:
        raise Refusal(f"{draft.source}: observations: {_differ(told, theirs_)}; {file} says so")
    return changed


def _rounding(value: float) -> float:
    """By how much the number may be off, from the digits it is written with."""
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
    return f"{list(ours)} stands where {list(theirs)} must"
