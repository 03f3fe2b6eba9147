"""The fault campaign as a benchmark: chosen cases, worst times, what was repeated and why."""

from collections.abc import Sequence
from contextlib import suppress

from rich import print

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.faults.assembly import whole_stack
from sim2real_deploy.faults.campaign import CaseResult, run_campaign
from sim2real_deploy.faults.cases import Case, cases
from sim2real_deploy.faults.stack import Stack


def run(
    robot: str, policy: str, repeat: int, only: str, adaptation: str, progress: Progress
) -> BenchResult:
    results: list[CaseResult] = []
    progress("starting the stack", 0.0)
    with whole_stack(robot, policy, adaptation) as (stack, small_disk):
        chosen = _choose(stack, small_disk, only)

        def tell(case: Case, trial: int) -> None:
            progress(case.name, (chosen.index(case) + trial / repeat) / len(chosen))

        with suppress(KeyboardInterrupt):
            for result in run_campaign(stack, chosen, repeat, tell):
                results.append(result)
    if len(results) < len(chosen):
        print(f"interrupted: only {len(results)} of {len(chosen)} faults were tried")
    for result in results:
        if again := result.taken_again_ms:
            print(
                f"{result.case.name}: {len(again)} trials repeated because the machine itself "
                f"stalled (up to {max(again):.0f} ms)"
            )
    checks = [check for result in results for check in result.checks()]
    raw = {
        "repeat": repeat,
        "adaptation": adaptation,
        "faults": [
            {
                "name": result.case.name,
                "outcome": result.case.outcome,
                "times_ms": result.times_ms,
                "problems": result.problems,
                "taken_again_ms": result.taken_again_ms,
            }
            for result in results
        ],
    }
    return BenchResult(f"from fault to damping on the wire, worst of {repeat}", checks, raw)


def _choose(stack: Stack, small_disk: bool, only: str) -> Sequence[Case]:
    every = cases(stack)
    chosen = [case for case in every if only in case.name]
    if not small_disk:
        print("not root: no disk can be filled, that fault is left out")
        chosen = [case for case in chosen if case.name != "disk full"]
    if stack.cable is None:
        print("not root, or no `ip` command: no cable can be pulled, that fault is left out")
    if not chosen:
        names = ", ".join(case.name for case in every)
        raise Refusal(f"no fault's name contains '{only}'; there are: {names}")
    return chosen
