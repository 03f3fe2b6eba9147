"""`sim2real faults`: break everything against the twin, and measure the way to damping."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sim2real_deploy.cli import app

if TYPE_CHECKING:
    from sim2real_deploy.faults.cable import Cable
    from sim2real_deploy.faults.stack import Stack

DISK_BYTES = 3_000_000_000  # memory, used only as the bag grows


@app.command("faults")
def faults(
    json_file: Path = typer.Option(None, "--json", help="Write the figures here."),
    repeat: int = typer.Option(20, min=1, help="Times that each fault is injected."),
    only: str = typer.Option("", help="Only the faults whose name holds this."),
    policy: str = typer.Option("go2_walk", help="Policy bundle that walks meanwhile."),
) -> None:
    """Run the whole stack against the twin, inject every fault, time it on the wire."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from sim2real_deploy.checks import exit_code, print_table, write_json
    from sim2real_deploy.errors import Refusal
    from sim2real_deploy.faults.campaign import Result, run_campaign
    from sim2real_deploy.faults.cases import Case, cases

    results: list[Result] = []
    with whole_stack(policy) as (stack, small_disk):
        chosen = [case for case in cases(stack) if only in case.name]
        if not small_disk:
            typer.echo("not root: a full disk cannot be made, that fault is left out")
            chosen = [case for case in chosen if case.name != "disk full"]
        if stack.cable is None:
            typer.echo("not root, or no `ip`: no cable can be pulled, that fault is left out")
        if not chosen:
            names = ", ".join(case.name for case in cases(stack))
            raise Refusal(f"no fault's name holds '{only}'; there are: {names}")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn()) as progress:
            task = progress.add_task("starting the stack", total=len(chosen) * repeat)

            def tell(case: Case, trial: int) -> None:
                done = chosen.index(case) * repeat + trial
                progress.update(task, completed=done, description=case.name)

            try:
                for result in run_campaign(stack, chosen, repeat, tell):
                    results.append(result)
                progress.update(task, completed=len(chosen) * repeat)
            except KeyboardInterrupt:
                typer.echo("interrupted: what follows is not the whole campaign")
    for result in results:
        if again := result.taken_again_ms:
            typer.echo(
                f"{result.case.name}: {len(again)} taken again, since the machine itself stood "
                f"still (up to {max(again):.0f} ms)"
            )
    checks = [check for result in results for check in result.checks()]
    print_table(f"from fault to damping on the wire, worst of {repeat}", checks)
    if json_file:
        raw = {
            "repeat": repeat,
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
        write_json(json_file, "faults", checks, raw)
    raise typer.Exit(exit_code(checks))


@contextmanager
def whole_stack(policy: str) -> "Iterator[tuple[Stack, bool]]":
    """The processes of a bring-up and the twin, on a disk of their own (or not: the flag), at the
    far end of a cable where one can be laid."""
    from sim2real_deploy.cli.up import free_domain
    from sim2real_deploy.faults.cable import Cable, can_be_laid
    from sim2real_deploy.faults.stack import Stack
    from sim2real_deploy.runtime.realtime import calm_interpreter, prefer_this_process

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end in order, with a table
    prefer_this_process()
    domain = free_domain()
    folder = Path(tempfile.mkdtemp(prefix="sim2real-faults-"))
    small_disk = _mount_small_disk(folder / "runs")
    cable = Cable() if can_be_laid() else None
    stack = Stack(folder, domain, domain + 100, _commands(folder, domain, policy, cable), cable)
    try:
        calm_interpreter()
        yield stack, small_disk
    finally:
        stack.close()
        if cable is not None:
            cable.close()
        if small_disk:
            subprocess.run(["umount", str(folder / "runs")], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _mount_small_disk(folder: Path) -> bool:
    """A disk of its own for the bag, small enough to be filled; only root can."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _commands(
    folder: Path, domain: int, policy: str, cable: "Cable | None"
) -> dict[str, list[str]]:
    """The graph of a bring-up, the twin left out: the campaign has it under its own hand. The
    clock is a robot's: what is timed is the stack as it runs on one."""
    from sim2real_deploy.bringup.graph import GO2_WALK, Process, go2_walk, resolve
    from sim2real_deploy.bringup.launcher import command_line
    from sim2real_deploy.faults.faulty_policy import write_faulty_policy
    from sim2real_deploy.policy.bundle import load_bundle
    from sim2real_deploy.robots import load_robot

    faulty = folder / "policy"
    write_faulty_policy(load_bundle(policy, load_robot("go2")), faulty)
    given = {"policy": str(faulty), "stage": "indoor", "domain": str(domain), "dashboard": "true"}
    given["interface"] = cable.far_interface if cable else "lo"
    given["runs"] = str(folder / "runs")
    graph = [
        replace(process, parameters={k: v for k, v in process.parameters.items() if k != "clock"})
        for process in go2_walk(resolve(GO2_WALK, given))
        if process.name != "twin"
    ]
    graph.append(Process("fault_operator"))
    return {process.name: command_line(process, "", "") for process in graph}
