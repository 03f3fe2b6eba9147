"""What every benchmark shares."""

import json
from pathlib import Path

import pytest

from sim2real_deploy.bench.conduct import BenchResult, conduct
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress


def measured(progress: Progress) -> BenchResult:
    for trial in range(3):
        progress("falls", trial / 6)
    progress("[stops]", 0.5)
    return BenchResult("a bench", [Check.at_most("time", 3.0, 2.0, "ms")], {"times": [3.0]})


def test_a_log_gets_one_line_for_each_thing_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    figures = tmp_path / "figures.json"
    assert conduct("bench something", measured, figures) == 1
    assert capsys.readouterr().err.splitlines() == ["  0%  falls", " 50%  [stops]"]
    assert json.loads(figures.read_text())["times"] == [3.0]
