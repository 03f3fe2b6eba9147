"""A parameter file tunes; it neither switches supervision off nor chooses what walks."""

from importlib import import_module
from pathlib import Path

import pytest
import yaml

from sim2real_deploy.bringup.graph import GO2_WALK, resolve
from sim2real_deploy.bringup.params_file import NOT_FROM_FILES, check_params_file
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import config_file


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", sorted(NOT_FROM_FILES))
def test_what_decides_over_motion_does_not_come_from_a_file(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / "p.yaml", f"go2_driver:\n  ros__parameters:\n    {name}: x\n")
    with pytest.raises(Refusal, match=f"go2_driver: '{name}' cannot be set from a file"):
        resolve(GO2_WALK, {"params_file": file})


@pytest.mark.parametrize(
    "text",
    [
        "/**:\n  ros__parameters:\n    supervised: false\n",
        "robot1:\n  go2_driver:\n    ros__parameters:\n      supervised: false\n",
        "a: {ros__parameters: {publish_rate: 50.0}}\nb: {ros__parameters: {stage: field}}\n",
    ],
)
def test_wherever_it_stands_in_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refusal, match="cannot be set from a file"):
        check_params_file(write(tmp_path / "p.yaml", text))


def test_what_tunes_passes(tmp_path: Path) -> None:
    file = write(tmp_path / "p.yaml", "go2_driver:\n  ros__parameters:\n    publish_rate: 50.0\n")
    assert resolve(GO2_WALK, {"params_file": file})["params_file"] == file


def test_a_file_that_is_not_there_is_refused_before_anything_starts() -> None:
    with pytest.raises(Refusal, match="no such file"):
        check_params_file("nowhere.yaml")


def test_the_sample_names_real_parameters_at_their_defaults() -> None:
    path = config_file("params/sample.yaml")
    check_params_file(str(path))
    nodes = yaml.safe_load(path.read_text(encoding="utf-8"))["/**"]
    tables = {"go2_driver": "control.DRIVER"}
    for node, content in nodes.items():
        module, _, table = tables.get(node, f"{node}.PARAMETERS").partition(".")
        declared = getattr(import_module(f"sim2real_deploy.nodes.{module}"), table)
        defaults = {parameter.name: parameter.default for parameter in declared}
        for name, value in content["ros__parameters"].items():
            assert defaults[name] == value, f"{node}: {name}"
            assert type(defaults[name]) is type(value), f"{node}: {name}"
