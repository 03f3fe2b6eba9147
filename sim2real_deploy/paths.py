"""Where the package's data (config, policies, launch) lies: a checkout, a venv, a colcon prefix."""

from pathlib import Path

from sim2real_deploy.errors import Refusal

PACKAGE = "sim2real_deploy"


def share_directory() -> Path:
    """The folder that holds config/ and policies/: the checkout, or <prefix>/share/<package>."""
    here = Path(__file__).resolve().parent
    if (here.parent / "package.xml").is_file():
        return here.parent
    for prefix in here.parents:
        share = prefix / "share" / PACKAGE
        if (share / "package.xml").is_file():
            return share
    raise Refusal(
        f"no share/{PACKAGE} folder above {here}: the install is incomplete; "
        "install the package again (`pip install .` or `colcon build`)"
    )


def config_file(relative: str) -> Path:
    """A file under config/, which may or may not exist: reading it gives the message."""
    return share_directory() / "config" / relative
