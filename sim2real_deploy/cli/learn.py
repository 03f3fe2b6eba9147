"""`sim2real learn`: networks for what the identified physics leaves unexplained."""

import os
from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import app

learn = typer.Typer(help="Learn what identification leaves unexplained.", no_args_is_help=True)
app.add_typer(learn, name="learn")

Bags = Annotated[list[Path], typer.Argument(help="Bags of the robot that the twin describes.")]
Twin = Annotated[str, typer.Option(help="The identified twin to learn on.")]
Robot = Annotated[str, typer.Option(help="Robot: a name in config/robots.")]
Output = Annotated[
    str, typer.Option(help="Write the twin with its network as config/twins/NAME.yaml.")
]
Html = Annotated[Path | None, typer.Option(help="Write a report with plots here.")]


@learn.callback()
def _root() -> None:
    """One thread, set before numpy is imported: more are slower for small matrices, and results
    would differ in the last bits."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@learn.command()
def actuator(
    bags: Bags,
    twin: Twin,
    robot: Robot = "go2",
    output: Output = "",
    html: Html = None,
    inputs: Annotated[
        str, typer.Option(help="torque (now, 10 and 20 ms ago) or history (50 steps).")
    ] = "torque",
) -> None:
    """Torque and friction beyond the identified motor: bags with torque, two sets of gains."""
    from sim2real_deploy.analysis.learn_report import write_actuator_report
    from sim2real_deploy.console import print_rows, shown_progress
    from sim2real_deploy.errors import Refusal
    from sim2real_deploy.identify.figures import figures_of
    from sim2real_deploy.identify.learn import store, summary
    from sim2real_deploy.identify.learn.actuator import check, learn_actuator
    from sim2real_deploy.robots import load_robot
    from sim2real_deploy.twin.actuator_net import FORMATS

    if inputs not in FORMATS:
        raise Refusal(f"--inputs {inputs}: there are {', '.join(FORMATS)}")
    spec, recordings = load_robot(robot), _recordings(bags)
    check(spec, recordings)
    file = store.identified_twin(twin, robot)
    if output:
        store.check_free(output)
    figures = figures_of(file.twin, spec)
    with shown_progress() as progress:
        found = learn_actuator(spec, recordings, figures, inputs, progress)
        others = [form for form in FORMATS if form != inputs] if html else []
        beside = [learn_actuator(spec, recordings, figures, form, progress) for form in others]
    rows = summary.rows(found, found.reported, 0)
    print_rows(summary.HEAD, rows, "reported torque in held-out blocks, Nm rms")
    for name, (identified, unseen, seen) in found.unseen_gains.items():
        typer.echo(
            f"{name}: {identified:.3f} Nm as identified, {unseen:.3f} with a network that never "
            f"saw these gains, {seen:.3f} with one that did"
        )
    if output:
        network = found.weights.stored(summary.card(found, twin, recordings))
        path = store.store(output, file, "actuator", network, summary.source(found, recordings))
        typer.echo(f"twin: {path}; open it anywhere as preset:={output}")
    if html is not None:
        write_actuator_report(html, twin, recordings, [found, *beside])
        typer.echo(f"report: {html}")


@learn.command()
def action(
    bags: Bags,
    twin: Twin,
    robot: Robot = "go2",
    output: Output = "",
    html: Html = None,
) -> None:
    """Changes of the targets with which the simulator follows the recording; no torque needed."""
    from sim2real_deploy.analysis.learn_report import write_action_report
    from sim2real_deploy.console import print_rows, shown_progress
    from sim2real_deploy.identify.learn import store
    from sim2real_deploy.identify.learn.delta import learn_action
    from sim2real_deploy.robots import load_robot

    spec, recordings = load_robot(robot), _recordings(bags)
    file = store.identified_twin(twin, robot)
    if output:
        store.check_free(output)
    with shown_progress() as progress:
        found = learn_action(spec, recordings, file.twin, progress)
    print_rows(found.head, found.rows(), "joints in held-out windows, rad rms")
    if found.network is None:
        typer.secho(found.verdict, fg="yellow")
    elif output:
        network = found.network.stored(found.card(twin, recordings))
        path = store.store(output, file, "action", network, found.source(recordings))
        typer.echo(f"twin: {path}; open it anywhere as preset:={output}")
    if html is not None:
        write_action_report(html, twin, recordings, found)
        typer.echo(f"report: {html}")


def _recordings(bags: list[Path]):  # type: ignore[no-untyped-def]
    from sim2real_deploy.bags.recorded import Recorded
    from sim2real_deploy.identify.recording import from_bag

    return [from_bag(Recorded.open(bag)) for bag in bags]
