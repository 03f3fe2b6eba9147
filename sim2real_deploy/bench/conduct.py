"""What every benchmark shares: a progress bar, a table of figures, checks, JSON, an exit code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2real_deploy import checks
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress, print_rows, shown_progress


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A benchmark's result: checks with their bounds, raw figures for JSON, a table for people."""

    title: str
    checks: Sequence[Check]
    raw: Mapping[str, Any]
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()


def conduct(command: str, measure: Callable[[Progress], BenchResult], json: Path | None) -> int:
    """Measure with a progress bar, or lines in a log; print the result, write it to `json`;
    returns the exit code."""
    with shown_progress() as progress:
        result = measure(progress)
    if result.rows:
        print_rows(result.columns, result.rows)
    checks.print_table(result.title, result.checks)
    if json is not None:
        checks.write_json(json, command, result.checks, result.raw)
    return checks.exit_code(result.checks)
