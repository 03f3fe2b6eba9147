"""`sim2real bench` and `faults`: measure, judge, exit with 1 if a check fails."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sim2real_deploy.cli import app

if TYPE_CHECKING:
    from sim2real_deploy.bench.conduct import BenchResult
    from sim2real_deploy.console import Progress

bench = typer.Typer(
    help="Measure, compare with a baseline in the same run, and judge.", no_args_is_help=True
)
app.add_typer(bench, name="bench")

Json = Annotated[Path | None, typer.Option(help="Write figures and checks to this file.")]
Robot = Annotated[str, typer.Option(help="Robot: a name in config/robots.")]
Policy = Annotated[str, typer.Option(help="A policy in policies/, or a bundle's folder.")]
PolicyArgument = Annotated[str, typer.Argument(help="A policy in policies/, or a bundle's folder.")]


def _conduct(command: str, measure: "Callable[[Progress], BenchResult]", json: Path | None) -> None:
    """Measure, show, store; exits with 1 if a check fails."""
    from sim2real_deploy.bench.conduct import conduct

    raise typer.Exit(conduct(command, measure, json))


@bench.command()
def control(
    json: Json = None,
    seconds: Annotated[float, typer.Option(min=6.0, help="Seconds for each contestant.")] = 15.0,
    policy: Policy = "go2_walk",
    robot: Robot = "go2",
    adaptation: Annotated[str, typer.Option(help="Adaptation in our loop, as in `up`.")] = "none",
) -> None:
    """LowState to LowCmd at 500 Hz: ours, C, the vendor SDK's usual loop, and a bare echo."""
    from sim2real_deploy.bench.control import run

    _conduct("bench control", partial(run, robot, policy, seconds, adaptation), json)


@bench.command()
def wire(
    json: Json = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="Seconds for each path.")] = 6.0,
    robot: Robot = "go2",
) -> None:
    """Codec, one-way latency between two processes, and CPU: the vendor's SDK against ours."""
    from sim2real_deploy.bench.wire import run

    _conduct("bench wire", partial(run, robot, seconds), json)


@bench.command()
def twin(
    json: Json = None,
    seconds: Annotated[float, typer.Option(min=2.0, help="Seconds on the wire.")] = 60.0,
    preset: Annotated[str, typer.Option(help="Twin preset: a name in config/twins.")] = "default",
    robot: Robot = "go2",
) -> None:
    """The twin's speed against bare mj_step; its rate and real-time factor on the wire."""
    from sim2real_deploy.bench.twin import run

    _conduct("bench twin", partial(run, robot, seconds, preset), json)


@bench.command()
def identify(
    json: Json = None,
    robots: Annotated[int, typer.Option(min=0, help="Hidden robots on the hoist.")] = 20,
    unknown: Annotated[
        int, typer.Option(min=0, help="Hidden robots with a term that the model lacks.")
    ] = 10,
    walkers: Annotated[int, typer.Option(min=0, help="Hidden robots that walk.")] = 20,
    minutes: Annotated[float, typer.Option(min=0.5, help="Minutes of excitation.")] = 2.0,
    done: Annotated[
        Path | None,
        typer.Option(help="Store each robot's result in this file; a later run continues."),
    ] = None,
    robot: Robot = "go2",
) -> None:
    """Identify robots never seen before; about half a minute of one core for each."""
    from sim2real_deploy.bench.identify import run

    _conduct("bench identify", partial(run, robot, robots, unknown, walkers, minutes, done), json)


@bench.command()
def policy(
    policy: PolicyArgument = "go2_walk",
    robot: Robot = "go2",
    seconds: Annotated[int, typer.Option(min=2, help="Seconds for each measurement.")] = 10,
    json: Json = None,
) -> None:
    """Inference time as in the control loop, and after a rest, when caches are cold."""
    from sim2real_deploy.bench.policy import run

    _conduct("bench policy", partial(run, policy, robot, seconds), json)


@bench.command()
def estop(
    json: Json = None,
    calls: Annotated[int, typer.Option(min=1, help="Number of calls.")] = 200,
    policy: Policy = "go2_walk",
    robot: Robot = "go2",
) -> None:
    """Time /safety/estop to damping on the wire, while every core is busy."""
    from sim2real_deploy.bench.estop import run

    _conduct("bench estop", partial(run, robot, policy, calls), json)


@bench.command()
def train(
    config: Annotated[str, typer.Argument(help="A name in config/training.")] = "go2_walk",
    seconds: Annotated[float, typer.Option(help="Seconds to measure.")] = 20.0,
    json: Json = None,
) -> None:
    """Control steps a second: physics alone, with collection, with learning; one worker."""
    from sim2real_deploy.bench.train import run

    _conduct("bench train", partial(run, config, seconds), json)


@bench.command()
def walking(
    policy: PolicyArgument,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each trial.")] = 20,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    json: Json = None,
    table: Annotated[Path | None, typer.Option(help="Write a Markdown table to this file.")] = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Write pictures of the gait to this folder.")
    ] = None,
) -> None:
    """Every command, pushes and worse conditions in the imperfect twin, over many seeds."""
    from sim2real_deploy.bench.walking import run

    _conduct("bench walking", partial(run, policy, seeds, workers, table, pictures), json)


@bench.command()
def adaptation(
    json: Json = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each hidden change.")] = 20,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    only: Annotated[str, typer.Option(help="Only changes whose name contains this.")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    policy: Policy = "go2_walk",
    robot: Robot = "go2",
) -> None:
    """Hidden changes in mid-walk: what adaptation gives back, and what it costs."""
    from sim2real_deploy.bench.adaptation import run

    chosen = range(first, first + seeds)
    _conduct("bench adaptation", partial(run, robot, policy, chosen, only, workers), json)


@bench.command("adaptation-idle")
def adaptation_idle(
    json: Json = None,
    stage: Annotated[str, typer.Option(help="Scenarios that this stage requires.")] = "indoor",
    trials: Annotated[int, typer.Option(min=0, help="Runs of each, with and without.")] = 20,
    minutes: Annotated[float, typer.Option(min=0, help="Minutes of the long walk.")] = 10.0,
    policy: Policy = "go2_walk",
    robot: Robot = "go2",
) -> None:
    """Adaptation with nothing wrong: the gate's scenarios, and a long walk without drift."""
    from sim2real_deploy.bench.adaptation_idle import run

    _conduct("bench adaptation-idle", partial(run, robot, policy, stage, trials, minutes), json)


@bench.command()
def estimates(
    json: Json = None,
    robots: Annotated[int, typer.Option(min=2, help="Hidden robots, one walk each.")] = 24,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    policy: Policy = "go2_walk",
    robot: Robot = "go2",
) -> None:
    """How accurate a policy's own estimates of its robot are, on robots it has not seen."""
    from sim2real_deploy.bench.estimates import run

    _conduct("bench estimates", partial(run, robot, policy, range(first, first + robots)), json)


@bench.command("getup")
def get_up(
    json: Json = None,
    poses: Annotated[int, typer.Option(min=1, help="Number of random poses.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="Seed of the first pose.")] = 0,
    stage: Annotated[str, typer.Option(help="Stage whose limits apply.")] = "indoor",
    robot: Robot = "go2",
) -> None:
    """From any pose to standing: how many, how fast, with how much torque."""
    from sim2real_deploy.bench.get_up import run

    _conduct("bench getup", partial(run, robot, stage, poses, first), json)


@bench.command()
def loop(
    policy: PolicyArgument = "go2_walk",
    robot: Robot = "go2",
    trials: Annotated[
        int, typer.Option(min=0, help="Robots with each hidden change, for the gap report.")
    ] = 20,
    drake: Annotated[bool, typer.Option(help="Also a robot in Drake.")] = True,
    robots: Annotated[int, typer.Option(min=0, help="Hidden robots for the whole loop.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, help="Loops with each hidden robot.")] = 2,
    steps: Annotated[
        int, typer.Option(min=1, help="Steps of fine-tuning in each loop.")
    ] = 1_500_000,
    wrong: Annotated[
        bool, typer.Option(help="Also fine-tune for a deliberately wrong robot.")
    ] = True,
    folder: Annotated[
        Path, typer.Option(help="Folder for results; the same command continues from there.")
    ] = Path("runs/bench_loop"),
    json: Json = None,
) -> None:
    """The gap report and the whole loop, on robots whose truth they never see."""
    from sim2real_deploy.bench.loop_whole import Asked, run

    asked = Asked(trials, drake, robots, seeds, steps, wrong, folder)
    _conduct("bench loop", partial(run, robot, policy, asked), json)


@bench.command()
def soak(
    json: Json = None,
    hours: Annotated[float, typer.Option(min=0.05, help="Hours of simulated walking.")] = 3.0,
    picture: Annotated[Path | None, typer.Option(help="Write the curves to this file.")] = None,
    policy: Policy = "go2_walk",
    robot: Robot = "go2",
) -> None:
    """Hours of walking in lockstep: does memory, disk or the time of a tick grow?"""
    from sim2real_deploy.bench.soak import run

    _conduct("bench soak", partial(run, robot, policy, hours, picture), json)


@bench.command()
def startup(
    json: Json = None,
    times: Annotated[int, typer.Option(min=1, help="Starts that count.")] = 5,
) -> None:
    """How long `--help` takes, and `up` until the robot may stand."""
    from sim2real_deploy.bench.startup import run

    _conduct("bench startup", partial(run, times), json)


@bench.command()
def scale(
    bag: Annotated[
        Path, typer.Argument(help="Bag from this package's recorder that contains a walk.")
    ],
    minutes: Annotated[
        list[float] | None, typer.Option(help="Length of a bag; repeat for more.")
    ] = None,
    json: Json = None,
) -> None:
    """Report, replay, identify and export of longer and longer bags: time and memory."""
    from sim2real_deploy.bench.scale import run

    _conduct("bench scale", partial(run, bag, minutes or [1.0, 10.0, 100.0]), json)


@bench.command()
def learn(
    json: Json = None,
    robots: Annotated[int, typer.Option(min=1, help="Hidden robots on the hoist.")] = 3,
    only: Annotated[
        str,
        typer.Option(
            help="Comma-separated parts: hidden,nothing,drake,chirp,walk,cost; default: all."
        ),
    ] = "",
    real: Annotated[
        Path | None, typer.Option(help="Folder that contains go2_chirp and go2_walk.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the hidden robots.")] = 1,
) -> None:
    """What learnt networks add to identification, on data they have not seen; what they cost."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported
    from sim2real_deploy.bench.learn import run
    from sim2real_deploy.bench.real_logs import beside

    parts = [name.strip() for name in only.split(",") if name.strip()]
    _conduct("bench learn", partial(run, robots, parts, real or beside(), seed), json)


@app.command("faults")
def faults(
    json_file: Path = typer.Option(None, "--json", help="Write the figures to this file."),
    repeat: int = typer.Option(20, min=1, help="How often each fault is injected."),
    quick: bool = typer.Option(False, "--quick", help="Each fault once: about ten minutes."),
    only: str = typer.Option("", help="Only faults whose name contains this."),
    policy: str = typer.Option("go2_walk", help="Policy that walks while faults are injected."),
    robot: str = typer.Option("go2", help="Robot: a name in config/robots."),
    adaptation: str = typer.Option(
        "none", help="Adaptation while faults are injected, as in `up`."
    ),
) -> None:
    """Run the whole stack against the twin, inject every fault, time it on the wire."""
    from sim2real_deploy.bench.faults import run

    times = 1 if quick else repeat
    _conduct("faults", partial(run, robot, policy, times, only, adaptation), json_file)
