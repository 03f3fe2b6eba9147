"""Per-joint values of a description that are in the order of the robot's model, not the policy's.

Which of the two only the values can tell: in the wrong order left and right legs differ, or a
joint stands beyond its stops.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sim2real_deploy.policy.importers.robots import same_on_both_sides
from sim2real_deploy.robots import RobotSpec

POSE = "default_position"
FIELDS = (POSE, "kp", "kd", "scale")


def by_symmetry(
    content: Mapping[str, Any], theirs: Sequence[str], spec: RobotSpec
) -> tuple[dict[str, Any], list[str]]:
    """The contract's content with each field moved that is the same left and right only in the
    order `theirs`; and the names of these fields."""
    changed, fields = dict(content), []
    for field in FIELDS if theirs else ():
        joints, values = content["joints"], _values(content, field)
        order = [name for name in theirs if name in joints]
        if len(values) != len(joints) or sorted(order) != sorted(joints):
            continue
        as_told, as_theirs = (
            same_on_both_sides(dict(zip(names, values, strict=True)), spec)
            for names in (joints, order)
        )
        if as_theirs and not as_told:
            changed = moved(changed, theirs, field)
            fields.append(field)
    return changed, fields


def moved(content: Mapping[str, Any], theirs: Sequence[str], field: str) -> dict[str, Any]:
    """The content with one field's values brought from the order `theirs` into the policy's; where
    the actions are relative to the pose, it moves with them."""
    order = [name for name in theirs if name in content["joints"]]
    if sorted(order) != sorted(content["joints"]):
        return dict(content)
    places = [order.index(name) for name in content["joints"]]
    changed: dict[str, Any] = {**content, "action": dict(content["action"])}
    action = changed["action"]
    own = [part for part in (changed, action) if field in part]
    keys = [(part, field) for part in own]
    if field == POSE and list(action["offset"]) == list(content[POSE]):
        keys.append((action, "offset"))
    for part, key in keys:
        if len(part[key]) == len(places):
            part[key] = [part[key][place] for place in places]
    return changed


def _values(content: Mapping[str, Any], field: str) -> Sequence[float]:
    values: Sequence[float] = content[field] if field in content else content["action"][field]
    return values
