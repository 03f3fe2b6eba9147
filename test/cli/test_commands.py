"""Commands that measure, end to end: the figures in the file are the ones on the wire."""

import ctypes.util
import json
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

SIM2REAL = [sys.executable, "-c", "from sim2real_deploy.cli import main; main()"]
DRAW = textwrap.dedent("""
    import sys
    from pathlib import Path
    from sim2real_deploy.twin.headless import choose_renderer
    choose_renderer()
    from sim2real_deploy.bench.gait_pictures import gait_pictures
    from sim2real_deploy.policy.bundle import load_bundle
    from sim2real_deploy.robots import load_robot
    folder = Path(sys.argv[1])
    bundle = load_bundle("go2_walk", load_robot("go2"))
    gait_pictures(bundle, folder / "strip.png", folder / "feet.png")
""")


@pytest.mark.timeout(200)
def test_an_estop_is_timed_from_the_call_to_the_wire(tmp_path: Path) -> None:
    file = tmp_path / "estop.json"
    command = [*SIM2REAL, "bench", "estop", "--calls", "3", "--json", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    told = json.loads(file.read_text())
    assert len(told["times_ms"]) == 3
    assert all(took > 0.1 and math.isfinite(took) for took in told["times_ms"]), ran.stdout
    (check,) = told["checks"]
    assert ran.returncode == (0 if check["ok"] else 1)
    assert check["ok"] == (check["value"] <= 50.0)


@pytest.mark.skipif(
    ctypes.util.find_library("OSMesa") is None, reason="libosmesa6 is not installed"
)
def test_the_gait_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    imageio = pytest.importorskip("imageio.v2", reason="imageio is not installed")
    quiet = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    subprocess.run([sys.executable, "-c", DRAW, str(tmp_path)], check=True, timeout=120, env=quiet)
    strip, feet = imageio.imread(tmp_path / "strip.png"), imageio.imread(tmp_path / "feet.png")
    assert strip.shape[:2] == (2 * 240, 4 * 300)
    assert strip[..., :3].std() > 10
    assert (feet[..., 2] > feet[..., 0] + 60).mean() > 0.1  # bars, in blue
