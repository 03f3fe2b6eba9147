"""Finds the order that a policy was trained with, if its file leaves it open, by trying the twin.

Every candidate walks in the twin. The assumed order stays if most commands work with it; another
one is used only if all commands work.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate import policy_check
from sim2real_deploy.policy.bundle import Bundle

Answers = dict[str, Any]


def find_order(
    open_orders: Mapping[str, tuple[Any, ...]],
    bring_in: Callable[[Answers], Bundle],
    step: Callable[[str], None],
) -> Answers | None:
    """The answers with which it walks: empty if the assumed ones work, None if none do.

    `bring_in` imports the policy with some of the orders answered."""
    if policy_check.walks_in_part(policy_check.walk(bring_in({}), step)):
        return {}
    for answers in _candidates(open_orders):
        step(", ".join(f"{key} {value}" for key, value in answers.items()))
        try:
            bundle = bring_in(answers)
        except Refusal:
            continue
        walker = policy_check.Walker(bundle)
        if all(walker.follow(command).ok for command in policy_check.commands(bundle)):
            return answers
    return None


def _candidates(open_orders: Mapping[str, tuple[Any, ...]]) -> Iterator[Answers]:
    """All combinations but the assumed one, with the fewest changes first."""
    keys = list(open_orders)
    combinations = [
        {
            key: value
            for key, value in zip(keys, values, strict=True)
            if value != open_orders[key][0]
        }
        for values in itertools.product(*open_orders.values())
    ]
    yield from sorted((answers for answers in combinations if answers), key=len)
