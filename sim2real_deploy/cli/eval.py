"""`sim2real eval`: the gate a policy must pass before it walks a real robot."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim2real_deploy.gate.verdict import Row
    from sim2real_deploy.gate.workers import Results, Task
    from sim2real_deploy.policy.bundle import Bundle


@app.command("eval")
def eval_(
    policy: Annotated[str, typer.Argument(help="A name in policies/, or a bundle's folder.")],
    scenarios: Annotated[str, typer.Option(help="Comma-separated names; default: all.")] = "",
    set_: Annotated[str, typer.Option("--set", help="Named set of scenarios, e.g. field7.")] = "",
    folder: Annotated[Path | None, typer.Option(help="Folder of your own scenarios.")] = None,
    stage: Annotated[
        str, typer.Option(help="Only the scenarios that this stage requires, e.g. indoor.")
    ] = "",
    trials: Annotated[int, typer.Option(min=1, help="Runs of each scenario.")] = 20,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Share of runs that must succeed.")
    ] = 0.85,
    engine: Annotated[str, typer.Option(help="Physics engine: mujoco or drake.")] = "mujoco",
    compare: Annotated[
        bool, typer.Option("--compare", help="Run in both engines and compare.")
    ] = False,
    workers: Annotated[int, typer.Option(min=0, help="Number of processes; 0: one per core.")] = 0,
    ray: Annotated[str, typer.Option(help="Run on a Ray cluster: its address, or `local`.")] = "",
    results: Annotated[
        Path | None, typer.Option(help="File that stores the episodes, one per line.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Reuse the episodes in that file.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(help="Write figures and checks to this file.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    store: Annotated[bool, typer.Option("--store", help="Store the result in the bundle.")] = False,
) -> None:
    """Walk a policy through every scenario many times; judge it and store the result."""
    from sim2real_deploy.twin.headless import choose_renderer

    choose_renderer()

    from sim2real_deploy import checks
    from sim2real_deploy.gate import verdict as gate
    from sim2real_deploy.gate.engines import FIRST, SECOND
    from sim2real_deploy.gate.scenarios import load_scenarios, needed_for, scenario_set
    from sim2real_deploy.gate.workers import Results
    from sim2real_deploy.policy.bundle import load_own_bundle

    if store and folder is not None:
        raise Refusal("--store: a launch trusts the scenarios of this package alone, not --folder")
    bundle = load_own_bundle(policy)
    _check_papers(bundle)
    names = [name for name in scenarios.split(",") if name]
    chosen = load_scenarios(names + (scenario_set(set_) if set_ else []), folder)
    chosen = needed_for(stage, chosen) if stage else chosen
    engines = (FIRST, SECOND) if compare else (engine,)
    path = results or Path("runs") / "gate" / f"{bundle.contract.name}.jsonl"
    if not resume:
        path.unlink(missing_ok=True)
    done = Results(path, bundle)
    tasks = [(e, s, trial) for e in engines for s in chosen for trial in range(trials)]
    todo = done.missing(tasks)
    start = time.monotonic()
    _run(bundle, done, todo, len(tasks), workers or os.cpu_count() or 1, ray)
    effort = {"episodes_run": len(todo), "wall_s": time.monotonic() - start}
    rows = [
        gate.summarise(s, e, done.of((e, s, trial) for trial in range(trials)), threshold)
        for s in chosen
        for e in engines
    ]
    rows = gate.compared(rows, engines[0])
    _show(bundle, rows, threshold)
    typer.echo(f"{len(todo)} episodes in {effort['wall_s']:.0f} s")
    judged = gate.judge([row for row in rows if row.engine == engines[0]], threshold)
    episodes = done.of(tasks)
    if json:
        raw = effort | gate.as_json(bundle, rows, episodes, threshold)
        checks.write_json(json, "eval", judged, raw)
    if html:
        from sim2real_deploy.analysis.gate_report import write_gate_report

        write_gate_report(html, bundle, rows, list(zip(tasks, episodes, strict=True)), threshold)
        typer.echo(f"report: {html}")
    if store:
        typer.echo(f"stored: {gate.store_rows(bundle, rows, threshold, engines[0])}")
    raise typer.Exit(checks.exit_code(judged))


def _check_papers(bundle: "Bundle") -> None:
    """Static checks first: a policy that fails them need not walk."""
    from sim2real_deploy.policy.check import static_checks

    failed = [check for check in static_checks(bundle) if not check.ok]
    if failed:
        why = "; ".join(f"{check.name}: {check.value:g}, not {check.bound}" for check in failed)
        name = bundle.contract.name
        raise Refusal(f"{name} does not pass the gate: on paper already: {why}")


def _run(
    bundle: "Bundle", done: "Results", todo: "list[Task]", total: int, workers: int, ray: str
) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from sim2real_deploy.gate.workers import run_here, run_on_ray

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("episodes", total=total, completed=total - len(todo))
        failed = 0
        running = run_on_ray(bundle, todo, ray) if ray else run_here(bundle, todo, workers)
        for task, episode in running:
            done.add(task, episode)
            failed += not episode.success
            progress.update(bar, advance=1, description=f"episodes, {failed} failed")


def _show(bundle: "Bundle", rows: "Sequence[Row]", threshold: float) -> None:
    from rich.console import Console
    from rich.table import Table

    engines = list(dict.fromkeys(row.engine for row in rows))
    table = Table(title=f"{bundle.contract.name} on {bundle.spec.title}", title_justify="left")
    table.add_column("scenario", no_wrap=True)
    for engine in engines:
        table.add_column(f"in {engine}", no_wrap=True)
        table.add_column("error vx vy wz", no_wrap=True)
    table.add_column("torque, heat" if len(engines) == 1 else "", no_wrap=True)
    for first in range(0, len(rows), len(engines)):
        group = rows[first : first + len(engines)]
        cells = [group[0].scenario]
        for row in group:
            colour = "green" if row.passes(threshold) else "bold red"
            between = "{:.0%}-{:.0%}".format(*row.interval)
            cells.append(f"[{colour}]{row.successes:>2}/{row.runs}[/{colour}] {between:>9}")
            cells.append(" ".join(f"{value:.2f}" for value in row.error or ()))
        if len(engines) == 1 and row.torque is not None:
            cells.append(f"{row.torque:4.0%}, {row.temperature:.0f} C")
        table.add_row(*cells)
    console = Console(highlight=False)
    console.print(table)
    for row in rows:
        for flag in row.flags:
            console.print(f"[yellow]{row.scenario}[/yellow] ({row.engine}): {flag}")
