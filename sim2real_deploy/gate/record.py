"""A policy's gate result, stored in its bundle: policies/<name>/gate.json.

It names the network by its sha256 and carries a digest of itself, so an edited result or one of
another network is void. This guards against mistakes, not against forgery.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from sim2real_deploy import configfile
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal

FILE = "gate.json"


class GateRow(Strict):
    """One scenario in one engine."""

    scenario: str
    content: str  # Scenario.digest: all that the result depends on
    engine: str
    runs: int = Field(gt=0)
    successes: int = Field(ge=0)
    interval: tuple[float, float]  # of the success rate, 95 %
    flags: tuple[str, ...]

    @property
    def rate(self) -> float:
        return self.successes / self.runs


class GateRecord(Strict):
    format: Literal[1] = 1
    policy: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")  # of policy.onnx
    contract: str = Field(pattern="^[0-9a-f]{64}$")  # of policy.yaml
    robot: str
    version: str  # of this package
    made: str  # when, UTC
    threshold: float = Field(ge=0, le=1)
    engine: str  # whose rows are judged; others are for comparison
    rows: tuple[GateRow, ...]

    def judged(self) -> dict[str, GateRow]:
        """The rows that are judged, by scenario."""
        return {row.scenario: row for row in self.rows if row.engine == self.engine}

    def digest(self) -> str:
        content = self.model_dump(mode="json")
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def save_record(folder: Path, record: GateRecord) -> Path:
    path = folder / FILE
    content = {**record.model_dump(mode="json"), "digest": record.digest()}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def load_record(folder: Path) -> GateRecord:
    """The stored result, or a Refusal that says why it is void for this bundle."""
    path = folder / FILE
    if not path.is_file():
        raise Refusal(f"{folder.name} has no gate result: there is no {path}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        digest = content.pop("digest")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise Refusal(f"{path}: not a result of the gate: {error}") from None
    record = configfile.parse(content, GateRecord, str(path))
    if digest != record.digest():
        raise Refusal(f"{path}: was changed after it was written, so it is void")
    if record.sha256 != sha256_of(folder / "policy.onnx"):
        raise Refusal(f"{path}: is the result of another network ({record.sha256[:12]}...)")
    if record.contract != sha256_of(folder / "policy.yaml"):
        raise Refusal(f"{path}: policy.yaml has changed since")
    return record


def sha256_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise Refusal(f"{path}: cannot be read: {error.strerror}") from None
