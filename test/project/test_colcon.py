"""The package as colcon builds it: what `ros2 run` finds, and the command on PATH."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NODES = {path.stem for path in (ROOT / "scripts").iterdir()}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scratch workspace, built."""
    pytest.importorskip("colcon_ros", reason="no colcon here: pip install colcon-ros")
    workspace = tmp_path_factory.mktemp("workspace")
    ignored = shutil.ignore_patterns(".*", "runs", "build", "install", "log", "*.egg-info", "site")
    shutil.copytree(ROOT, workspace / "src" / "sim2real_deploy", symlinks=True, ignore=ignored)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    built = subprocess.run(
        [sys.executable, "-m", "colcon", "build"],
        cwd=workspace,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return workspace / "install"


def test_every_executable_that_ros2_run_lists_runs(prefix: Path) -> None:
    folder = prefix / "sim2real_deploy" / "lib" / "sim2real_deploy"
    assert {path.name for path in folder.iterdir()} == NODES
    for name in NODES - {"sim2real"}:
        assert (ROOT / "sim2real_deploy" / "nodes" / f"{name}.py").is_file()


def test_the_command_is_on_path_and_finds_its_files(prefix: Path) -> None:
    script = '. "$1"/setup.sh && command -v sim2real && sim2real policy info go2_walk'
    said = subprocess.run(
        ["sh", "-c", script, "sh", str(prefix)],
        cwd=prefix,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(str(prefix / "sim2real_deploy" / "bin" / "sim2real"))
    assert "go2_walk" in said.stdout


def test_rosdep_is_told_of_every_ros_package_that_is_imported() -> None:
    """A package that is only there because another one brought it goes when that one does."""
    manifest = (ROOT / "package.xml").read_text(encoding="utf-8")
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "sim2real_deploy").rglob("*.py")
    )
    declared = {
        line.split(">")[1].split("<")[0] for line in manifest.splitlines() if "_depend>" in line
    }
    for name in ("rcl_interfaces", "rosgraph_msgs", "std_msgs", "std_srvs", "sensor_msgs",
                 "geometry_msgs", "nav_msgs", "diagnostic_msgs", "tf2_msgs",
                 "trajectory_msgs"):  # fmt: skip
        imported = f"from {name}." in sources or f"import {name}" in sources
        assert imported == (name in declared), name
