"""Which project's stock task a network without a description was trained with: the twin tells.

Each known task that fits the network's input is tried with every move. The best is taken only if
most moves work with it, and the user hears how many.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate import policy_check
from sim2real_deploy.policy.bundle import Bundle


@dataclass(frozen=True, slots=True)
class Tried:
    task: str
    moves: int  # that work
    of: int
    error: float  # m/s and rad/s, summed over the moves: decides between equals

    @property
    def walks(self) -> bool:
        return self.moves > self.of / 2

    def __str__(self) -> str:
        return f"{self.task}: {self.moves} of {self.of} moves"


def try_tasks(
    tasks: Iterable[str], bring_in: Callable[[str], Bundle], step: Callable[[str], None]
) -> list[Tried]:
    """Every task that fits, the best first. `bring_in` imports the network as one of them."""
    tried = []
    for task in tasks:
        try:
            bundle = bring_in(task)
        except Refusal:
            continue
        seen = policy_check.walk(bundle, lambda move, task=task: step(f"{task}: {move}"))  # type: ignore[misc]
        tried.append(Tried(task, sum(one.ok for one in seen), len(seen), sum(map(_error, seen))))
    return sorted(tried, key=lambda one: (-one.moves, one.error))


def _error(seen: policy_check.CommandOutcome) -> float:
    return sum(abs(a - b) for a, b in zip(seen.command, seen.velocity, strict=True))
