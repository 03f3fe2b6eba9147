"""rl_sar: the policy's config.yaml, with the robot's base.yaml or, in the older form, alone.

`joint_mapping` maps the policy's joints to base.yaml's names. Everything is scaled, then clipped;
history starts as zeros, and entry 0 is the newest. The older form has a key `framework` and the
joints in the same file. quadruped_ros2_control, which still uses it, reads the history in reverse;
what other readers of that form do must be tried in the twin.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import foreign_yaml
from sim2real_deploy.policy.importers.draft import Answers, Draft, Foreign, Numbers, spread
from sim2real_deploy.policy.importers.motions import STANDS_STILL, beside
from sim2real_deploy.policy.importers.places import find_network
from sim2real_deploy.policy.importers.robots import all_robots, robot_called
from sim2real_deploy.policy.importers.vocabulary import follows_motion, translate

NAME = "rl_sar config.yaml"
# Not in its files: rl_sar uses a gamepad's sticks, -1 to 1, unscaled.
STICKS = {"vx": (-1.0, 1.0), "vy": (-1.0, 1.0), "wz": (-1.0, 1.0)}
# The gait clock of unitree_rl_gym's humanoids, as named in forks of rl_sar.
CLOCKS = {"g1_phase": "gait_phase", "gait_phase": "gait_phase", "phase": "gait_phase"}
# Older files name the frame in which the angular velocity is measured; what the network sees is
# always that of the base.
RATES = {"ang_vel_body": "base_ang_vel", "ang_vel_world": "base_ang_vel"}
TERMS = {**CLOCKS, **RATES}
GAIT_PERIOD = 0.8  # s
TRACKING = "whole_body_tracking/"  # before the names of its terms
CONTROLLER = "robot_control.yaml"  # where quadruped_ros2_control lists the joints


class _Config(Foreign):
    model_name: str
    observations: tuple[str, ...] = Field(min_length=1)
    observations_history: tuple[int, ...] | None = None
    observations_history_priority: Literal["time", "term"] = "time"
    clip_obs: float | None = Field(default=None, gt=0)
    clip_actions_lower: tuple[float, ...] | None = None
    clip_actions_upper: tuple[float, ...] | None = None
    rl_kp: Numbers
    rl_kd: Numbers
    action_scale: Numbers
    hip_scale_reduction: float = 1.0
    hip_scale_reduction_indices: tuple[int, ...] = ()
    wheel_indices: tuple[int, ...] | None = None
    lin_vel_scale: float = 1.0
    ang_vel_scale: float
    dof_pos_scale: float
    dof_vel_scale: float
    commands_scale: tuple[float, float, float]
    framework: str = ""  # only in the older form
    dt: float | None = None
    decimation: int | None = None
    joint_names: tuple[str, ...] | None = None
    joint_controller_names: tuple[str, ...] | None = None  # FR_hip_controller for FR_hip_joint
    default_dof_pos: tuple[float, ...] | None = None
    joint_mapping: tuple[int, ...] | None = None


class _Controller(Foreign):
    """Of quadruped_ros2_control."""

    update_rate: float = Field(gt=0)
    joints: tuple[str, ...]
    stand_pos: tuple[float, ...]


def recognises(file: Path, content: Any) -> bool:
    return "rl_kp" in _below(content)[1]


def read(file: Path, content: Any, answers: Answers) -> Draft:
    title, told = _below(content)
    base_file, base = _base(file)
    controller = _controller(file)
    merged = {**controller, **base, **{key: v for key, v in told.items() if v is not None}}
    config = configfile.parse(merged, _Config, f"{file}: {title}" if title else str(file))
    names = _joints(config, base_file, file)
    count = len(names or (config.rl_kp if isinstance(config.rl_kp, tuple) else ()))
    orders: dict[str, tuple[Any, ...]] = {}
    group = _group(config, file, bool(controller), answers, orders)
    network = find_network(file, answers.network, config.model_name)
    follows = follows_motion(group["terms"])
    wanted = {}
    if names is None:
        wanted["joints"] = "the policy's joints in its order: names, or sdk, gym or isaac"
    if config.default_dof_pos is None:
        wanted["default_position"] = "rad, one for each joint in the policy's order"
    if config.decimation is None or config.dt is None:
        wanted["rate_hz"] = "how often the policy runs"
    given = answers.require(file, wanted) if wanted else {}
    default = spread(
        config.default_dof_pos or given.get("default_position", ()),
        count,
        f"{file}: default_dof_pos",
    )
    scale = spread(config.action_scale, count, f"{file}: action_scale")
    for index in config.hip_scale_reduction_indices:
        scale[index] *= config.hip_scale_reduction
    clip = _clip(config, count, file)
    ranges = STANDS_STILL if follows else answers.optional("command_ranges", STICKS)
    assumed = (
        [] if ranges is not STICKS else ["commands from -1 to 1, as rl_sar's sticks give them"]
    )
    rate_hz = given.get("rate_hz") or 1 / ((config.dt or 0) * (config.decimation or 0))
    joints: Any = names or given["joints"]
    if controller and names is not None:
        joints = answers.order("joints", (names, "sdk", "gym", "isaac"), orders)
        assumed.append(f"joints and stance from {CONTROLLER} of quadruped_ros2_control")
    return Draft(
        source=file,
        network=network,
        joints=joints,
        claims={
            "rate_hz": rate_hz,
            "default_position": default,
            "kp": spread(config.rl_kp, count, f"{file}: rl_kp"),
            "kd": spread(config.rl_kd, count, f"{file}: rl_kd"),
            "action": {
                "scale": scale,
                "offset": default,
                "clip": clip,
                "observed": "clipped" if clip else "raw",
                "speeds": _wheels(config, names, file),
            },
            "observations": [group],
            "command_ranges": ranges,
        },
        robot=_robot(title, file, answers),
        hold_rest=True,
        # rl_sar plays one frame in each step. One of 60 Hz then comes too slowly: gangnam_style
        # falls in the twin, and does not at the rate in its file's name.
        motion=beside(file, answers, rate_hz) if follows else None,
        notes={
            "command_ranges": "asked" if ranges is not STICKS else "rl_sar's sticks",
            "key": title,
        },
        assumed=assumed,
        open_orders=orders,
    )


def _robot(title: str, file: Path, answers: Answers) -> str | None:
    """The robot in a title such as `g1_23/robomimic`; a variant with fewer motors is the full robot
    with the rest held."""
    if "/" not in title or answers.robot:
        return None
    named = title.split("/")[0]
    known = [spec.name for spec in all_robots()]
    found = next((name for name in known if f"{named}_".startswith(f"{name}_")), "")
    found = found or robot_called(Path(named))
    if not found:
        raise Refusal(
            f"{file}: {title}: no robot '{named}' is known here, only {', '.join(known)}; if it is "
            "one of these, say which: --robot NAME"
        )
    return found


def _joints(config: _Config, base_file: Path | None, file: Path) -> list[str] | None:
    names = config.joint_names
    if names is None and config.joint_controller_names is not None:
        names = tuple(
            name.replace("_controller", "_joint") for name in config.joint_controller_names
        )
    if names is None or config.joint_mapping is None:
        return list(names) if names else None
    places = set(config.joint_mapping)
    if (
        not places
        or len(places) != len(config.joint_mapping)
        or not places <= set(range(len(names)))
    ):
        raise Refusal(
            f"{file}: joint_mapping: must name joints of {base_file or file}, 0 to "
            f"{len(names) - 1}, each at most once"
        )
    return [names[index] for index in config.joint_mapping]


def _wheels(config: _Config, names: list[str] | None, file: Path) -> list[str]:
    """The joints whose action is a velocity, by their places in the policy's order."""
    places = config.wheel_indices or ()
    if places and (names is None or not all(0 <= place < len(names) for place in places)):
        raise Refusal(f"{file}: wheel_indices: {list(places)} are not places among the joints")
    return [(names or [])[place] for place in places]


def _clip(config: _Config, count: int, file: Path) -> list[tuple[float, float]] | None:
    if not config.clip_actions_lower or not config.clip_actions_upper:
        return None
    low = spread(config.clip_actions_lower, count, f"{file}: clip_actions_lower")
    high = spread(config.clip_actions_upper, count, f"{file}: clip_actions_upper")
    return list(zip(low, high, strict=True))


def _group(
    config: _Config,
    file: Path,
    from_the_back: bool,
    answers: Answers,
    orders: dict[str, tuple[Any, ...]],
) -> dict[str, Any]:
    history = config.observations_history or (0,)
    if from_the_back:
        history = history[::-1]
    length = len(history)
    newest_first = history == tuple(range(length))
    if not newest_first and history != tuple(reversed(range(length))):
        raise Refusal(
            f"{file}: observations_history: {list(history)} skips steps; only 0 to n, or the "
            "reverse, can be run"
        )
    newest = "first" if newest_first else "last"
    if config.framework and length > 1:
        other = "last" if newest_first else "first"
        newest = answers.order("newest", (newest, other), orders)
    scales: dict[str, Any] = {
        "lin_vel": config.lin_vel_scale,
        **dict.fromkeys(("ang_vel", *RATES), config.ang_vel_scale),
        "commands": config.commands_scale,
        "dof_pos": config.dof_pos_scale,
        "dof_vel": config.dof_vel_scale,
    }
    terms = [
        {
            "name": translate(name.removeprefix(TRACKING), TERMS, f"{file}: observations"),
            "scale": scales.get(name, 1.0),
            "clip": None if config.clip_obs is None else (-config.clip_obs, config.clip_obs),
            "history": length,
            **({"params": {"period": GAIT_PERIOD}} if name in CLOCKS else {}),
        }
        for name in config.observations
    ]
    return {
        "input": "",
        "terms": terms,
        "clip_first": False,
        "layout": "by_frame" if config.observations_history_priority == "time" else "by_term",
        "newest": newest,
        "start": "zeros",
    }


def _below(content: Any) -> tuple[str, dict[str, Any]]:
    """The settings, which may be below a single key."""
    if not isinstance(content, dict):
        return "", {}
    if len(content) == 1:
        ((title, below),) = content.items()
        return str(title), below if isinstance(below, dict) else {}
    return "", content


def _base(config: Path) -> tuple[Path | None, dict[str, Any]]:
    """base.yaml, beside the policy's file or above it, as in rl_sar's own tree."""
    for folder in (config.parent, *config.absolute().parents[1:4]):
        file = folder / "base.yaml"
        if file.is_file():
            below = _below(foreign_yaml.read(file))[1]
            wanted = ("dt", "decimation", "joint_names")
            return file, {key: below[key] for key in wanted if key in below}
    return None, {}


def _controller(config: Path) -> dict[str, Any]:
    """The settings that quadruped_ros2_control keeps in the parent folder."""
    file = config.absolute().parents[1] / CONTROLLER
    if not file.is_file():
        return {}
    content = foreign_yaml.read(file)
    below = content.get("rl_quadruped_controller") if isinstance(content, dict) else None
    if not isinstance(below, dict):
        return {}
    told = configfile.parse(below.get("ros__parameters"), _Controller, str(file))
    return {
        "dt": 1 / told.update_rate,
        "joint_names": told.joints,
        "default_dof_pos": told.stand_pos,
    }
