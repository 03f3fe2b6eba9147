"""rl_sar: base.yaml of the robot and config.yaml of the policy, each under a key of its own.

`joint_mapping` leads from the policy's joints to base.yaml's names. Everything is scaled, then
clipped alike; history starts as zeros, and its number 0 is the newest.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import foreign_yaml
from sim2real_deploy.policy.importers.draft import (
    Answers,
    Draft,
    Foreign,
    find_network,
    first_file,
    spread,
    translate,
)

NAME = "rl_sar base.yaml + config.yaml"
TERMS = {
    "ang_vel": "base_ang_vel",
    "gravity_vec": "projected_gravity",
    "commands": "velocity_command",
    "dof_pos": "joint_pos_rel",
    "dof_vel": "joint_vel",
    "actions": "last_action",
}
# Not in its files: rl_sar feeds the sticks of a gamepad, -1 to 1, as they are.
STICKS = {"vx": (-1.0, 1.0), "vy": (-1.0, 1.0), "wz": (-1.0, 1.0)}


class _Base(Foreign):
    dt: float = Field(gt=0)
    decimation: int = Field(gt=0)
    joint_names: tuple[str, ...]


class _Config(Foreign):
    model_name: str
    observations: tuple[str, ...] = Field(min_length=1)
    observations_history: tuple[int, ...] = ()
    observations_history_priority: Literal["time", "term"] = "time"
    clip_obs: float = Field(gt=0)
    clip_actions_lower: tuple[float, ...] = ()
    clip_actions_upper: tuple[float, ...] = ()
    rl_kp: tuple[float, ...]
    rl_kd: tuple[float, ...]
    action_scale: tuple[float, ...]
    wheel_indices: tuple[int, ...] = ()
    ang_vel_scale: float
    dof_pos_scale: float
    dof_vel_scale: float
    commands_scale: tuple[float, float, float]
    default_dof_pos: tuple[float, ...]
    joint_mapping: tuple[int, ...] = Field(min_length=1)


def find(source: Path) -> Path | None:
    file = first_file(source, "config.yaml")
    return file if file is not None and _base_file(file) is not None else None


def read(file: Path, answers: Answers) -> Draft:
    base_file = _base_file(file)
    assert base_file is not None  # `find` looked
    robot, base = _only_entry(base_file, _Base)
    title, config = _only_entry(file, _Config)
    if config.wheel_indices:
        raise Refusal(f"{file}: wheel_indices: a robot on wheels cannot be run")
    if Path(config.model_name).name != config.model_name:
        raise Refusal(f"{file}: model_name: '{config.model_name}' is not a file beside it")
    count = len(config.joint_mapping)
    if sorted(config.joint_mapping) != list(range(len(base.joint_names))):
        raise Refusal(
            f"{file}: joint_mapping: must name each of the {len(base.joint_names)} joints of "
            f"{base_file} once"
        )
    clip = None
    if config.clip_actions_lower and config.clip_actions_upper:
        low = spread(config.clip_actions_lower, count, f"{file}: clip_actions_lower")
        high = spread(config.clip_actions_upper, count, f"{file}: clip_actions_upper")
        clip = list(zip(low, high, strict=True))
    default = spread(config.default_dof_pos, count, f"{file}: default_dof_pos")
    ranges = answers.optional("command_ranges", STICKS)
    return Draft(
        source=file,
        network=find_network(file, answers, config.model_name),
        joints=[base.joint_names[index] for index in config.joint_mapping],
        claims={
            "rate_hz": 1 / (base.dt * base.decimation),
            "default_position": default,
            "kp": spread(config.rl_kp, count, f"{file}: rl_kp"),
            "kd": spread(config.rl_kd, count, f"{file}: rl_kd"),
            "action": {
                "scale": spread(config.action_scale, count, f"{file}: action_scale"),
                "offset": default,
                "clip": clip,
                "observed": "clipped" if clip else "raw",
            },
            "observations": [_group(config, file)],
            "command_ranges": ranges,
        },
        robot=robot.split("/")[0],
        notes={
            "command_ranges": "asked" if ranges is not STICKS else "rl_sar's sticks",
            "key": title,
        },
    )


def _group(config: _Config, file: Path) -> dict[str, Any]:
    history = config.observations_history or (0,)
    length = len(history)
    newest_first = history == tuple(range(length))
    if not newest_first and history != tuple(reversed(range(length))):
        raise Refusal(
            f"{file}: observations_history: {list(history)} leaves steps out; only 0 to n, "
            "or back, can be run"
        )
    scales: dict[str, Any] = {
        "ang_vel": config.ang_vel_scale,
        "commands": config.commands_scale,
        "dof_pos": config.dof_pos_scale,
        "dof_vel": config.dof_vel_scale,
    }
    terms = [
        {
            "name": translate(name, TERMS, f"{file}: observations"),
            "scale": scales.get(name, 1.0),
            "clip": (-config.clip_obs, config.clip_obs),
            "history": length,
        }
        for name in config.observations
    ]
    return {
        "input": "",
        "terms": terms,
        "clip_first": False,
        "layout": "by_frame" if config.observations_history_priority == "time" else "by_term",
        "newest": "first" if newest_first else "last",
        "start": "zeros",
    }


def _base_file(config: Path) -> Path | None:
    """base.yaml lies beside the policy's file, or above it as in rl_sar's own tree."""
    folders = (config.parent, *config.absolute().parents[1:4])
    return next(
        (folder / "base.yaml" for folder in folders if (folder / "base.yaml").is_file()), None
    )


def _only_entry(file: Path, model: type[Any]) -> tuple[str, Any]:
    content = foreign_yaml.read(file)
    if not isinstance(content, dict) or len(content) != 1:
        raise Refusal(f"{file}: one key with everything below it was expected")
    ((title, below),) = content.items()
    return str(title), configfile.parse(below, model, f"{file}: {title}")
