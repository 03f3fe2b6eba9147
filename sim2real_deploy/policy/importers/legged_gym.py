"""legged_gym and its many forks: the YAML of deploy_real or deploy_mujoco beside a network.

Joints are motor numbers or names; those of arms and waist are held. The order of the observations
is in the deploy scripts, not in the file: it is assumed from the project that writes such files,
reported, and can be set with `--set terms=...`. So can the history.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.draft import (
    Answers,
    Draft,
    DraftHeldJoint,
    Foreign,
    Numbers,
    spread,
)
from sim2real_deploy.policy.importers.places import find_network
from sim2real_deploy.policy.importers.robots import all_robots, robot_called
from sim2real_deploy.policy.importers.vocabulary import TERM_ORDERS, term_order

NAME = "legged_gym deploy yaml"
RATE_HZ = 50.0  # of legged_gym's own tasks: 5 ms times a decimation of 4
GAIT_PERIOD = 0.8  # s, of unitree_rl_gym's deploy scripts
HIM_FRAMES = 6  # HIMLoco's history, the newest first
# The forks' names for each setting; the first is unitree_rl_gym's own.
WORDS: Mapping[str, tuple[str, ...]] = {
    "control_dt": ("control_dt", "step_dt", "policy_dt", "dt"),
    "policy_path": ("policy_path", "policy_name", "policy_file", "model_path", "model_name"),
    "default_angles": ("default_angles", "default_joint_pos", "default_dof_pos", "stand_pos"),
    "kps": ("kps", "kp_gains", "ctrl_kp", "policy_stiffness", "stiffness", "kp"),
    "kds": ("kds", "kd_gains", "ctrl_kd", "policy_damping", "damping", "kd"),
    "joints": (
        "leg_joint2motor_idx",
        "joint2motor_idx",
        "action_joint2motor_idx",
        "joint_ids_map",
        "policy_joint_names",
        "policy_joints",
        "model_joint_names",
        "joint_names",
    ),
    "arm_waist_joint2motor_idx": ("arm_waist_joint2motor_idx", "fixed_joint2motor_idx"),
    "arm_waist_kps": ("arm_waist_kps", "fixed_kps"),
    "arm_waist_kds": ("arm_waist_kds", "fixed_kds"),
    "arm_waist_target": ("arm_waist_target", "fixed_target"),
    "model_joints": ("mapping_joints",),
    "lin_vel_scale": ("lin_vel_scale", "obs_scales_lin_vel"),
    "ang_vel_scale": ("ang_vel_scale", "obs_scales_ang_vel"),
    "dof_pos_scale": ("dof_pos_scale", "obs_scales_dof_pos"),
    "dof_vel_scale": ("dof_vel_scale", "obs_scales_dof_vel"),
    "cmd_scale": ("cmd_scale", "commands_scale", "command_scale"),
    "num_obs": ("num_obs", "num_observations"),
    "frame": ("num_single_obs", "obs_size_single", "num_obs_current", "num_one_step_obs"),
    "frames": ("frame_stack", "history_length", "num_history", "obs_history_length"),
    "stacked": ("num_obs_encoder", "num_obs_history", "num_stacked_obs"),
}


class _Gym(Foreign):
    control_dt: float | None = Field(default=None, gt=0)
    simulation_dt: float | None = Field(default=None, gt=0)
    control_decimation: int | None = Field(default=None, gt=0)
    policy_path: str = ""
    xml_path: str = ""  # of the MuJoCo scene, in a folder named after the robot
    joints: tuple[int | str, ...] = ()
    arm_waist_joint2motor_idx: tuple[int, ...] = ()
    arm_waist_kps: tuple[float, ...] = ()
    arm_waist_kds: tuple[float, ...] = ()
    arm_waist_target: tuple[float, ...] = ()
    imu_type: str = "pelvis"
    kps: Numbers
    kds: Numbers
    default_angles: Numbers
    lin_vel_scale: float = 1.0
    ang_vel_scale: float
    dof_pos_scale: float
    dof_vel_scale: float
    action_scale: Numbers
    cmd_scale: tuple[float, float, float] | None = None
    clip_actions: float | None = Field(default=None, gt=0)
    model_joints: tuple[int, ...] = ()  # indices in the MuJoCo model's order
    max_cmd: tuple[float, float, float] | None = None
    num_obs: int | None = Field(default=None, gt=0)
    frame: int | None = Field(default=None, gt=0)
    frames: int | None = Field(default=None, gt=0)
    stacked: int | None = Field(default=None, gt=0)

    @property
    def num_actions(self) -> int:
        lists = (self.joints, self.model_joints, self.default_angles, self.kps)
        return next((len(values) for values in lists if isinstance(values, tuple) and values), 0)

    @property
    def names_joints(self) -> bool:
        """Whether joints are told by name: then the robot is the one that has them."""
        return any(isinstance(joint, str) for joint in self.joints)

    @property
    def rate_hz(self) -> float | None:
        if self.control_dt is not None:
            return 1 / self.control_dt
        if self.simulation_dt is None or self.control_decimation is None:
            return None
        return 1 / (self.simulation_dt * self.control_decimation)


def recognises(file: Path, content: Any) -> bool:
    if not isinstance(content, dict) or "action_scale" not in content:
        return False
    return all(content.keys() & set(WORDS[word]) for word in ("default_angles", "kps", "kds"))


def read(file: Path, content: Any, answers: Answers) -> Draft:
    gym = configfile.parse(_in_our_words(content), _Gym, str(file))
    count = gym.num_actions
    if gym.imu_type == "torso" and gym.arm_waist_joint2motor_idx:
        raise Refusal(
            f"{file}: imu_type: 'torso': only an IMU in the base can be run; for the twin alone, "
            "import the file of the same robot in deploy_mujoco"
        )
    found = find_network(file, answers.network, gym.policy_path)
    assumed: list[str] = []
    orders: dict[str, tuple[Any, ...]] = {}
    groups, others = _observations(gym, found, answers, file, assumed, orders)
    joints: Sequence[str | int] | str = gym.joints
    if not joints and gym.model_joints:
        joints = [f"gym.{place}" for place in gym.model_joints]
        assumed.append("mapping_joints refers to the joints of Unitree's MuJoCo models")
    if joints == tuple(range(count)):
        # Also where the deploy script renumbers them once more: walking tells.
        joints = answers.order("joints", (joints, "isaac"), orders)
    if not joints:
        joints = answers.order("joints", ("gym", "sdk", "isaac"), orders)
        if "joints" in orders:
            assumed.append("joints in the order of Unitree's MuJoCo models (--set joints=...)")
    rate = answers.optional("rate_hz", gym.rate_hz)
    if rate is None:
        rate = RATE_HZ
        assumed.append(f"{RATE_HZ:g} Hz, as legged_gym's tasks run (--set rate_hz=...)")
    default, kp, kd = (
        _in_policy_order(spread(values, count, f"{file}: {field}"), gym, file)
        for field, values in (
            ("default_angles", gym.default_angles),
            ("kps", gym.kps),
            ("kds", gym.kds),
        )
    )
    return Draft(
        source=file,
        network=found,
        joints=joints,
        robot=_robot(gym, assumed),
        named_after=robot_called(Path(file.stem)),
        held=_held(gym, file),
        hold_rest=isinstance(joints, str),
        claims={
            "rate_hz": rate,
            "default_position": default,
            "kp": kp,
            "kd": kd,
            "action": {
                "scale": spread(gym.action_scale, count, f"{file}: action_scale"),
                "offset": default,
                "clip": None
                if gym.clip_actions is None
                else [(-gym.clip_actions, gym.clip_actions)] * count,
                "observed": "raw" if gym.clip_actions is None else "clipped",
            },
            "observations": groups,
            "command_ranges": _ranges(gym, answers, assumed),
        },
        other_observations=others,
        open_orders=orders,
        assumed=assumed,
        values_in="sdk" if _numbered(joints) else "gym",
    )


def _robot(gym: _Gym, assumed: list[str]) -> str | None:
    """The robot whose model the file simulates, if we know it."""
    folders = {
        re.sub(r"_(description|mjcf|\d+dof)$", "", part) for part in Path(gym.xml_path).parts
    }
    named = next((spec.name for spec in all_robots() if spec.name in folders), None)
    named = named or robot_called(Path(gym.xml_path), parts=2) or None
    if named is None and gym.xml_path and not gym.names_joints:
        assumed.append(f"the robot: '{gym.xml_path}' is of none that is known here (--robot ...)")
    return named


def _numbered(joints: Sequence[str | int] | str) -> bool:
    return not isinstance(joints, str) and all(isinstance(joint, int) for joint in joints)


def _in_policy_order(values: list[float], gym: _Gym, file: Path) -> list[float]:
    """With `mapping_joints`, lists are in the order of the MuJoCo model."""
    if gym.joints or not gym.model_joints:
        return values
    if sorted(gym.model_joints) != list(range(len(values))):
        raise Refusal(f"{file}: mapping_joints: must name each of {len(values)} joints once")
    return [values[place] for place in gym.model_joints]


def _in_our_words(content: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(content)
    scales = content.get("obs_scales")
    if isinstance(scales, dict):
        told |= {f"obs_scales_{name}": value for name, value in scales.items()}
    for ours, theirs in WORDS.items():
        told[ours] = next((told[word] for word in theirs if told.get(word) is not None), None)
    return {key: value for key, value in told.items() if value is not None}


def _observations(
    gym: _Gym,
    found: Path,
    answers: Answers,
    file: Path,
    assumed: list[str],
    orders: dict[str, tuple[Any, ...]],
) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """The network's inputs, and other forms that they may have: newest frame and history as two
    inputs, or the newest frame alone. Only the network can tell which one it is.

    The size of a frame and the number of frames come from the file or the network."""
    plain = 9 + 3 * gym.num_actions
    seen = answers.input_size(found) or gym.stacked or gym.num_obs
    # With a history, num_obs may be the size of all frames together.
    one = gym.frames in (None, 1) or gym.num_obs in (plain, plain + 2, plain + 3)
    frame = gym.frame or (gym.num_obs if one else None) or plain
    if seen is not None and seen % frame and seen % plain == 0:
        frame = plain
    frames = answers.optional("frames", gym.frames)
    if frames is None:
        frames = seen // frame if seen is not None and seen % frame == 0 else 1
    if isinstance(frames, bool) or not isinstance(frames, int) or frames < 1:
        raise Refusal(f"--set frames: must be the number of frames in the history, not {frames!r}")
    if gym.frames is None and frame == frames * plain:
        frame = plain
    him = frame == plain and frames == HIM_FRAMES
    order = _order(gym, frame, him, answers, file, orders)
    if "terms" in orders:
        assumed.append(f"observations in {orders['terms'][0]}'s order (--set terms=...)")
    terms = [_term(name, gym, answers) for name in order]
    alone = [{"input": "", "terms": terms}]
    if frames == 1:
        return alone, []
    newest = answers.order("newest", ("first", "last") if him else ("last", "first"), orders)
    if "newest" in orders:
        assumed.append(f"in the history, the newest comes {newest} (--set newest=first or last)")
    layout = answers.order("layout", ("by_frame", "by_term"), orders)
    if "layout" in orders:
        assumed.append("history frame by frame (--set layout=by_term: each term's together)")
    stacked = {
        "input": "",
        "terms": [{**term, "history": frames} for term in terms],
        "layout": layout,
        "newest": newest,
        "start": "zeros",
    }
    apart = [{"input": "obs", "terms": terms}, {**stacked, "input": "obs1"}]
    return [stacked], [apart, alone]


def _order(
    gym: _Gym,
    frame: int,
    him: bool,
    answers: Answers,
    file: Path,
    orders: dict[str, tuple[Any, ...]],
) -> tuple[str, ...]:
    """The terms of one frame: the usual ones, in an order defined only by the deploy script."""
    plain = 9 + 3 * gym.num_actions
    before = ("base_lin_vel",) if frame == plain + 3 else ()
    after = ("gait_phase",) if frame == plain + 2 else ()
    if frame not in (plain, plain + 2, plain + 3):
        hint = (
            f"what the {frame} numbers of one frame are, in order: a list such as [base_lin_vel, "
            "base_ang_vel, projected_gravity, velocity_command, joint_pos_rel, joint_vel, "
            "last_action, foot_contacts]; if terms need parameters (a gait clock, extra "
            "commands) write a policy.yaml instead: sim2real policy new"
        )
        return term_order(answers.require(file, {"terms": hint})["terms"], "--set terms")
    # Files with `frame_stack`, or with six frames, come from projects with an order of their own.
    first = "himloco" if him else "genesis" if gym.frames and gym.frame and not gym.num_obs else ""
    first = first or "unitree"
    told = answers.order("terms", (first, *(n for n in TERM_ORDERS if n != first)), orders)
    terms = term_order(told, "--set terms")
    return terms if isinstance(told, list) else (*before, *terms, *after)


def _term(name: str, gym: _Gym, answers: Answers) -> dict[str, Any]:
    scales: dict[str, Any] = {
        "base_lin_vel": gym.lin_vel_scale,
        "base_ang_vel": gym.ang_vel_scale,
        "velocity_command": gym.cmd_scale
        or (gym.lin_vel_scale, gym.lin_vel_scale, gym.ang_vel_scale),
        "joint_pos_rel": gym.dof_pos_scale,
        "joint_vel": gym.dof_vel_scale,
    }
    row: dict[str, Any] = {"name": name, "scale": scales.get(name, 1.0)}
    if name == "gait_phase":
        row["params"] = {"period": answers.optional("gait_period", GAIT_PERIOD)}
    return row


def _held(gym: _Gym, file: Path) -> list[DraftHeldJoint]:
    joints = gym.arm_waist_joint2motor_idx
    rows = (
        spread(gym.arm_waist_target, len(joints), f"{file}: arm_waist_target"),
        spread(gym.arm_waist_kps, len(joints), f"{file}: arm_waist_kps"),
        spread(gym.arm_waist_kds, len(joints), f"{file}: arm_waist_kds"),
    )
    return [DraftHeldJoint(joint, *row) for joint, *row in zip(joints, *rows, strict=True)]


def _ranges(gym: _Gym, answers: Answers, assumed: list[str]) -> Any:
    if gym.max_cmd is not None:
        axes = zip(("vx", "vy", "wz"), gym.max_cmd, strict=True)
        return answers.optional("command_ranges", {name: (-most, most) for name, most in axes})
    return answers.ranges(assumed)
