"""Progress and tables in a terminal, or in a log."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bar
from rich.table import Table

Progress = Callable[[str, float], None]  # what is being done; overall progress from 0 to 1


def silent(_what: str, _done: float) -> None:
    """Progress that is not shown, of a part of larger work."""


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """A progress bar in a terminal; in a log, a line whenever something else begins."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        shown = ""

        def show(what: str, done: float) -> None:
            nonlocal shown
            if what != shown:
                shown = what
                console.print(f"{done:4.0%}  {what}", markup=False)

        yield show
        return
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, done: bar.update(task, description=what, completed=done)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    table = Table(*columns, title=title or None, title_justify="left")
    for row in rows:
        table.add_row(*(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row))
    Console().print(table)
