"""What the documents tell people to type and to open is there."""

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from sim2real_deploy import cli
from sim2real_deploy.bringup import graph as bringup
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.stages import stages_up_to
from support.places import ROOT

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
COMMAND = re.compile(r"\bsim2real ([a-z_-]+)(?: ([a-z_]+))?((?:[^\n`#&|]|\\\n)*)")
LINK = re.compile(r"\]\(([^)#:]+)\)")
ARGUMENTS = {
    argument.name
    for graph in (bringup.GO2_WALK, bringup.WALK_PROGRAMME, bringup.REPLAY, bringup.TWIN)
    for argument in graph
}


def known() -> dict[str, object]:
    """Every verb, and under "verb sub" those of families."""
    for module in pkgutil.iter_modules(cli.__path__):
        import_module(f"{cli.__name__}.{module.name}")
    command = typer.main.get_command(cli.app)
    verbs = dict(command.commands)
    for name, verb in command.commands.items():
        for sub, inner in getattr(verb, "commands", {}).items():
            verbs[f"{name} {sub}"] = inner
    return verbs


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documented_commands_and_arguments_exist(document: Path) -> None:
    verbs = known()
    for code in CODE.findall(document.read_text(encoding="utf-8")):
        for verb, sub, rest in COMMAND.findall(code):
            assert verb in verbs, f"sim2real {verb}"
            family = hasattr(verbs[verb], "commands")
            assert not (family and sub) or f"{verb} {sub}" in verbs, f"sim2real {verb} {sub}"
            chosen = verbs[f"{verb} {sub}" if family and sub else verb]
            options = {name for p in chosen.params for name in (*p.opts, *p.secondary_opts)}
            for option in re.findall(r"(?<!\S)--[a-z-]+", rest):
                assert option in {*options, "--help"}, f"sim2real {verb} {sub} {option}"
            for needed in chosen.params if code.startswith("```") and rest.strip() else ():
                required = needed.required and needed.opts[0].startswith("--")
                assert not required or needed.opts[0] in rest, f"{verb} {sub}: {needed.opts[0]}"
        for name in re.findall(r"(?<!-p )\b([a-z_]+):=", code):
            assert name in ARGUMENTS | {"name"}, f"{name}:="


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_pictures_are_there(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        generated = target.startswith("reference/")  # by docs/site/reference.py
        assert generated or (document.parent / target).exists(), target


def test_the_site_builds_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    commands = (tmp_path / "reference" / "commands" / "index.html").read_text()
    for verb in known():
        assert f"sim2real {verb}" in commands, verb
    parameters = (tmp_path / "reference" / "node_parameters" / "index.html").read_text()
    for node in ("control", "recorder", "safety_supervisor", "twin", "walk_programme"):
        assert f'id="{node}"' in parameters, node


def test_the_glossary_is_in_order_and_names_every_mode_and_stage() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| \*\*([^*]+)\*\*", text, re.MULTILINE)
    assert len(terms) == len(set(terms)) > 30
    assert [term.lower() for term in terms] == sorted(term.lower() for term in terms)
    for word in [mode.words for mode in Mode] + stages_up_to("field"):
        assert f"`{word}`" in text, word
