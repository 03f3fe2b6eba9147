"""Fetching a policy's files from Hugging Face or Weights & Biases, with their own libraries.

Only networks and descriptions are fetched and nothing is run; the import then reads the folder like
any other.
"""

import importlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import MAX_MODEL_BYTES
from sim2real_deploy.policy.importers.places import DESCRIPTIONS, NETWORKS

FORMS = (
    "hf://OWNER/REPOSITORY[/FOLDER][@REVISION]",
    "wandb://ENTITY/PROJECT/RUN",
    "wandb://ENTITY/PROJECT/ARTIFACT:VERSION",
)
WANTED = (*NETWORKS, *DESCRIPTIONS, ".data")
LIBRARIES = {"hf": "huggingface_hub", "wandb": "wandb"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a policy is: in a repository, possibly in a folder of it."""

    place: Literal["hf", "wandb"]
    repository: str
    folder: str = ""
    revision: str = ""


def parse(text: str) -> Address:
    known = " or ".join(FORMS)
    match = re.fullmatch(r"(hf|wandb)://([^@]+?)/?(?:@([\w./-]+))?", text)
    if match is None:
        raise Refusal(f"'{text}': must be {known}")
    place, path, revision = match.groups()
    parts = path.split("/")
    least = 2 if place == "hf" else 3
    if len(parts) < least or any(part in ("", ".", "..") for part in parts):
        raise Refusal(f"'{text}': must be {known}")
    if place == "hf":
        return Address("hf", "/".join(parts[:2]), "/".join(parts[2:]), revision or "")
    if len(parts) > 3 or revision:
        raise Refusal(f"'{text}': must be {known}")
    return Address("wandb", "/".join(parts))


def pull(text: str, folder: Path) -> list[Path]:
    """Fetch the wanted files into a new `folder`; returns their paths."""
    address = parse(text)
    if folder.exists():
        raise Refusal(f"{folder}: already exists; nothing is overwritten")
    name = LIBRARIES[address.place]
    try:
        library = importlib.import_module(name)
    except ImportError:
        raise Refusal(f"{text}: needs the package {name}: pip install {name}") from None
    try:
        fetch = _from_hugging_face if address.place == "hf" else _from_wandb
        fetch(library, address, folder)
    except Refusal:
        raise
    except Exception as error:  # both libraries raise many kinds, including network errors
        raise Refusal(f"{text}: cannot be fetched: {str(error).strip()}") from None
    found = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.exists() else []
    if not found:
        raise Refusal(f"{text}: holds no network and no description ({', '.join(WANTED)})")
    return found


def _from_hugging_face(library: Any, address: Address, folder: Path) -> None:
    revision = address.revision or None
    info = library.HfApi().model_info(address.repository, revision=revision, files_metadata=True)
    for file in info.siblings:
        inside = not address.folder or file.rfilename.startswith(f"{address.folder}/")
        if inside and _is_wanted(file.rfilename, file.size):
            library.hf_hub_download(
                address.repository, file.rfilename, revision=revision, local_dir=str(folder)
            )


def _from_wandb(library: Any, address: Address, folder: Path) -> None:
    source = library.Api()
    if ":" in address.repository:
        files = source.artifact(address.repository).files()
    else:
        files = source.run(address.repository).files()
    for file in files:
        if _is_wanted(file.name, file.size):
            file.download(root=str(folder))


def _is_wanted(name: str, size: int | None) -> bool:
    path = PurePosixPath(name)
    if path.suffix not in WANTED or path.is_absolute() or ".." in path.parts:
        return False
    if size is not None and size > MAX_MODEL_BYTES:
        raise Refusal(f"{name}: {size} bytes is too large for a policy")
    return True
