"""What every benchmark shares: a progress bar, a table of figures, checks, JSON, an exit code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

from sim2real_deploy import checks
from sim2real_deploy.checks import Check

Progress = Callable[[str, float], None]  # what is being measured; overall progress from 0 to 1


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A benchmark's result: checks with their bounds, raw figures for JSON, a table for people."""

    title: str
    checks: Sequence[Check]
    raw: Mapping[str, Any]
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()

    def print(self) -> None:
        if self.rows:
            table = Table(*self.columns, title_justify="left")
            for row in self.rows:
                table.add_row(*(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row))
            Console().print(table)
        checks.print_table(self.title, self.checks)


class LineProgress:
    """For logs: one line whenever something else is measured."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._what = ""

    def __call__(self, what: str, done: float) -> None:
        if what != self._what:
            self._what = what
            self._console.print(f"{done:4.0%}  {what}", highlight=False, markup=False)


def conduct(command: str, measure: Callable[[Progress], BenchResult], json: Path | None) -> int:
    """Measure with a progress bar, or lines in a log; print the result, write it to `json`;
    returns the exit code."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Bar(console=console, transient=True) as bar:
            task = bar.add_task("", total=1.0)
            result = measure(lambda what, done: bar.update(task, description=what, completed=done))
    else:
        result = measure(LineProgress(console))
    result.print()
    if json is not None:
        checks.write_json(json, command, result.checks, result.raw)
    return checks.exit_code(result.checks)
