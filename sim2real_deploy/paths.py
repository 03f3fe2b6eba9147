"""Finds the package's data (config, policies, launch) in a checkout, a venv or a colcon prefix."""

import re
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
    """A path below config/; it may not exist: reading it gives the message."""
    return share_directory() / "config" / relative


def to_install(*extras: str) -> str:
    """The command that installs what an optional part needs, package by package: this package is
    not on an index, and after `colcon build` it cannot be installed again with extras."""
    from importlib.metadata import PackageNotFoundError, requires  # slow, and rarely needed

    try:
        declared = requires(PACKAGE) or []
    except PackageNotFoundError:  # run from a bare folder
        return f"pip install -e '.[{','.join(extras)}]' in the checkout"
    of = re.compile(rf"extra == [\"']({'|'.join(extras)})[\"']")
    wanted = [entry.partition(";")[0].strip() for entry in declared if of.search(entry)]
    return "pip install " + " ".join(f"'{entry}'" for entry in wanted)
