"""The CI example is one that would run: YAML, with a command and options that exist."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim2real_deploy.gate.scenarios import load_scenarios
from support.places import ROOT

DOCS = ROOT / "docs"
EXAMPLE = DOCS / "examples/policy-gate.yml"
SIM2REAL = Path(sys.executable).with_name("sim2real")


@pytest.fixture(scope="module")
def steps() -> list[dict[str, Any]]:
    content = yaml.safe_load(EXAMPLE.read_text())
    return [step for job in content["jobs"].values() for step in job["steps"]]


def test_every_command_of_the_example_knows_its_options(steps: list[dict[str, Any]]) -> None:
    said = re.findall(
        r"sim2real (policy \w+|\w+) ([^\n]*)", "\n".join(s.get("run", "") for s in steps)
    )
    assert [command for command, _ in said] == ["policy check", "eval"]
    for command, rest in said:
        shown = subprocess.run(
            [str(SIM2REAL), *command.split(), "--help"],
            capture_output=True,
            text=True,
            env={"COLUMNS": "200", "TERM": "dumb"},
            check=True,
        )
        for option in re.findall(r"(--[a-z]+)", rest):
            assert option in shown.stdout, f"{command}: {option}"


def test_what_it_uploads_is_what_the_gate_writes(steps: list[dict[str, Any]]) -> None:
    gate = next(step["run"] for step in steps if step.get("name") == "Gate")
    uploaded = steps[-1]["with"]["path"].split()
    for option in ("--json", "--html"):
        assert re.search(rf"{option} (\S+)", gate)[1] in uploaded


def test_the_scenario_in_the_document_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```\n(name: wet_ramp.*?)```", (DOCS / "gate.md").read_text(), re.DOTALL)
    (tmp_path / "wet_ramp.yaml").write_text(text)
    (scenario,) = load_scenarios([], tmp_path)
    assert scenario.floor.kind == "slope"
