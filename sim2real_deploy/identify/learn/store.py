"""Stores a learnt network as part of a new twin; nothing is overwritten."""

import shutil
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sim2real_deploy import __version__
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.recording import Recording, named
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import NetworkFile
from sim2real_deploy.twin.files import (
    IDEAL,
    TwinFile,
    load_twin_file,
    twin_path,
    write_twin_file,
)
from sim2real_deploy.twin.networks import Stored, digest, place, write_network

KINDS = ("actuator", "action")


def card_of(
    kind: str, robot: RobotSpec, twin: str, recordings: Sequence[Recording]
) -> dict[str, Any]:
    """A network's origin, as stored with it; undated: the same data give the same bytes."""
    return {
        "kind": kind,
        "robot": robot.name,
        "joints": list(robot.joint_names),
        "twin": twin,
        "version": __version__,
        "recordings": {recording.name: recording.digest for recording in recordings},
    }


def learnt_from(recordings: Sequence[Recording]) -> str:
    today = datetime.now(timezone.utc).date().isoformat()
    return f"Learnt on {today} from {named(recordings)}."


def identified_twin(name: str, robot: str) -> TwinFile:
    """Refuse a twin that was never identified: a network does not replace identification."""
    file = load_twin_file(name, robot) if name != IDEAL else None
    if file is None or file.identified is None:
        raise Refusal(
            f"twin '{name}' was never identified: a network would learn what a few figures say "
            "better. Run `sim2real identify BAG... --output NAME` first, then learn on NAME"
        )
    return file


def check_free(output: str) -> None:
    """Refuse, before any work, to overwrite files of an existing twin."""
    for path in (twin_path(output), *(_network_path(output, kind) for kind in KINDS)):
        if path.exists():
            raise Refusal(f"{path}: already exists; choose another name or remove it first")


def store(output: str, file: TwinFile, kind: str, network: Stored, source: str) -> Path:
    """Write the twin `output`: the given one with this network in place of any of its kind."""
    check_free(output)
    path = twin_path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    changed: dict[str, NetworkFile] = {}
    for other in KINDS:
        named = getattr(file.twin.learned, other)
        if other != kind and named is not None:
            copied = _network_path(output, other)
            shutil.copyfile(place(named), copied)
            changed[other] = NetworkFile(file=copied.name, digest=digest(copied))
    target = _network_path(output, kind)
    changed[kind] = NetworkFile(file=target.name, digest=write_network(target, network))
    learned = file.twin.learned.model_copy(update=changed)
    twin = file.twin.model_copy(update={"learned": learned})
    sources = file.sources | {f"learned.{kind}": source}
    write_twin_file(path, file.model_copy(update={"twin": twin, "sources": sources}))
    return path


def _network_path(output: str, kind: str) -> Path:
    path = twin_path(output)
    return path.with_name(f"{path.stem}.{kind}.npz")
