"""`sim2real excite`: the excitation protocol on a hung twin; on a robot it is a service."""

from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import app


@app.command("excite")
def excite(
    output: Annotated[
        Path, typer.Argument(help="Folder of the new bag; an existing one is never overwritten.")
    ],
    robot: Annotated[str, typer.Option(help="Robot: a name in config/robots.")] = "go2",
    preset: Annotated[str, typer.Option(help="Twin preset: a name in config/twins.")] = "default",
    mount: Annotated[str, typer.Option(help="How the trunk is held: hung or fixed.")] = "hung",
    minutes: Annotated[float, typer.Option(min=0.2, max=10, help="Minutes of movement.")] = 4.0,
    kp: Annotated[
        float,
        typer.Option(
            min=1, max=200, help="Stiffness of the policy to be deployed; a stiffer pass follows."
        ),
    ] = 25.0,
    kd: Annotated[
        float, typer.Option(min=0.1, max=10, help="Damping of the policy to be deployed.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Hang the twin up, move every joint (still, triangles, chirps), record it for `identify`.

    On a real robot, hung up with the stack running, stand it and call its service
    <robot>_driver/excite: the same mode, limits and safety, recorded by the stack's recorder.
    """
    from sim2real_deploy import configfile
    from sim2real_deploy.console import shown_progress
    from sim2real_deploy.identify.lockstep import excite as run
    from sim2real_deploy.robots import load_robot
    from sim2real_deploy.twin.files import load_imperfections
    from sim2real_deploy.twin.mount import Mount
    from sim2real_deploy.twin.robot import TwinRobot

    held = configfile.parse({"kind": mount}, Mount, "--mount")
    twin = TwinRobot(
        load_robot(robot), imperfections=load_imperfections(preset, robot), seed=seed, mount=held
    )
    with shown_progress() as progress:
        run(twin, output, minutes, (kp, kd), progress)
    typer.echo(f"bag: {output}; next: sim2real identify {output}")
