"""`sim2real doctor`: is everything fit to walk? One line per finding, with its remedy."""

from dataclasses import asdict
from pathlib import Path

import typer

from sim2real_deploy.cli import app

COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@app.command("doctor")
def doctor(
    robot: str = typer.Option("go2", help="Robot: a name in config/robots."),
    interface: str = typer.Option("lo", help="Network interface that the robot is on."),
    domain: int = typer.Option(0, min=0, max=232, help="DDS domain of the robot's own bus."),
    policy: str = typer.Option("go2_walk", help="Policy bundle that will walk."),
    stage: str = typer.Option("tether", help="Deployment stage, as for the launch."),
    runs: Path = typer.Option(Path("runs"), help="Folder for bags."),
    json_file: Path = typer.Option(None, "--json", help="Write the findings to this file."),
    measure: bool = typer.Option(
        False, "--measure", help="Measure the motor boards of a hung robot."
    ),
) -> None:
    """Check computer, robot (or twin) and policy before a launch; exit code 1 on a failure."""
    from rich.console import Console

    from sim2real_deploy.checks import Check, exit_code, write_json
    from sim2real_deploy.preflight.doctor import Health, Patient, examine
    from sim2real_deploy.robots import load_robot

    if measure:
        _measure(robot, interface, domain, runs)
        return
    console = Console(highlight=False, soft_wrap=True)
    patient = Patient(load_robot(robot), interface, domain, policy, stage, runs)
    findings, checks = [], []
    for finding in examine(patient):
        word, ok = finding.verdict.value, finding.verdict is not Health.FAIL
        findings.append({**asdict(finding), "verdict": word})
        checks.append(Check(finding.name, float(not ok), "", "<= 0", ok))
        console.print(f"[{COLOURS[word]}]{word:>5}[/]  {finding.name:<11}", end="")
        console.print(finding.text, markup=False)
        if finding.remedy:
            console.print(f"{'':19}-> {finding.remedy}", markup=False)
    if json_file:
        write_json(json_file, "doctor", checks, {"findings": findings})
    raise typer.Exit(exit_code(checks))


HOW = """This times what the motor boards do when commands stop. It only listens; you act.
The robot HANGS on its hoist, legs clear of everything, nobody within reach of them, and holds its
stand under this stack at stage tether (sim2real stand). Keep a hand on the power switch."""
SILENCE = """Now silence the wire: within 15 s of Enter, in another terminal,
    kill -9 {pids}
The legs may go limp, or go on holding. Do not touch them."""
CHORD = "The legs still hold a stale command. Hold L2+B on the remote for 3 s after Enter."


def _measure(name: str, interface: str, domain: int, runs: Path) -> None:
    from sim2real_deploy.preflight import measure as boards
    from sim2real_deploy.robots import load_robot
    from sim2real_deploy.wire.dds_link import DdsLink

    robot = load_robot(name)
    link = DdsLink(robot, interface, domain, name="doctor", listens=True)
    try:
        typer.echo(HOW)
        typer.prompt("Enter to go on", default="", show_default=False)
        delay = boards.delay_ms(boards.watch(link, robot, 3.0))
        pids = " ".join(str(writer.pid) for writer in link.other_writers() if writer.pid)
        typer.prompt(SILENCE.format(pids=pids or "PIDS"), default="", show_default=False)
        silenced = boards.watch(link, robot, 15.0)
        timeout, chord = boards.timeout_s(silenced), None
        if timeout is None:
            typer.prompt(CHORD, default="", show_default=False)
            chord = boards.lets_go(boards.watch(link, robot, 3.0))
    finally:
        link.close()
    found = boards.Measured(robot.name, timeout, chord, delay, boards.now())
    path = boards.store(runs, found)
    typer.echo(f"boards let go after: {'never' if timeout is None else f'{timeout:.3f} s'}")
    typer.echo(f"L2+B lets go: {'not seen' if chord is None else chord}")
    typer.echo(f"command to torque: {'not seen' if delay is None else f'{delay:g} ms'}")
    typer.echo(f"stored: {path}. Switch the robot off and on before it is used again.")
