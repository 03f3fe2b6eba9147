"""`sim2real twin`: the simulated robot on the wire, without ROS."""

from pathlib import Path

import typer

from sim2real_deploy.cli import app


@app.command("twin")
def twin(
    interface: str = typer.Option("lo", help="Network interface for DDS."),
    domain: int = typer.Option(0, min=0, max=232, help="DDS domain (0 on the robot)."),
    robot: str = typer.Option("go2", help="Robot: a name in config/robots."),
    floor: str = typer.Option("flat", help="flat, rough, slope, stairs, gaps, slippery ..."),
    preset: str = typer.Option("default", help="Twin preset: a name in config/twins, or ideal."),
    mount: str = typer.Option("free", help="How the trunk is held: free, fixed or hung."),
    seed: int = typer.Option(0, min=0, help="Seed of the rough floor and of all noise."),
    duration: float = typer.Option(0.0, min=0, help="Seconds to run; 0: until Ctrl-C."),
    view: bool = typer.Option(False, "--view", help="Open MuJoCo's viewer (needs a display)."),
    video: Path = typer.Option(None, help="Write a video of the run, drawn when it ends."),
    fault: list[str] = typer.Option(
        [], help="A fault or push at the start, e.g. '{push: {force: 100, ...}}'; repeatable."
    ),
) -> None:
    """Run a simulated Go2 for any client of a real one: it starts lying down, sport mode on."""
    from sim2real_deploy.twin.headless import choose_renderer

    if video:
        choose_renderer()
    from sim2real_deploy import configfile
    from sim2real_deploy.robots import load_robot
    from sim2real_deploy.runtime.realtime import calm_interpreter, prefer_this_process
    from sim2real_deploy.twin import views
    from sim2real_deploy.twin.files import load_imperfections
    from sim2real_deploy.twin.floors import named_floor
    from sim2real_deploy.twin.mount import Mount
    from sim2real_deploy.twin.on_wire import TwinOnWire
    from sim2real_deploy.twin.requests import parse
    from sim2real_deploy.twin.robot import TwinRobot
    from sim2real_deploy.twin.session import TwinSession

    if not (video or view):  # software rendering at real-time priority would starve the machine
        prefer_this_process()
    requests = [parse(text) for text in fault]
    body = TwinRobot(
        load_robot(robot),
        named_floor(floor, seed),
        load_imperfections(preset, robot),
        seed=seed,
        sport_mode=True,
        mount=configfile.parse({"kind": mount}, Mount, "--mount"),
    )
    if video:
        views.check_drawing(body.model)
    with TwinOnWire(body, interface, domain) as on_wire:
        for request in requests:
            on_wire.ask(request.apply)
        typer.echo(f"{body.robot.title} twin on '{interface}', domain {domain}, floor {floor}")
        calm_interpreter()
        session = TwinSession(on_wire, duration, keep_poses=video is not None)
        session.run(typer.echo, view)
    if video:
        typer.echo(f"drawing {len(session.poses)} frames into {video}")
        views.write_video(video, body.model, session.poses)
