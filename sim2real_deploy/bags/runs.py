"""The folder of recorded runs: names, pins, and the quota that deletes the oldest."""

import shutil
from datetime import datetime
from pathlib import Path

PIN = "PINNED"


def new_run(root: Path, label: str) -> Path:
    """A new directory name for a run that starts now; names sort by time."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    path = root / f"{stamp}_{label}"
    number = 2
    while path.exists():
        path = root / f"{stamp}_{label}_{number}"
        number += 1
    return path


def attached(file: str, place: int) -> str:
    """The attachment name for a file of the policy at this index in the list."""
    return f"policies/{place}/{file}" if place else file


def pin(run: Path, reason: str) -> None:
    """Protect this run from the quota; the pin file holds the reason."""
    with (run / PIN).open("a", encoding="utf-8") as stream:
        stream.write(reason.rstrip() + "\n")


def size_of(run: Path) -> int:
    total = 0
    for file in run.rglob("*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # deleted meanwhile, by a ring or another quota
            continue
    return total


def enforce_quota(root: Path, quota_bytes: int, current: Path) -> list[Path]:
    """Delete the oldest unpinned runs until the folder fits; never the current one.

    Only bag directories are touched; any other folder stays.
    """
    runs = sorted(
        path for path in root.iterdir() if path.is_dir() and (path / "metadata.yaml").is_file()
    )
    sizes = {run: size_of(run) for run in runs}
    total = sum(sizes.values())
    deleted: list[Path] = []
    for run in runs:
        if total <= quota_bytes:
            break
        if run == current or (run / PIN).exists():
            continue
        shutil.rmtree(run, ignore_errors=True)
        total -= sizes[run]
        deleted.append(run)
    return deleted
