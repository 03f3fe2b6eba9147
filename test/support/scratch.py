"""A copy of the package that a test may change."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.places import ROOT, TEST

COPIED = ("sim2real_deploy", "config", "policies", "package.xml", ".importlinter")


def scratch_copy(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def run_in(folder: Path, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A Python module or program of this environment, with the copy before everything else."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{TEST}"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
