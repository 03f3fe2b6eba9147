"""A user's ROS parameter file may tune what nodes publish, but not what may move or who watches:
those are arguments of the bring-up, where they are checked and recorded.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal

NOT_FROM_FILES = frozenset(
    (
        *("supervised", "real", "recorded", "clock", "foreign_simulator", "stage", "policy"),
        *("robot", "interface", "domain", "runs", "last_run", "ungated", "dead_man"),
        *("odom_source", "settings"),
    )
)


def check_params_file(path: str) -> None:
    """Refuse a file that sets what only a bring-up's own arguments may."""
    for node, name in _parameters(configfile.read_yaml(Path(path)), ""):
        if name in NOT_FROM_FILES:
            raise Refusal(
                f"params_file {path}: {node}: '{name}' cannot be set from a file: it decides what "
                "may move, or who watches; give it as an argument of the bring-up instead"
            )


def _parameters(content: Any, node: str) -> Iterator[tuple[str, str]]:
    """Every (node, parameter) of a file, however deep its namespaces are nested."""
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if key == "ros__parameters" and isinstance(value, dict):
            yield from ((node or "/", str(name)) for name in value)
        else:
            yield from _parameters(value, str(key))
