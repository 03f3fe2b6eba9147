"""legged_gym and unitree_rl_gym: the yaml of deploy_real (or deploy_mujoco) and a TorchScript file.

Joints are motor numbers; those of arms and waist are held. The order of the observations is the
same for all: it stands in unitree_rl_gym's deploy scripts, not in the file.
"""

from pathlib import Path
from typing import Any

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import foreign_yaml
from sim2real_deploy.policy.importers.draft import (
    RANGES_HINT,
    Answers,
    Draft,
    Foreign,
    Held,
    Numbers,
    find_network,
    spread,
)

NAME = "legged_gym deploy yaml"
GAIT_PERIOD = 0.8  # s, of unitree_rl_gym's deploy scripts


class _Gym(Foreign):
    control_dt: float | None = Field(default=None, gt=0)
    simulation_dt: float | None = Field(default=None, gt=0)
    control_decimation: int | None = Field(default=None, gt=0)
    policy_path: str = ""
    leg_joint2motor_idx: tuple[int, ...] = ()
    arm_waist_joint2motor_idx: tuple[int, ...] = ()
    arm_waist_kps: tuple[float, ...] = ()
    arm_waist_kds: tuple[float, ...] = ()
    arm_waist_target: tuple[float, ...] = ()
    imu_type: str = "pelvis"
    kps: tuple[float, ...]
    kds: tuple[float, ...]
    default_angles: tuple[float, ...]
    ang_vel_scale: float
    dof_pos_scale: float
    dof_vel_scale: float
    action_scale: Numbers
    cmd_scale: tuple[float, float, float]
    max_cmd: tuple[float, float, float] | None = None
    num_actions: int = Field(gt=0)
    num_obs: int = Field(gt=0)


def find(source: Path) -> Path | None:
    files = [source] if source.is_file() else sorted(source.glob("*.yaml"))
    for file in files:
        if file.suffix in (".yaml", ".yml"):
            content = foreign_yaml.read(file)
            if isinstance(content, dict) and {"default_angles", "cmd_scale"} <= content.keys():
                return file
    return None


def read(file: Path, answers: Answers) -> Draft:
    gym = configfile.parse(foreign_yaml.read(file), _Gym, str(file))
    if gym.imu_type != "pelvis":
        raise Refusal(f"{file}: imu_type: '{gym.imu_type}': only an IMU in the base can be run")
    count = gym.num_actions
    wanted = {}
    if not gym.leg_joint2motor_idx:
        wanted["joints"] = "the policy's joints in its order: names, or motor numbers"
    if gym.max_cmd is None:
        wanted["command_ranges"] = RANGES_HINT
    if gym.control_dt is None and (gym.simulation_dt is None or gym.control_decimation is None):
        wanted["rate_hz"] = "how often the policy runs"
    given = answers.require(file, wanted)
    ranges = given.get("command_ranges") or _symmetric(gym.max_cmd)
    joints = given.get("joints") or gym.leg_joint2motor_idx
    default = spread(gym.default_angles, count, f"{file}: default_angles")
    path = Path(gym.policy_path).name
    return Draft(
        source=file,
        network=find_network(file, answers, *([path] if path else []), "policy.pt", "policy.onnx"),
        joints=joints,
        held=_held(gym, file),
        claims={
            "rate_hz": given.get("rate_hz") or 1 / _time_step(gym),
            "default_position": default,
            "kp": spread(gym.kps, count, f"{file}: kps"),
            "kd": spread(gym.kds, count, f"{file}: kds"),
            "action": {
                "scale": spread(gym.action_scale, count, f"{file}: action_scale"),
                "offset": default,
                "observed": "raw",
            },
            "observations": [{"input": "", "terms": _terms(gym, answers, file)}],
            "command_ranges": ranges,
        },
    )


def _terms(gym: _Gym, answers: Answers, file: Path) -> list[dict[str, Any]]:
    terms: list[dict[str, Any]] = [
        {"name": "base_ang_vel", "scale": gym.ang_vel_scale},
        {"name": "projected_gravity"},
        {"name": "velocity_command", "scale": gym.cmd_scale},
        {"name": "joint_pos_rel", "scale": gym.dof_pos_scale},
        {"name": "joint_vel", "scale": gym.dof_vel_scale},
        {"name": "last_action"},
    ]
    plain = 9 + 3 * gym.num_actions
    if gym.num_obs == plain + 2:
        period = answers.optional("gait_period", GAIT_PERIOD)
        terms.append({"name": "gait_phase", "params": {"period": period}})
    elif gym.num_obs != plain:
        raise Refusal(
            f"{file}: num_obs: {gym.num_obs} is neither {plain} nor, with a gait phase, {plain + 2}"
        )
    return terms


def _held(gym: _Gym, file: Path) -> list[Held]:
    joints = gym.arm_waist_joint2motor_idx
    rows = (
        spread(gym.arm_waist_target, len(joints), f"{file}: arm_waist_target"),
        spread(gym.arm_waist_kps, len(joints), f"{file}: arm_waist_kps"),
        spread(gym.arm_waist_kds, len(joints), f"{file}: arm_waist_kds"),
    )
    return [Held(joint, *row) for joint, *row in zip(joints, *rows, strict=True)]


def _time_step(gym: _Gym) -> float:
    return gym.control_dt or (gym.simulation_dt or 0.0) * (gym.control_decimation or 0)


def _symmetric(most: tuple[float, float, float] | None) -> dict[str, tuple[float, float]]:
    return dict(zip(("vx", "vy", "wz"), ((-limit, limit) for limit in most or ()), strict=True))
