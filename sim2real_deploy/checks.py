"""Figures with their bounds: one table, one JSON form and one exit code for every command.

`--json FILE` holds {"command", "version", "machine", "checks": [...], ...raw}; the exit code is 1
if a check fails.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sim2real_deploy import __version__


@dataclass(frozen=True, slots=True)
class Check:
    """One figure and its bound."""

    name: str
    value: float
    unit: str
    bound: str  # in words: "<= 0.15", ">= 30"
    ok: bool

    @classmethod
    def at_most(cls, name: str, value: float, bound: float, unit: str = "") -> "Check":
        return cls(name, value, unit, f"<= {bound:g}", bool(value <= bound))

    @classmethod
    def at_least(cls, name: str, value: float, bound: float, unit: str = "") -> "Check":
        return cls(name, value, unit, f">= {bound:g}", bool(value >= bound))


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def write_json(path: Path, command: str, checks: Sequence[Check], raw: Mapping[str, Any]) -> None:
    """Write the result file, creating its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "command": command,
        "version": __version__,
        "machine": machine(),
        "checks": [asdict(check) for check in checks],
        **raw,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def print_table(title: str, checks: Sequence[Check]) -> None:
    table = Table("what", "value", "unit", "bound", "", title=title, title_justify="left")
    for check in checks:
        verdict = "[green]ok[/green]" if check.ok else "[bold red]NOT OK[/bold red]"
        table.add_row(check.name, f"{check.value:.4g}", check.unit, check.bound, verdict)
    Console().print(table)


def exit_code(checks: Sequence[Check]) -> int:
    return 0 if all(check.ok for check in checks) else 1
