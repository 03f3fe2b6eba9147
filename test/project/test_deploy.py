"""What is shipped for a robot's own computer: it must at least be well-formed, and agree."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize("script", ["install.sh", "entrypoint.sh"])
def test_scripts_parse(script: str) -> None:
    shell = (DEPLOY / script).read_text().splitlines()[0].removeprefix("#!")
    subprocess.run([shell, "-n", str(DEPLOY / script)], check=True)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    unit = tmp_path / "sim2real.service"
    unit.write_text((DEPLOY / unit.name).read_text().replace("User=unitree\n", ""))
    said = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    complaints = [line for line in said.stderr.splitlines() if "sim2real.service" in line]
    assert complaints == []


def test_a_stack_that_ended_is_not_started_again_by_itself() -> None:
    unit = (DEPLOY / "sim2real.service").read_text()
    assert "Restart=no\n" in unit
    assert "KillSignal=SIGINT\n" in unit


def test_the_install_line_names_everything_that_the_package_needs() -> None:
    """Run-time requirements of setup.py, with their floors; DDS comes with ROS 2."""
    required = re.search(r"install_requires=\[(.*?)\n    \]", (ROOT / "setup.py").read_text(), re.S)
    assert required is not None
    names = set(re.findall(r'^\s+"([^"]+)"', required.group(1), re.M)) - {"setuptools", "numpy"}
    line = (DEPLOY / "install.sh").read_text()
    missing = {name for name in names if not re.search(rf"[\s']{re.escape(name)}['\s]", line)}
    assert missing == set()
