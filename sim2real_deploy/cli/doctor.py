"""`sim2real doctor`: is everything fit to walk? One line per finding, with its remedy."""

from dataclasses import asdict
from pathlib import Path

import typer

from sim2real_deploy.cli import app

COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@app.command("doctor")
def doctor(
    robot: str = typer.Option("go2", help="A name in config/robots."),
    interface: str = typer.Option("lo", help="Network interface that the robot is on."),
    domain: int = typer.Option(0, min=0, max=232, help="DDS domain of the robot's own bus."),
    policy: str = typer.Option("go2_walk", help="Policy bundle that is to walk."),
    stage: str = typer.Option("tether", help="Deployment stage, as for the launch."),
    runs: Path = typer.Option(Path("runs"), help="Where bags are written to."),
    json_file: Path = typer.Option(None, "--json", help="Write the findings here."),
) -> None:
    """Check computer, robot (or twin) and policy before a launch; exit code 1 on a failure."""
    from rich.console import Console

    from sim2real_deploy.checks import Check, exit_code, write_json
    from sim2real_deploy.preflight.doctor import Health, Patient, examine
    from sim2real_deploy.robots import load_robot

    console = Console(highlight=False, soft_wrap=True)
    findings = []
    patient = Patient(load_robot(robot), interface, domain, policy, stage, runs)
    for finding in examine(patient):
        findings.append(finding)
        word = finding.verdict.value
        console.print(f"[{COLOURS[word]}]{word:>5}[/]  {finding.name:<11}", end="")
        console.print(finding.text, markup=False)
        if finding.remedy:
            console.print(f"{'':19}-> {finding.remedy}", markup=False)
    checks = [
        Check(f.name, float(f.verdict is Health.FAIL), "", "<= 0", f.verdict is not Health.FAIL)
        for f in findings
    ]
    if json_file:
        raw = {"findings": [{**asdict(f), "verdict": f.verdict.value} for f in findings]}
        write_json(json_file, "doctor", checks, raw)
    raise typer.Exit(exit_code(checks))
