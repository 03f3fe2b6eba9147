"""`sim2real up` starts a bring-up without `ros2 launch`; `security` prints its SROS2 policy."""

import os
from pathlib import Path

import typer

from sim2real_deploy.bringup.graph import BRINGUPS, Argument, resolve
from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire.domains import free_domain

FREE = "free"


@app.command("up")
def up(
    bringup: str = typer.Argument(..., help=f"Which: {', '.join(BRINGUPS)}."),
    arguments: list[str] = typer.Argument(None, help="name:=value, as for `ros2 launch`."),
    show_args: bool = typer.Option(False, "--show-args", "-s", help="List the arguments and exit."),
) -> None:
    """Start the stack in order, with one output; Ctrl-C sits the robot down, damps it and ends."""
    if bringup not in BRINGUPS:
        raise Refusal(f"there is no bring-up '{bringup}'; there are: {', '.join(BRINGUPS)}")
    known, graph = BRINGUPS[bringup]
    if show_args:
        _show(known)
        return
    values = resolve(known, dict(_split(argument) for argument in arguments or ()))
    environment = {}
    if values.get("domain") == FREE:
        values["domain"] = str(free_domain())
        environment["ROS_DOMAIN_ID"] = values["domain"]
    if "domain" in values:
        ros = environment.get("ROS_DOMAIN_ID") or os.environ.get("ROS_DOMAIN_ID") or "0"
        typer.echo(f"DDS domains: {values['domain']} for the robot's bus, {ros} for ROS")
    if "ROS_AUTOMATIC_DISCOVERY_RANGE" not in os.environ:
        environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

    from sim2real_deploy.bringup.launcher import Launcher

    launcher = Launcher(graph(values), values["namespace"], values["params_file"], environment)
    exit_code = launcher.run()
    if bringup == "walk_programme" and values["record"] == "true":
        _report_newest(Path(values["runs"]))
    raise typer.Exit(exit_code)


def _report_newest(runs: Path) -> None:
    """Write the report of the run that has just ended."""
    from sim2real_deploy.cli.bag import report

    summaries = list(runs.glob("*/summary.json"))
    if summaries:
        newest = max(summaries, key=lambda file: file.stat().st_mtime)
        report(newest.parent, output=None)


def _split(argument: str) -> tuple[str, str]:
    name, separator, value = argument.partition(":=")
    if not separator:
        raise Refusal(f"'{argument}': arguments are written name:=value")
    return name, value


def _show(arguments: tuple[Argument, ...]) -> None:
    for argument in arguments:
        choices = f" ({'|'.join(argument.choices)})" if argument.choices else ""
        typer.echo(f"  {argument.name}:={argument.default}{choices}\n      {argument.description}")


@app.command("security")
def security(
    robot: str = typer.Option("go2", help="Robot: a name in config/robots."),
    namespace: str = typer.Option("", help="ROS namespace of the stack."),
) -> None:
    """Print the stack's SROS2 policy: who may publish, hear and call what."""
    from sim2real_deploy.bringup.access import policy_xml
    from sim2real_deploy.robots import load_robot

    typer.echo(policy_xml(load_robot(robot).name, namespace), nl=False)
