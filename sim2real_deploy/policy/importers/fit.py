"""The robot that a draft is for, and the draft's contract for it.

A draft may name its joints, number their motors, or only say which order they are in; what it does
not move is held.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import check_against_robot
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.importers import joint_values
from sim2real_deploy.policy.importers.draft import Draft
from sim2real_deploy.policy.importers.robots import all_robots, known_robots
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.robots.spec import FULL_TORQUE_RAD, MOST_KD

LITTLE = 0.02  # a share of a damping that changes nothing one could see


def find_robot(draft: Draft, claims: dict[str, Any]) -> tuple[RobotSpec, Contract]:
    """The robot that was named, or the only one that the draft fits."""
    if draft.robot is not None:
        return _fit(draft, claims, load_robot(draft.robot))
    if draft.lies_in and load_robot(draft.lies_in).twin_only:
        found = _if_it_fits(draft, claims, draft.lies_in)
        if found is not None:
            draft.assumed.append(
                f"that it is for {draft.lies_in}, in whose folder it lies (--robot ...)"
            )
            return found
    fitting: list[tuple[RobotSpec, Contract]] = []
    why_not: list[str] = []
    of_its_joints: list[Refusal] = []  # by robots that have all of its joints
    named = not isinstance(draft.joints, str) and all(isinstance(j, str) for j in draft.joints)
    twins = (spec for spec in all_robots() if spec.twin_only)
    for robots in (known_robots(), twins if named else ()):
        for spec in robots if not fitting else ():
            try:
                fitting.append(_fit(draft, claims, spec))
            except Refusal as refusal:
                why_not.append(f"  {spec.name}: {refusal}")
                if named and set(draft.joints) <= set(spec.joint_names):
                    of_its_joints.append(refusal)
    if len(fitting) == 1:
        return fitting[0]
    if draft.named_after:
        try:
            found = _fit(
                replace(draft, robot=draft.named_after), claims, load_robot(draft.named_after)
            )
        except Refusal as refusal:
            why_not.append(f"  {draft.named_after}: {refusal}")
        else:
            draft.assumed.append(
                f"that it is for {draft.named_after}, after which the file is named (--robot ...)"
            )
            return found
    if fitting:
        names = ", ".join(spec.name for spec, _ in fitting)
        raise Refusal(f"{draft.source}: fits several robots ({names}); name one with --robot")
    if len(of_its_joints) == 1:
        raise of_its_joints[0]
    raise Refusal(
        f"{draft.source}: fits no known robot; if it moves a part of one, say which: --robot NAME\n"
        + "\n".join(why_not)
    )


def _if_it_fits(
    draft: Draft, claims: dict[str, Any], robot: str
) -> tuple[RobotSpec, Contract] | None:
    try:
        return _fit(draft, claims, load_robot(robot))
    except Refusal:
        return None


def _fit(draft: Draft, claims: dict[str, Any], spec: RobotSpec) -> tuple[RobotSpec, Contract]:
    """The contract for this robot. What is assumed for it is noted only if it fits."""
    noted = list(draft.assumed)
    try:
        return _fitted(draft, claims, spec)
    except Refusal:
        draft.assumed[:] = noted
        raise


def _fitted(draft: Draft, claims: dict[str, Any], spec: RobotSpec) -> tuple[RobotSpec, Contract]:
    count = len(draft.claims["default_position"]) if draft.robot else 0
    joints = _names(draft.joints, spec, draft.source, count)
    held = _names([held.joint for held in draft.held], spec, draft.source)
    content = {
        **claims,
        "robot": spec.name,
        "joints": joints,
        "held": _held(held, spec, draft),
    }
    if draft.hold_rest:
        content["held"] += _rest(spec, {*joints, *held}, draft)
    content["kd"] = _within_the_bound(content["kd"], joints, draft)
    return spec, _with_values_in_place(content, spec, draft)


def _within_the_bound(kd: Sequence[float], joints: Sequence[str], draft: Draft) -> list[float]:
    """Damping that is a little above what may be commanded, lowered to it, and noted."""
    over = [0 < gain - MOST_KD <= LITTLE * MOST_KD for gain in kd]
    told = [f"{j} {gain:g}" for j, gain, is_over in zip(joints, kd, over, strict=False) if is_over]
    if told:
        draft.assumed.append(
            f"the most damping that is allowed, {MOST_KD:g} Nms/rad, for {', '.join(told)}"
        )
    return [MOST_KD if is_over else gain for gain, is_over in zip(kd, over, strict=True)]


def _with_values_in_place(content: dict[str, Any], spec: RobotSpec, draft: Draft) -> Contract:
    """The contract; values that can only be in the model's order of joints are moved."""
    theirs = _orders(spec).get(draft.values_in, ())
    moved, fields = joint_values.by_symmetry(content, theirs, spec)
    try:
        contract = _checked(moved, spec, draft)
    except Refusal:
        if not theirs or "default_position" in fields:
            raise
        try:
            contract = _checked(joint_values.moved(moved, theirs, joint_values.POSE), spec, draft)
        except Refusal:
            pass
        else:
            draft.assumed.append("the default pose in motor order: it fits in no other")
            return contract
        raise
    for field in fields:
        draft.assumed.append(
            f"{field} in the order of the robot's model: in the policy's, left and right would "
            "differ"
        )
    return contract


def _held(names: Sequence[str], spec: RobotSpec, draft: Draft) -> list[dict[str, Any]]:
    """With at least the robot's own damping: with less, a stiff waist swings while walking. With at
    most the stiffness that a contract may have."""
    own = {joint.name: joint for joint in spec.joints}
    rows: list[dict[str, Any]] = []
    damped, softened = [], []
    for name, item in zip(names, draft.held, strict=True):
        kp = min(item.kp, own[name].torque / FULL_TORQUE_RAD) if name in own else item.kp
        kd = max(item.kd, own[name].kd) if name in own else item.kd
        rows.append({"joint": name, "position": item.position, "kp": kp, "kd": kd})
        damped += [name] if kd > item.kd else []
        softened += [name] if kp < item.kp else []
    for how, changed in (
        ("the robot's own, higher damping", damped),
        ("the most stiffness that is allowed", softened),
    ):
        if changed:
            draft.assumed.append(f"held with {how}: {', '.join(changed)}")
    return rows


def _rest(spec: RobotSpec, named: set[str], draft: Draft) -> list[dict[str, Any]]:
    """The joints that the policy does not have, held at zero with the robot's own gains."""
    rest = [joint for joint in spec.joints if joint.name not in named]
    if rest:
        names = ", ".join(joint.name for joint in rest)
        draft.assumed.append(f"held at zero, because it does not move them: {names}")
    return [
        {"joint": joint.name, "position": 0.0, "kp": joint.kp, "kd": joint.kd} for joint in rest
    ]


def _checked(content: dict[str, Any], spec: RobotSpec, draft: Draft) -> Contract:
    contract = configfile.parse(content, Contract, str(draft.source))
    check_against_robot(contract, spec, str(draft.source))
    return contract


def _orders(spec: RobotSpec) -> dict[str, tuple[str, ...]]:
    return {"gym": spec.joint_names, "sdk": spec.joint_names, **spec.joint_orders}


def _names(
    joints: Sequence[str | int] | str, spec: RobotSpec, source: Path, count: int = 0
) -> list[str]:
    """Joint names from names, motor numbers, or numbers in a known order (gym.3).

    If the source names the robot, a policy may move only `count` joints: those of the variant of
    the robot that has so many, or the first ones of an order."""
    orders = _orders(spec)
    if isinstance(joints, str) and joints in ("gym", "sdk") and count:
        return _variant(spec, count) or list(orders[joints][:count])
    if isinstance(joints, str):
        return list(_known_order(joints, orders, spec, source))
    highest = max((joint for joint in joints if isinstance(joint, int)), default=0)
    if highest >= spec.joint_count:
        orders["sdk"] = _whole_robot(spec).joint_names
    names = []
    for joint in joints:
        order, _, place = ("sdk", "", joint) if isinstance(joint, int) else joint.partition(".")
        if place != "":
            known = _known_order(order, orders, spec, source)
            if not 0 <= int(place) < len(known):
                raise Refusal(f"{source}: joints: {spec.name} has no motor {place}")
            joint = known[int(place)]
        names.append(str(joint))
    return names


def _variant(spec: RobotSpec, count: int) -> list[str]:
    """The joints of another robot of which this one has all and more: a G1 with 23 of its 29."""
    for other in all_robots() if count < spec.joint_count else ():
        if other.joint_count == count and set(other.joint_names) < set(spec.joint_names):
            return list(other.joint_names)
    return []


def _whole_robot(spec: RobotSpec) -> RobotSpec:
    """The robot of which this one is a variant with fewer joints, and whose motor numbers it keeps;
    else itself."""
    names = set(spec.joint_names)
    return next((one for one in all_robots() if names < set(one.joint_names)), spec)


def _known_order(
    name: str, orders: Mapping[str, tuple[str, ...]], spec: RobotSpec, source: Path
) -> tuple[str, ...]:
    if name not in orders:
        raise Refusal(
            f"{source}: joints: {spec.name} has no order '{name}', only {', '.join(orders)}; list "
            "the names: --set joints=[...]"
        )
    return orders[name]
