"""Who may import whom: a planted import that breaks the rule is found, and named."""

from pathlib import Path

import pytest

pytest.importorskip("importlinter", reason="import-linter is not installed")
from support.scratch import run_in, scratch_copy

LINT = ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")


@pytest.mark.parametrize(
    ("file", "line", "contract", "named"),
    [
        (
            "wire/layout.py",
            "from sim2real_deploy.control import modes",
            "A room imports only the rooms below it BROKEN",
            "sim2real_deploy.wire.layout -> sim2real_deploy.control.modes",
        ),
        (
            "control/modes.py",
            "import rclpy",
            "Only nodes/ imports rclpy BROKEN",
            "sim2real_deploy.control.modes -> rclpy",
        ),
    ],
)
def test_a_planted_import_is_refused_by_name(
    tmp_path: Path, file: str, line: str, contract: str, named: str
) -> None:
    copy = scratch_copy(tmp_path)
    planted = copy / "sim2real_deploy" / file
    planted.write_text(planted.read_text() + f"\n{line}\n")
    done = run_in(copy, *LINT, "--no-cache")
    assert done.returncode == 1, done.stdout + done.stderr
    assert contract in done.stdout
    assert named in done.stdout
    assert ", 1 broken" in done.stdout
