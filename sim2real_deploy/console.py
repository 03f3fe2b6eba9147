"""Progress and tables in a terminal, or in a log."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

Progress = Callable[[str, float], None]  # what is being done; overall progress from 0 to 1


class LineProgress:
    """For logs: one line whenever something else begins."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._what = ""

    def __call__(self, what: str, done: float) -> None:
        if what != self._what:
            self._what = what
            self._console.print(f"{done:4.0%}  {what}", highlight=False, markup=False)


def silent(_what: str, _done: float) -> None:
    """Progress that is not shown, of a part of larger work."""


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A progress bar in a terminal, lines in a log."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield LineProgress(console)
        return
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, done: bar.update(task, description=what, completed=done)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    table = Table(*columns, title=title or None, title_justify="left")
    for row in rows:
        table.add_row(*(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row))
    Console().print(table)
