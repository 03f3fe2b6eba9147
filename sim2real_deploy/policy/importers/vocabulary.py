"""Other projects' names of observation terms, and ours.

`NAMES` holds names with the same meaning in every project; a format's own table takes precedence.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.policy.terms import TERMS

NAMES: Mapping[str, str] = {
    "base_lin_vel": "base_lin_vel",
    "lin_vel": "base_lin_vel",
    "base_ang_vel": "base_ang_vel",
    "ang_vel": "base_ang_vel",
    "projected_gravity": "projected_gravity",
    "gravity_vec": "projected_gravity",
    "gravity_orientation": "projected_gravity",
    "velocity_command": "velocity_command",
    "velocity_commands": "velocity_command",
    "generated_commands": "velocity_command",
    "command": "velocity_command",
    "commands": "velocity_command",
    "joint_pos_rel": "joint_pos_rel",
    "dof_pos": "joint_pos_rel",
    "joint_vel_rel": "joint_vel",
    "joint_vel": "joint_vel",
    "dof_vel": "joint_vel",
    "last_action": "last_action",
    "actions": "last_action",
    "height_scan": "height_scan",
    "foot_contacts": "foot_contacts",
    "motion_command": "motion_command",
    "motion_joint_pos": "motion_joint_pos",
    "motion_joint_vel": "motion_joint_vel",
    "motion_anchor_ori_b": "motion_anchor_ori_b",
}
# A velocity command under whatever name its sender adds: joystick_velocity_commands, api_cmd_vel.
_VELOCITY = re.compile(r"(?:^|_)(?:velocity_commands?|cmd_vel)(?:_|$)")
# Each project's order of the usual terms, for files that do not contain it. In our names.
_GYRO, _GRAVITY, _COMMAND = "base_ang_vel", "projected_gravity", "velocity_command"
_JOINTS = ("joint_pos_rel", "joint_vel", "last_action")
TERM_ORDERS: Mapping[str, tuple[str, ...]] = {
    "unitree": (_GYRO, _GRAVITY, _COMMAND, *_JOINTS),  # unitree_rl_gym, unitree_rl_lab, robot_lab
    "himloco": (_COMMAND, _GYRO, _GRAVITY, *_JOINTS),
    "genesis": (_COMMAND, _GRAVITY, _GYRO, *_JOINTS),  # genesis_lr
    "mjlab": (_GYRO, _GRAVITY, *_JOINTS, _COMMAND),
}


def follows_motion(terms: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of these terms, in our names, is part of a reference motion."""
    return any(TERMS[term["name"]].motion for term in terms)


def translate(name: str, special: Mapping[str, str], where: str) -> str:
    """Our name for another project's observation term."""
    ours = special.get(name, NAMES.get(name))
    if ours is None and _VELOCITY.search(name):
        return "velocity_command"
    if ours is None:
        if name == "motion_anchor_pos_b":
            raise Refusal(
                f"{where}: '{name}' is the distance to the motion, for which the robot would have "
                "to know where in the world it is. Train without state estimation "
                "(whole_body_tracking: Tracking-Flat-G1-Wo-State-Estimation-v0)"
            )
        known = ", ".join(sorted({*special, *NAMES}))
        raise Refusal(
            f"{where}: observation '{name}' is not known here; known are: {known}. Where it is a "
            "command beyond the velocity, give the values it has until others are sent: "
            f"--set extra='{{{name}: [0.0]}}'. Where it is one of ours under another name, "
            "describe the policy in a policy.yaml: sim2real policy new"
        )
    return ours


def extra_command(name: str, answers: Answers) -> dict[str, Any] | None:
    """The term of a command beyond the velocity, if the user named it as one: `--set extra`."""
    given = answers.optional("extra", {})
    if not isinstance(given, dict) or not all(isinstance(v, list) for v in given.values()):
        raise Refusal(f"--set extra: must be '{{NAME: [numbers]}}', not {given!r}")
    if name not in given:
        return None
    return {"name": "extra_command", "params": {"name": name, "default": tuple(given[name])}}


def term_order(given: Any, where: str) -> tuple[str, ...]:
    """An order by its project's name, or as a list of our terms."""
    if isinstance(given, list):
        return tuple(translate(str(name), {}, where) for name in given)
    if given in TERM_ORDERS:
        return TERM_ORDERS[given]
    raise Refusal(
        f"{where}: '{given}' is neither a list of terms nor one of {', '.join(TERM_ORDERS)}"
    )
