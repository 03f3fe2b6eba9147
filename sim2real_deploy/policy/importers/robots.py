"""The robots that a policy may be for, and matching joints by patterns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim2real_deploy import paths
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec, load_robot


def all_robots() -> Iterator[RobotSpec]:
    """All robots in config/robots."""
    for file in sorted(paths.config_file("robots").glob("*.yaml")):
        yield load_robot(file.stem)


def known_robots(named: str = "") -> Iterator[RobotSpec]:
    """Candidates for a policy: the robot that was named, or all that are not `twin_only`.

    Quadrupeds of one vendor share joint names, so a file that names no robot would fit several.
    """
    if named:
        yield load_robot(named)
    else:
        yield from (spec for spec in all_robots() if not spec.twin_only)


def robot_called(path: Path, parts: int = 1) -> str:
    """The robot that a file is named after, or else one of the folders around it; empty if none.

    `parts` is how many names are looked at, the file's own first."""
    names = sorted((spec.name for spec in all_robots()), key=len, reverse=True)
    for part in list(reversed(path.parts))[:parts]:
        words = re.sub(r"[^a-z0-9]+", "_", f" {part.lower()} ")
        for name in names:
            if f"_{name}_" in words:
                return name
    return ""


def robot_of_folder(file: Path) -> str:
    """The robot in whose folder a file lies: `.../robots/b2/...`, `h1_2`, `unitree_b2_velocity`,
    `g1_29dof`; the nearest folder counts. Empty if none is named so."""
    names = sorted((spec.name for spec in all_robots()), key=len, reverse=True)
    for part in reversed(file.absolute().parent.parts):
        word = re.sub(r"[^a-z0-9]+", "_", part.lower())
        for name in names:
            if re.fullmatch(rf"(.*_)?unitree_{name}(_.*)?|{name}(_\d+dof)?", word):
                return name
    return ""


def same_on_both_sides(values: Mapping[str, float], spec: RobotSpec) -> bool:
    """Whether the joints of each pair of legs have the same values, by joint name; mirrored joints
    have opposite signs."""
    legs = [[abs(values.get(name, 0.0)) for name in leg.joints] for leg in spec.legs.values()]
    return legs[0::2] == legs[1::2]


def matching_joints(pattern: str, joints: Sequence[str], where: str) -> list[str]:
    """The joints whose names match a regular expression."""
    try:
        return [joint for joint in joints if re.fullmatch(pattern, joint)]
    except re.error as error:
        raise Refusal(f"{where}: '{pattern}' is no pattern: {error}") from None


def by_pattern(values: Any, joints: Sequence[str], where: str) -> list[float]:
    """One number per joint: the same for all, or by regular expressions of joint names."""
    if isinstance(values, int | float) and not isinstance(values, bool):
        return [float(values)] * len(joints)
    if not isinstance(values, Mapping):
        raise Refusal(f"{where}: a number, or numbers by joint name, was expected, not {values!r}")
    found: dict[str, float] = {}
    for pattern, value in values.items():
        matching = matching_joints(str(pattern), joints, where)
        if not matching:
            raise Refusal(f"{where}.{pattern}: matches no joint")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refusal(f"{where}.{pattern}: a number was expected, not {value!r}")
        found |= dict.fromkeys(matching, float(value))
    missing = [joint for joint in joints if joint not in found]
    if missing:
        raise Refusal(f"{where}: nothing for {', '.join(missing)}")
    return [found[joint] for joint in joints]
