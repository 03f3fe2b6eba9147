"""The same policy with other common joint and observation orders.

For a policy that does not walk as described: one of these may be the order it was trained with. The
twin tries them and a person decides; none is ever run on a robot from here.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle, check_against_robot
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.importers.vocabulary import TERM_ORDERS


def alternatives(bundle: Bundle) -> Iterator[tuple[str, Bundle]]:
    """Each in words and as a bundle: first with one change, then with two."""
    orders = list(_joint_orders(bundle))
    terms = list(_term_orders(bundle.contract))
    yield from ((words, replace(bundle, contract=contract)) for words, contract in orders)
    yield from ((words, replace(bundle, contract=contract)) for words, contract in terms)
    for words, contract in orders:
        for more, both in _term_orders(contract):
            yield f"{words}, {more}", replace(bundle, contract=both)


def _joint_orders(bundle: Bundle) -> Iterator[tuple[str, Contract]]:
    """Other joint names for the same values, or the values reordered with the names."""
    contract, spec = bundle.contract, bundle.spec
    known = {"sdk": spec.joint_names, **spec.joint_orders}
    tried = [contract]
    for order, names in known.items():
        if set(names) != set(contract.joints):
            continue
        renamed = contract.model_copy(update={"joints": names})
        for words, other in (
            (f"joints in the {order} order", renamed),
            (f"joints and their values in the {order} order", _moved(contract, names)),
        ):
            try:
                check_against_robot(other, spec, order)
            except Refusal:
                continue
            if other not in tried:
                tried.append(other)
                yield words, other


def _moved(contract: Contract, names: tuple[str, ...]) -> Contract:
    places = [contract.joints.index(name) for name in names]

    def move(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(values[place] for place in places)

    action = contract.action
    clip = action.clip and tuple(action.clip[place] for place in places)
    moved = {"scale": move(action.scale), "offset": move(action.offset), "clip": clip}
    return contract.model_copy(
        update={
            "joints": names,
            "default_position": move(contract.default_position),
            "kp": move(contract.kp),
            "kd": move(contract.kd),
            "action": action.model_copy(update=moved),
        }
    )


def _term_orders(contract: Contract) -> Iterator[tuple[str, Contract]]:
    """The same terms in the order of other projects, and the history reversed."""
    if len(contract.observations) != 1:
        return
    (group,) = contract.observations

    def changed(**update: Any) -> Contract:
        return contract.model_copy(update={"observations": (group.model_copy(update=update),)})

    terms = {term.name: term for term in group.terms}
    for order, names in TERM_ORDERS.items():
        if len(terms) == len(group.terms) and set(names) <= set(terms):
            moved = iter(names)
            reordered = tuple(
                terms[next(moved)] if term.name in names else term for term in group.terms
            )
            if reordered != group.terms:
                yield f"observations in {order}'s order", changed(terms=reordered)
    if any(term.history > 1 for term in group.terms):
        newest = "first" if group.newest == "last" else "last"
        yield f"the newest of its history {newest}", changed(newest=newest)
