"""MkDocs hook: pages of every command, argument and parameter, generated from the code."""

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from sim2real_deploy import cli, nodes
from sim2real_deploy.bringup.graph import BRINGUPS
from sim2real_deploy.nodes.common import Parameter
from sim2real_deploy.robots import load_robot
from sim2real_deploy.safety.events import events_for

ROBOT = "go2"  # whose limits the events table shows


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in PAGES.items():
        content = "\n".join(page())
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def commands() -> Iterator[str]:
    from typer.main import get_command

    for module in pkgutil.iter_modules(cli.__path__):
        import_module(f"{cli.__name__}.{module.name}")
    yield "# Commands\n\nEvery `sim2real` command with its arguments and options.\n"
    yield from _command("sim2real", get_command(cli.app))


def _command(name: str, command: Any) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield f"## {name}\n\n{_text(command.help)}\n"
        rows = []
        for option in command.params:
            names = ", ".join(f"`{text}`" for text in option.opts)
            if option.param_type_name == "argument":
                names = f"`{str(option.name).upper()}`"
            default = option.default
            shown = "" if callable(default) or default in (None, False, [], "") else f"`{default}`"
            rows.append((names, shown, _text(getattr(option, "help", ""))))
        yield from _table(("", "default", ""), rows)
    for word, one in sorted(inner.items()):
        yield from _command(f"{name} {word}", one)


def arguments() -> Iterator[str]:
    yield "# Launch arguments\n\nOf `ros2 launch sim2real_deploy NAME.launch.py` and"
    yield "`sim2real up NAME`, given as `name:=value`.\n"
    for name, (known, _) in BRINGUPS.items():
        yield f"## {name}\n"
        yield from _table(
            ("argument", "default", "choices", ""),
            (
                (f"`{a.name}`", f"`{a.default}`" if a.default else "", _words(a.choices),
                 _text(a.description))
                for a in known
            ),
        )  # fmt: skip


def parameters() -> Iterator[str]:
    yield "# Node parameters\n\nROS parameters of every node: typed, bounded, and read-only while"
    yield "it runs.\n"
    for module in pkgutil.iter_modules(nodes.__path__):
        values = vars(import_module(f"{nodes.__name__}.{module.name}")).values()
        tables = [value for value in values if isinstance(value, tuple)]
        known = {p.name: p for table in tables for p in table if isinstance(p, Parameter)}
        if known and module.name != "common":
            yield f"## {module.name}\n"
            yield from _table(
                ("parameter", "default", "allowed", ""), map(_parameter, known.values())
            )


def _parameter(parameter: Parameter) -> tuple[str, str, str, str]:
    low_high = "" if parameter.bounds is None else "{:g} to {:g}".format(*parameter.bounds)
    default = f"`{parameter.default!r}`"
    allowed = low_high or _words(parameter.choices)
    return f"`{parameter.name}`", default, allowed, _text(parameter.description)


def events() -> Iterator[str]:
    yield f"# Safety events\n\nThe table of `safety/events.py` for the {ROBOT}. A robot or a stage"
    yield "may change a row in `config/safety.yaml`, within the bounds shown.\n"
    yield from _table(
        ("event", "threshold", "for", "reaction", "bounds", "what to do"),
        (
            (f"`{e.key}`", f"{'<' if e.below else '>'} {e.threshold:g} {e.unit}",
             f"{e.time_s:g} s", e.reaction.name.lower(), "{:g} to {:g}".format(*e.bounds),
             _text(e.remedy))
            for e in events_for(load_robot(ROBOT))
        ),
    )  # fmt: skip


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = tuple(head)
    yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _words(choices: Iterable[str]) -> str:
    return ", ".join(f"`{choice}`" for choice in choices)


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")


PAGES = {
    "commands": commands,
    "launch_arguments": arguments,
    "node_parameters": parameters,
    "safety_events": events,
}
