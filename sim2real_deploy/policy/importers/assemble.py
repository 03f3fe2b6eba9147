"""From a draft to a bundle: name inputs and outputs, add golden steps, check everything.

Nothing is written before the contract has passed the checks of `load_bundle`.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy import record, save
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.contract import Contract, Group
from sim2real_deploy.policy.contract import Motion as MotionClaim
from sim2real_deploy.policy.importers import (
    action_order,
    network,
    onnx_metadata,
    places,
    read_draft,
)
from sim2real_deploy.policy.importers.draft import Answers, Draft
from sim2real_deploy.policy.importers.fit import find_robot
from sim2real_deploy.policy.importers.network import ACTIONS, Converter, Network
from sim2real_deploy.policy.observations import Observation
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.policy.terms import TERMS, TermInput
from sim2real_deploy.robots import RobotSpec

GOLDEN_STEPS = 8
ODOMETRY_WARNING = (
    "its velocity or contacts come from leg odometry, which is wrong where feet slip: 0.1 m/s too "
    "much makes it walk 0.1 m/s slower (the policy node's `odometry` accepts another estimator's)"
)
IN, OUT = "_in", "_out"  # h_in and h_out: a recurrent state, as in rsl_rl and our own conversion


@dataclass(frozen=True, slots=True)
class Imported:
    bundle: Bundle
    form: str
    network: Path
    assumed: tuple[str, ...]  # what was taken from the project's code, not from the source
    open_orders: dict[str, tuple[Any, ...]]  # orders that the source leaves open, and their options


def import_policy(
    source: Path,
    folder: Path,
    answers: Answers,
    convert: Converter,
    *,
    name: str = "",
) -> Imported:
    form, draft = read_draft(source, answers)
    draft.trusted = answers.optional("trust", "")
    if draft.trusted not in ("", "file", "network"):
        raise Refusal(f"--set trust={draft.trusted}: must be file or network")
    answers.refuse_unused(draft.source)
    draft.robot = answers.robot or draft.robot
    if answers.given:
        draft.notes["set"] = ", ".join(f"{key}={value}" for key, value in answers.given.items())
    contract, spec, model = _first_that_fits(
        form, draft, name or folder.resolve().name, convert, answers
    )
    save.save_bundle(folder, contract, model)
    assumed = tuple(dict.fromkeys(draft.assumed))
    bundle = load_bundle(folder, spec)
    return Imported(bundle, form, draft.network, assumed, draft.open_orders)


def _first_that_fits(
    form: str, draft: Draft, name: str, convert: Converter, answers: Answers
) -> tuple[Contract, RobotSpec, bytes]:
    """As drafted, or with the inputs in another form that the network accepts."""
    try:
        return _assemble(form, draft, name, convert)
    except Refusal as refusal:
        why = f"{refusal}{_other_network(draft, answers)}"
        ordered = _in_another_order(form, draft, name, convert)
        if ordered is not None:
            return ordered
        drafted = draft.claims["observations"]
        for observations in [*draft.other_observations, *_frame_and_history(drafted, draft)]:
            draft.claims["observations"] = observations
            try:
                return _assemble(form, draft, name, convert)
            except Refusal:
                continue
        raise Refusal(why) from None


def _other_network(draft: Draft, answers: Answers) -> str:
    """If the network takes another number of observations than its description makes: what else to
    try, in words."""

    def takes(path: Path) -> int | None:
        try:
            return answers.input_size(path)
        except Refusal:  # what lies beside it need not be a network
            return None

    if not draft.makes or takes(draft.network) in (None, draft.makes):
        return ""
    others = [path for path in places.networks(draft.network.parent) if path != draft.network]
    fitting = [str(path) for path in others if takes(path) == draft.makes]
    if fitting:
        return f"; beside it these take {draft.makes}: --network {', '.join(fitting)}"
    return (
        "; if it is not the network that is described, try it alone: sim2real policy new "
        f"{draft.network} --output FOLDER"
    )


def _in_another_order(
    form: str, draft: Draft, name: str, convert: Converter
) -> tuple[Contract, RobotSpec, bytes] | None:
    """If the file leaves the joints' order open and the assumed one fits no robot: the first that
    does."""
    assumed, *others = draft.open_orders.get("joints", ("",))
    for order in others if draft.joints == assumed else ():
        told = replace(draft, joints=order, assumed=list(draft.assumed))
        told.assumed.append(f"joints in the {order} order: in the assumed one they fit no robot")
        try:
            found = _assemble(form, told, name, convert)
        except Refusal:
            continue
        draft.assumed[:] = told.assumed
        rest = [one for one in (assumed, *others) if one != order]
        draft.open_orders["joints"] = (order, *rest)
        return found
    return None


def _frame_and_history(
    observations: list[dict[str, Any]], draft: Draft
) -> Iterator[list[dict[str, Any]]]:
    """For a description with history: the newest frame as a separate input, for networks that take
    both."""
    if len(observations) != 1 or all(t.get("history", 1) == 1 for t in observations[0]["terms"]):
        return
    (history,) = observations
    frame = {**history, "terms": [{**term, "history": 1} for term in history["terms"]]}
    names = ["obs", "obs1"]
    if draft.network.suffix == ".onnx":
        sizes = network.input_sizes(draft.network)
        names = sorted((name for name in sizes if not name.endswith(IN)), key=sizes.__getitem__)
    if len(names) == 2:
        yield [{**frame, "input": names[0]}, {**history, "input": names[1]}]
        if draft.network.suffix != ".onnx":
            yield [{**history, "input": names[0]}, {**frame, "input": names[1]}]


def _assemble(
    form: str, draft: Draft, name: str, convert: Converter
) -> tuple[Contract, RobotSpec, bytes]:
    claims = {
        "format": 1,
        "name": name,
        **draft.claims,
        "rate_hz": _rate(draft),
        # Placeholders until the network is read.
        "action": {"output": "-", **draft.claims["action"]},
        "observations": [
            {**group, "input": group["input"] or "-"} for group in draft.claims["observations"]
        ],
        "golden": [{"inputs": {}, "action": []}],
        "sha256": "0" * 64,
        "provenance": {
            **draft.notes,
            "imported_from": form,
            "source": draft.source.name,
            "network": draft.network.name,
            **({"assumed": "; ".join(dict.fromkeys(draft.assumed))} if draft.assumed else {}),
        },
    }
    spec, contract = find_robot(draft, claims)
    if onnx_metadata.cross_check(replace(draft, joints=contract.joints)):
        return _assemble(form, draft, name, convert)
    sizes = [
        _size(group, contract, spec, f"{draft.source}: observations.{i}")
        for i, group in enumerate(contract.observations)
    ]
    draft.makes = sum(sizes)
    if _sees_odometry(contract):
        draft.assumed.append(ODOMETRY_WARNING)
    net = network.load(draft.network, sizes, convert)
    contract = contract.model_copy(update=_ports(contract, net, draft.network))
    model = _renumbered(net.model, contract, spec, draft)
    if draft.motion is not None:
        anchor, motion = draft.motion.frames(contract, spec)
        claim = MotionClaim(anchor=anchor, frames=len(motion.q), source=draft.motion.source)
        contract = contract.model_copy(update={"motion": claim})
        model = motion.embed(model)
    model = record.embed(model, contract)
    digest = hashlib.sha256(model).hexdigest()
    golden = _golden(Policy(contract, spec, model, str(draft.network)))
    whole = {**contract.model_dump(), "golden": golden, "sha256": digest}
    return configfile.parse(whole, Contract, str(draft.source)), spec, model


def _rate(draft: Draft) -> Any:
    rate = draft.claims["rate_hz"]
    return round(rate, 6) if isinstance(rate, float) else rate


def _sees_odometry(contract: Contract) -> bool:
    return any(TERMS[term.name].odometry for group in contract.observations for term in group.terms)


def _renumbered(model: bytes, contract: Contract, spec: RobotSpec, draft: Draft) -> bytes:
    """The network with its actions in the order of its observations."""
    own = tuple(draft.action_joints)
    if not own or own == contract.joints:
        return model
    where = f"{draft.source}: observations"
    if len(contract.observations) != 1 or sorted(own) != sorted(contract.joints):
        raise Refusal(f"{where}: the actions' order of joints cannot be brought into theirs")
    (group,) = contract.observations
    labels = _observation(group, contract, spec, where).labels
    draft.assumed.append("actions and observations differ in their order of joints: renumbered")
    return action_order.renumber(
        model, group.input, labels, contract.action.output, contract.joints, own, draft.network
    )


def _size(group: Group, contract: Contract, spec: RobotSpec, where: str) -> int:
    return len(_observation(group, contract, spec, where).labels)


def _observation(group: Group, contract: Contract, spec: RobotSpec, where: str) -> Observation:
    nothing = TermInput.nothing(contract.default_position, len(spec.legs))
    return Observation(group, nothing, contract.joints, where)


def _ports(contract: Contract, net: Network, where: Path) -> dict[str, Any]:
    """Which input takes which observation, and which outputs are the action and the states."""
    states = [
        {"input": name, "output": name.removesuffix(IN) + OUT}
        for name in net.inputs
        if name.endswith(IN) and name.removesuffix(IN) + OUT in net.outputs
    ]
    state_inputs = {state["input"] for state in states}
    state_outputs = {state["output"] for state in states}
    free = [name for name in net.inputs if name not in state_inputs]
    outputs = [name for name in net.outputs if name not in state_outputs]
    if not outputs:
        raise Refusal(f"{where}: no output for the action, only {', '.join(net.outputs)}")
    groups = contract.observations
    if len(groups) == 1 and len(free) == 1:
        groups = (groups[0].model_copy(update={"input": free[0]}),)
    elif {group.input for group in groups} != set(free):
        raise Refusal(
            f"{where}: has the inputs {', '.join(free)}; the description fills "
            f"{', '.join(group.input for group in groups) if len(groups) > 1 else 'one'}"
        )
    output = next((name for name in ACTIONS if name in outputs), outputs[0])
    if contract.action.output in outputs:
        output = contract.action.output
    dumped = contract.model_dump()
    dumped["observations"] = [group.model_dump() for group in groups]
    dumped["recurrence"] = states
    dumped["action"]["output"] = output
    whole = configfile.parse(dumped, Contract, str(where))
    return {field: getattr(whole, field) for field in ("observations", "recurrence", "action")}


def _golden(policy: Policy) -> list[dict[str, Any]]:
    """Steps with seeded random observations, and the network's actions."""
    random = np.random.default_rng(0)
    steps = []
    policy.reset()
    for _ in range(GOLDEN_STEPS):
        for values in policy.session.inputs.values():
            values[:] = random.normal(0.0, 0.5, values.size)
        policy.session.run()
        if not np.isfinite(policy.action).all():
            raise Refusal("the network returns numbers that are not finite: its weights are broken")
        inputs = {name: _decimals(values) for name, values in policy.session.inputs.items()}
        steps.append({"inputs": inputs, "action": _decimals(policy.action)})
    return steps


def _decimals(values: Any) -> list[float]:
    """float32 values as the shortest decimals that parse to the same float32."""
    return [float(str(value)) for value in values]
