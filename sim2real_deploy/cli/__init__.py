"""The `sim2real` command. One module per verb or family; each imports its heavy parts late."""

import pkgutil
import sys
from importlib import import_module

import typer

from sim2real_deploy import __version__
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install

SIMULATION = ("mujoco", "numba")  # not on a robot's own computer

app = typer.Typer(
    help="Put a walking policy trained in simulation onto a legged robot, safely.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point. A Refusal, which the user can fix, is printed as text and exits with 2."""
    for module in pkgutil.iter_modules(__path__):  # each module registers its commands
        import_module(f"{__name__}.{module.name}")
    try:
        app()
    except Refusal as refusal:
        typer.secho(str(refusal), fg="red", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in SIMULATION:
            raise
        words = f"this needs {error.name}: {to_install('sim')}"
        typer.secho(words, fg="red", err=True)
        sys.exit(2)
