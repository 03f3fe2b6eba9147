"""`sim2real security`: the SROS2 policy of the node graph."""

import typer

from sim2real_deploy.cli import app


@app.command("security")
def security(
    robot: str = typer.Option("go2", help="Robot: a name in config/robots."),
    namespace: str = typer.Option("", help="ROS namespace of the stack."),
) -> None:
    """Print the stack's SROS2 policy: who may publish, hear and call what."""
    from sim2real_deploy.bringup.access import policy_xml
    from sim2real_deploy.robots import load_robot

    typer.echo(policy_xml(load_robot(robot).name, namespace), nl=False)
