"""Twins by name: config/twins/<name>.yaml, each figure with its source.

`ideal` is the perfect robot and needs no file; `default` is the file named after the robot.
"""

from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.twin.config import Imperfections

IDEAL, DEFAULT = "ideal", "default"


class IdentifiedFigure(Strict):
    """The result of identification for one figure: a value and its 95 % interval, or why not."""

    verdict: str  # identified, not excited, or confounded with something
    value: float | None = None
    low: float | None = None
    high: float | None = None
    hint: str = ""  # which experiment would show it


class Provenance(Strict):
    """The origin of an identified twin's figures."""

    date: str
    version: str  # of this package
    recordings: dict[str, str]  # by name: the digest of the data
    findings: dict[str, dict[str, IdentifiedFigure]]  # by figure ("motors.friction"), by joint
    residual: dict[str, str] = Field(default_factory=dict)  # by joint: what stays unexplained


class TwinFile(Strict):
    robot: str
    about: str
    sources: dict[str, str]  # by figure or group of figures
    twin: Imperfections
    identified: Provenance | None = None


def load_imperfections(name: str = DEFAULT, robot: str = "go2") -> Imperfections:
    """A twin of this robot by name, or by the path of such a file."""
    if name == IDEAL:
        return Imperfections()
    return load_twin_file(name, robot).twin


def load_twin_file(name: str, robot: str) -> TwinFile:
    path = known_twin(robot if name == DEFAULT else name)
    file = configfile.load(path, TwinFile)
    if file.robot != robot:
        raise Refusal(f"{path}: is a twin of {file.robot}, not of {robot}")
    return file if path == paths.config_file(f"twins/{path.name}") else _beside(file, path.parent)


def _beside(file: TwinFile, folder: Path) -> TwinFile:
    """A twin outside config/twins has its networks in its own folder."""
    placed = {
        kind: network and network.model_copy(update={"file": str(folder.resolve() / network.file)})
        for kind, network in file.twin.learned
    }
    learned = file.twin.learned.model_copy(update=placed)
    return file.model_copy(update={"twin": file.twin.model_copy(update={"learned": learned})})


def known_twin(name: str) -> Path:
    """The file of a twin, which must exist."""
    path = twin_path(name)
    if not path.is_file():
        known = ", ".join((IDEAL, DEFAULT, *sorted(p.stem for p in path.parent.glob("*.yaml"))))
        raise Refusal(f"{path}: there is no twin '{name}'; there are: {known}")
    return path


def twin_path(name: str) -> Path:
    if name.endswith(".yaml"):
        return Path(name)
    return paths.config_file(f"twins/{name}.yaml")


def write_twin_file(path: Path, file: TwinFile) -> None:
    """Refuses to overwrite a file."""
    if path.exists():
        raise Refusal(f"{path}: already exists; choose another name or remove it first")
    content: dict[str, Any] = file.model_dump(mode="json", exclude_defaults=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=100), encoding="utf-8")
