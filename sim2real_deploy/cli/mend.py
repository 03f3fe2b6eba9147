"""`sim2real mend`: repair a bag that was cut off."""

from pathlib import Path

import typer

from sim2real_deploy.cli import app


@app.command("mend")
def mend(run: Path = typer.Argument(..., help="Directory of the bag.")) -> None:
    """Close a bag after a crash or power cut, so that `ros2 bag` and Foxglove open it too."""
    from sim2real_deploy.bags.mend import mend as mend_bag

    typer.echo(f"{run}: closed, with {mend_bag(run)} messages")
