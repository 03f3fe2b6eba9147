"""`sim2real --help` imports nothing heavy: it must come at once."""

import subprocess
import sys

HEAVY = ("numpy", "pydantic", "yaml", "numba", "mujoco", "onnxruntime", "rclpy", "torch")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['sim2real', '--help']\n"
        "from sim2real_deploy.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bench" in done.stdout
    assert "loaded: []" in done.stdout
