"""holosoma: an ONNX file with gains, joint names and command ranges as JSON in its metadata.

The rest is defined in holosoma's own configuration for locomotion: 50 Hz, actions times 0.25, terms
in alphabetical order with fixed scales, and a gait clock for two feet that rests at half a cycle.
Its default pose is one of the poses in the robot's file.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import network
from sim2real_deploy.policy.importers.draft import Answers, Draft, Foreign, Range
from sim2real_deploy.policy.importers.robots import known_robots

NAME = "holosoma ONNX metadata"
RATE_HZ, ACTION_SCALE, GAIT_PERIOD, STANDING_STILL = 50.0, 0.25, 1.0, 0.01
POSE = "holosoma"
CLOCK = {"period": GAIT_PERIOD, "offsets": (0.0, 0.5), "zero_below": STANDING_STILL}
TERMS: tuple[dict[str, Any], ...] = (
    {"name": "last_action"},
    {"name": "base_ang_vel", "scale": 0.25},
    {"name": "velocity_command_part", "params": {"axes": (2,)}},
    {"name": "velocity_command_part", "params": {"axes": (0, 1)}},
    {"name": "gait_phase", "params": {**CLOCK, "part": "cos", "standing": (-1.0, -1.0)}},
    {"name": "joint_pos_rel"},
    {"name": "joint_vel", "scale": 0.05},
    {"name": "projected_gravity"},
    {"name": "gait_phase", "params": {**CLOCK, "part": "sin", "standing": (0.0, 0.0)}},
)


def recognises(file: Path) -> bool:
    return {"dof_names", "kp", "kd"} <= network.metadata(file).keys()


class _Ranges(Foreign):
    lin_vel_x: Range
    lin_vel_y: Range
    ang_vel_yaw: Range


class _Metadata(Foreign):
    dof_names: tuple[str, ...]
    kp: tuple[float, ...]
    kd: tuple[float, ...]
    command_ranges: _Ranges | None = None


def read(file: Path, answers: Answers) -> Draft:
    data = network.metadata(file)
    content = {key: _json(data[key], key, file) for key in _Metadata.model_fields if key in data}
    told = configfile.parse(content, _Metadata, f"{file}: metadata")
    ranges = told.command_ranges
    if ranges is None:
        raise Refusal(
            f"{file}: command_ranges: missing, so it follows a reference motion; only policies "
            "that follow a velocity command can be run"
        )
    default = _pose(told.dof_names, file, answers)
    scale = [ACTION_SCALE] * len(told.dof_names)
    return Draft(
        source=file,
        network=file,
        joints=told.dof_names,
        claims={
            "rate_hz": RATE_HZ,
            "default_position": default,
            "kp": told.kp,
            "kd": told.kd,
            "action": {"scale": scale, "offset": default, "observed": "raw"},
            "observations": [{"input": "", "terms": [dict(term) for term in TERMS]}],
            "command_ranges": {
                "vx": ranges.lin_vel_x,
                "vy": ranges.lin_vel_y,
                "wz": ranges.ang_vel_yaw,
            },
        },
        assumed=["rate, action scale, observations and pose of holosoma's locomotion task"],
    )


def _pose(joints: Sequence[str], file: Path, answers: Answers) -> list[float]:
    for spec in known_robots(answers.robot):
        if POSE in spec.poses and set(joints) == set(spec.joint_names):
            pose = dict(zip(spec.joint_names, spec.poses[POSE], strict=True))
            return [pose[name] for name in joints]
    hint = {"default_position": "rad, one for each joint in the network's order"}
    given: list[float] = answers.require(file, hint)["default_position"]
    return given


def _json(text: str, key: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{file}: metadata {key}: not JSON: {error}") from None
