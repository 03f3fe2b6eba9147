"""How two policies differ, in their contracts and in their actions; joints by name."""

from collections import defaultdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sim2real_deploy.policy import record
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.contract import Contract

PER_JOINT = ("default_position", "kp", "kd")
PER_JOINT_ACTION = ("scale", "offset", "clip")
BULKY = ("golden", "sha256", "statistics")  # comparing the networks' actions tells more


def print_differences(one: Bundle, other: Bundle) -> int:
    """One line for each; returns 1 if there are any."""
    rows = differences(one, other)
    if not rows:
        print("Their contracts and actions are the same.")
        return 0
    table = Table()
    for title in ("field", one.contract.name, other.contract.name):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    return 1


def differences(one: Bundle, other: Bundle) -> list[tuple[str, str, str]]:
    found = record.differ(_by_name(one.contract), _by_name(other.contract))
    rows = _together([(key, str(a), str(b)) for key, a, b in found], len(one.contract.joints))
    actions = _actions(one, other)
    return [*rows, actions] if actions else rows


def _by_name(contract: Contract) -> dict[str, Any]:
    """The contract with joint names as keys, and lists of equal values as one value."""
    content = contract.model_dump(mode="json", exclude={*BULKY, "name"})
    joints = content["joints"]
    clip = content["action"]["clip"]
    content["action"]["clip"] = clip and [f"{low:g} to {high:g}" for low, high in clip]
    for part, keys in ((content, PER_JOINT), (content["action"], PER_JOINT_ACTION)):
        for key in keys:
            part[key] = part[key] and dict(zip(joints, part[key], strict=True))
    content["joints"] = ", ".join(joints)
    content["held"] = {held["joint"]: held for held in content["held"]}
    for group in content["observations"]:
        group["order"] = ", ".join(term["name"] for term in group["terms"])
        group["terms"] = {term.pop("name"): term for term in group["terms"]}
        for term in group["terms"].values():
            scale = term["scale"]
            if isinstance(scale, list) and len(set(scale)) == 1:
                term["scale"] = scale[0]
    return content


def _together(rows: list[tuple[str, str, str]], joints: int) -> list[tuple[str, str, str]]:
    """One line for a difference that is the same for all joints."""
    alike = defaultdict(list)
    for key, left, right in rows:
        alike[key.rpartition(".")[0], left, right].append(key)
    return [
        (f"{head} (all joints)" if len(keys) == joints else key, left, right)
        for (head, left, right), keys in alike.items()
        for key in (keys[:1] if len(keys) == joints else keys)
    ]


def _actions(one: Bundle, other: Bundle) -> tuple[str, str, str] | None:
    if one.model == other.model:
        return None
    left, right = one.open(), other.open()
    shapes = [{n: v.size for n, v in p.session.inputs.items()} for p in (left, right)]
    if shapes[0] != shapes[1] or left.action.size != right.action.size:
        return "inputs", str(shapes[0]), str(shapes[1])
    worst = 0.0
    for step in one.contract.golden:
        for policy in (left, right):
            for name, values in step.inputs.items():
                policy.session.inputs[name][:] = values
            policy.session.run()
        worst = max(worst, float(np.max(np.abs(left.action - right.action))))
    return ("actions", "golden steps", f"differ by up to {worst:.3g}") if worst else None
